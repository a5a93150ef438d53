/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels its own work, beside and inside spans of an SDK, and prints the result of each push, and the CPU time of
 * each label. Of the profiler it uses only the public header. Compiled as C and as C++, for every kind of executable,
 * and as a plugin.
 */
#include <signal.h>

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
#define PIECE_TICKS 10
#define LEAKED 5000

static volatile sig_atomic_t ticks;

static void count_tick(int sig)
{
	(void)sig;
	ticks = ticks + 1;
}

/* A timer of CPU time expires at a tick of the kernel's clock that hits the running thread. */
static void start_ticks(void)
{
	struct sigaction action;
	struct sigevent event;
	struct itimerspec spec;
	timer_t timer;

	memset(&action, 0, sizeof(action));
	memset(&event, 0, sizeof(event));
	memset(&spec, 0, sizeof(spec));
	action.sa_handler = count_tick;
	action.sa_flags = SA_RESTART;
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGUSR1;
	spec.it_value.tv_nsec = spec.it_interval.tv_nsec = 2000000;
	HOST_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	HOST_CHECK(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
	HOST_CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
}

/* On a busy machine few ticks hit the running thread, so a piece of work may take longer. */
static void work(const char *label)
{
	int64_t begun = host_cpu_ns();
	int from = ticks;

	do
		host_burn_ms(5);
	while (host_cpu_ns() - begun < PIECE_MS * INT64_C(1000000) || ticks - from < PIECE_TICKS);
	printf("worked %lld %s\n", (long long)(host_cpu_ns() - begun), label);
}

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
	work("block");
	if (errno == 0)
		return;
	errno = 0;
}

static void nested(void)
{
	spanprof_label_pop();
	push(ID_OUTER, "outer");
	work("outer");
	push("not an id", "refused");
	push(ID_INNER, "inner");
	work("inner");
	spanprof_label_pop();
	spanprof_label_pop();
	work("outer");
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
	work("in span");
	void *child = otelc_start_span(tracer, "span of span", OTELC_SPAN_KIND_INTERNAL, NULL);

	work("span of span");
	/* this pop does not end the span, but only the label below it */
	spanprof_label_pop();
	work("span of span");
	otelc_end_span(child);
	spanprof_label_pop();
	otelc_end_span(span);

	push(ID_AROUND, "around");
	span = otelc_start_span(tracer, "span inside", OTELC_SPAN_KIND_SERVER, NULL);
	work("span inside");
	otelc_end_span(span);
	work("around");
	spanprof_label_pop();
}

/* Far too many pushes, and then a span that must find room. */
static void leak(void)
{
	void *span;

	for (int i = 0; i < LEAKED; i++)
		(void)spanprof_label_push(ID_OUTER, "leaked");
	span = otelc_start_span(otelc_get_tracer(), "after", OTELC_SPAN_KIND_SERVER, NULL);
	work("after");
	otelc_end_span(span);
	for (int i = 0; i < LEAKED + 3; i++)
		spanprof_label_pop();
	push(ID_BLOCK, "balanced again");
	work("balanced again");
	spanprof_label_pop();
}
#endif

#if defined(__cplusplus)
static void scoped(void)
{
	spanprof::Label label("00f067aa0ba902bc", "scoped");

	printf("scoped: %s\n", strerror(label.status()));
	work("scoped");
}

extern "C"
#endif
	__attribute__((visibility("default"))) int
	labels_run(const char *story);

int labels_run(const char *story)
{
	start_ticks();
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
