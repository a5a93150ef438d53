/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels its own work, beside and inside spans of an SDK, and prints what each push returned. Knows
 * of the profiler what every program may: its public header. Compiled as C and as C++, for every kind
 * of executable, and as a plugin.
 */
#include "preload/spanprof.h"
#include "test/hosts/host.h"

#if defined(LABELS_WITH_SPANS)
#include "test/sdk/opentelemetry_c.h"
#endif

#define ID_OUTER "00f067aa0ba902b7"
#define ID_INNER "00F067AA0BA902B8"
#define ID_BLOCK "00f067aa0ba902b9"
#define ID_IN_SPAN "00f067aa0ba902ba"
#define ID_AROUND "00f067aa0ba902bb"
#define PIECE_MS 60
#define LEAKED 5000

static void push(const char *id, const char *name)
{
	errno = 4711;
	printf("push %s: %s", id != NULL ? id : "NULL", strerror(spanprof_label_push(id, name)));
	printf(errno == 4711 ? "\n" : ", errno changed\n");
}

static void refused(void)
{
	const char *const bad[] = {"",
				   "1",
				   "00f067aa0ba902b",
				   "00f067aa0ba902b77",
				   "00f067aa0ba902bg",
				   "0000000000000000",
				   "ffffffffffffffff",
				   " 0f067aa0ba902b7",
				   "+0f067aa0ba902b7",
				   NULL};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		push(bad[i], "refused");
		host_burn_ms(2);
		spanprof_label_pop();
	}
}

static void block(void)
{
	SPANPROF_LABEL(ID_BLOCK, "block");
	host_burn_ms(PIECE_MS);
	if (errno == 0)
		return;
	errno = 0;
}

static void nested(void)
{
	spanprof_label_pop();
	push(ID_OUTER, "outer");
	host_burn_ms(PIECE_MS);
	push("not an id", "refused");
	push(ID_INNER, "inner");
	host_burn_ms(PIECE_MS);
	spanprof_label_pop();
	spanprof_label_pop();
	host_burn_ms(PIECE_MS);
	spanprof_label_pop();
	spanprof_label_pop();
	spanprof_label_pop();
}

#if defined(LABELS_WITH_SPANS)
static void with_spans(void)
{
	void *tracer = otelc_get_tracer();
	void *span = otelc_start_span(tracer, "span outside", OTELC_SPAN_KIND_SERVER, NULL);

	push(ID_IN_SPAN, "in span");
	host_burn_ms(PIECE_MS);
	void *child = otelc_start_span(tracer, "span of span", OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(PIECE_MS);
	/* not the span's: ends the label below it, and nothing else */
	spanprof_label_pop();
	host_burn_ms(PIECE_MS);
	otelc_end_span(child);
	spanprof_label_pop();
	otelc_end_span(span);

	push(ID_AROUND, "around");
	span = otelc_start_span(tracer, "span inside", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(PIECE_MS);
	otelc_end_span(span);
	host_burn_ms(PIECE_MS);
	spanprof_label_pop();
}

/* Far too many, and then a span that must find room. */
static void leak(void)
{
	void *span;

	for (int i = 0; i < LEAKED; i++)
		(void)spanprof_label_push(ID_OUTER, "leaked");
	span = otelc_start_span(otelc_get_tracer(), "after", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(PIECE_MS);
	otelc_end_span(span);
	for (int i = 0; i < LEAKED + 3; i++)
		spanprof_label_pop();
	push(ID_BLOCK, "balanced again");
	host_burn_ms(PIECE_MS);
	spanprof_label_pop();
}
#endif

#if defined(__cplusplus)
static void scoped(void)
{
	spanprof::Label label("00f067aa0ba902bc", "scoped");

	printf("scoped: %s\n", strerror(label.status()));
	host_burn_ms(PIECE_MS);
}

extern "C"
#endif
	__attribute__((visibility("default"))) int
	labels_run(const char *story);

int labels_run(const char *story)
{
#if defined(LABELS_WITH_SPANS)
	if (strcmp(story, "spans") == 0)
		with_spans();
	if (strcmp(story, "leak") == 0)
		leak();
#endif
	if (strcmp(story, "alone") == 0) {
		refused();
		nested();
		block();
#if defined(__cplusplus)
		scoped();
#endif
	}
	return 21;
}

#if !defined(LABELS_PLUGIN)
int main(int argc, char **argv)
{
	HOST_CHECK(argc > 1);
	return labels_run(argv[1]);
}
#endif
