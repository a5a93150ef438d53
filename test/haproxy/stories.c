/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do with opentelemetry-c-wrapper, one story per run; what they say is explained in
 * tell.h. What every SDK can do is told in test/conformance; this is what is told of calls that only this
 * one has, or refuses, and of CPU time. Usage: stories [story [milliseconds per piece of work]]; without a story, prints their
 * names.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/haproxy/tell.h"
#include "test/hosts/host.h"

static void nested(void)
{
	struct otelc_span *a = tell_start("a", "a");
	struct otelc_span *b = tell_child("b", "a", a);

	tell_burn("b", "a");
	tell_end(b);
	tell_burn("a", "a");
	tell_end(a);
	tell_burn("-", "-");
}

/* Without a parent among its arguments a span is a root, whatever is active around it. */
static void unrelated(void)
{
	struct otelc_span *a = tell_start("a", "a");
	struct otelc_span *b = tell_start("b", "b");

	/* nor does anything tell which of them the thread works for */
	tell_burn("-", "-");
	tell_end(b);
	tell_burn("a", "a");
	tell_end(a);
}

static void remote(void)
{
	static const struct otelc_carrier request = {{0x0a, 0xf7, [15] = 0x9c},
						     {0xb7, 0xad, [7] = 0x31}};
	struct otelc_span_context *far = tell_extract(&request);
	struct otelc_span_context *near;
	struct otelc_carrier own;
	struct otelc_span *a = tell_from("a", "a", far);
	struct otelc_span *b;

	tell_burn("a", "a");
	HOST_CHECK(a->ops->inject_text_map(a, &own) == OTELC_RET_OK);
	near = tell_extract(&own);
	b = tell_from("b", "a", near);
	tell_burn("b", "a");
	tell_end(b);
	tell_end(a);
	near->ops->destroy(&near);
	far->ops->destroy(&far);
}

/* All ways to end a span; what is asked of it before goes straight through. */
static void ends(void)
{
	static char key[] = "key";
	const struct otelc_kv pair = {.key = key,
				      .value = {OTELC_VALUE_STRING, {.value_string = "value"}}};
	struct otelc_span *a = tell_start("a", "a");
	struct otelc_span *b;
	struct otelc_span *c;

	HOST_CHECK(a->ops->is_recording(a) == 1);
	HOST_CHECK(a->ops->set_attribute_kv_n(a, &pair, 1) == 1);
	HOST_CHECK(a->ops->set_status(a, 1, NULL) == OTELC_RET_OK);
	HOST_CHECK(a->tracer == tell_tracer);
	tell_burn("a", "a");
	tell_end(a);
	b = tell_start("b", "b");
	tell_burn("b", "b");
	tell_end_with_options(b);
	c = tell_start("c", "c");
	tell_burn("c", "c");
	tell_destroy(c);
	tell_burn("-", "-");
}

static void renamed(void)
{
	struct otelc_span *a = tell_start("placeholder", NULL);
	struct otelc_span *b;

	tell_rename(a, "a", "a");
	/* refused, with a message */
	tell_rename(a, "", NULL);
	tell_burn("a", "a");
	b = tell_child("b", "a", a);
	tell_burn("b", "a");
	tell_end(b);
	tell_end(a);
}

/* Attributes whose values become labels (SPANPROF_SPAN_LABELS=test.value). */
static void labels(void)
{
	static char key[] = "test.value";
	const struct otelc_kv pair[] = {
		{.key = key, .value = {OTELC_VALUE_STRING, {.value_string = "a text"}}},
		{.key = key, .value = {OTELC_VALUE_INT64, {.value_int64 = 42}}},
	};

	for (unsigned i = 0; i < 2; i++) {
		struct otelc_span *a = tell_start("a", "a");

		tell_burn("a", "a");
		/* test/e2e/span_labels.sh knows what follows */
		printf("value 0 %s\n", i == 0 ? "a text" : "42");
		HOST_CHECK(a->ops->set_attribute_kv_n(a, &pair[i], 1) == 1);
		tell_end(a);
	}
}

static void refused(void)
{
	struct otelc_span_context *far = tell_extract(&(struct otelc_carrier){{1}, {1}});
	struct otelc_span *none = NULL;
	struct otelc_span *a = tell_start("a", "a");
	const struct otelc_span_ops *ops = a->ops;

	HOST_CHECK(tell_start("", NULL) == NULL);
	tell_before();
	HOST_CHECK(tell_tracer->ops->start_span(tell_tracer, NULL) == NULL);
	tell_after("start_span", 0);
	HOST_CHECK(tell_tracer->ops->start_span_with_options(tell_tracer, "x", a, far, NULL, NULL,
							     1, NULL, 0) == NULL);
	tell_after("start_span_with_options", 0);
	HOST_CHECK(tell_tracer->ops->start_span_with_options(tell_tracer, "x", NULL, NULL, NULL,
							     NULL, 17, NULL, 0) == NULL);
	tell_after("start_span_with_options", 0);
	tell_before();
	ops->end(&none);
	ops->end(NULL);
	ops->end_with_options(&none, NULL, -1, NULL);
	ops->destroy(&none);
	ops->destroy(NULL);
	tell_after("ends of nothing", 0);
#if FIXTURE_API >= 10
	tell_tracer->ops->set_enabled(tell_tracer, false);
	HOST_CHECK(tell_start("x", NULL) == NULL);
	tell_tracer->ops->set_enabled(tell_tracer, true);
#endif
	tell_burn("a", "a");
	tell_end(a);
	tell_before();
	tell_tracer->ops->shutdown(tell_tracer, NULL);
	tell_after("shutdown", 0);
	HOST_CHECK(tell_start("x", NULL) == NULL);
	far->ops->destroy(&far);
}

/* As HAProxy does it: the tracer is there before the process that works with it. */
static void forked(void)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		struct otelc_span *a = tell_start("a", "a");

		tell_burn("a", "a");
		tell_end(a);
		exit(7);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child);
	HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* No sampling, or spans that do nothing. */
static void silent(void)
{
	struct otelc_span *a = tell_start("a", NULL);
	struct otelc_span *b = tell_child("b", NULL, a);

	tell_burn("-", "-");
	tell_rename(b, "c", NULL);
	tell_end_with_options(b);
	tell_destroy(a);
}

/* Far more tracers than anybody has, one after the other and two at a time. */
static void tracers(void)
{
	struct otelc_tracer *first = tell_tracer;
	struct otelc_span *a = tell_start("a", "a");

	for (int i = 0; i < 100; i++) {
		tell_tracer = tell_create();
		if (i > 0)
			HOST_CHECK(tell_start("x", NULL) == NULL);
		tell_tracer->ops->start(tell_tracer);
		HOST_CHECK(tell_tracer->ops == first->ops);
		if (i % 10 == 0)
			tell_end(tell_child("b", "a", a));
		tell_tracer->ops->destroy(&tell_tracer);
		HOST_CHECK(tell_tracer == NULL);
	}
	tell_tracer = first;
	tell_burn("a", "a");
	tell_end(a);
}

#define CROWD 8
#define ROUNDS 20
static pthread_barrier_t all_here;

static void *one_of_the_crowd(void *argument)
{
	(void)argument;
	pthread_barrier_wait(&all_here);
	for (int i = 0; i < ROUNDS; i++) {
		struct otelc_tracer *tracer = tell_create();
		struct otelc_span *a;

		tracer->ops->start(tracer);
		a = tracer->ops->start_span(tracer, "a");
		HOST_CHECK(a != NULL && a->tracer == tracer);
		puts("span a a");
		a->ops->end(&a);
		HOST_CHECK(a == NULL);
		tracer->ops->destroy(&tracer);
	}
	return NULL;
}

/* The first tracers and spans of the process, on many threads at once. */
static void crowd(void)
{
	pthread_t thread[CROWD];

	HOST_CHECK(pthread_barrier_init(&all_here, NULL, CROWD) == 0);
	for (int i = 0; i < CROWD; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, one_of_the_crowd, NULL) == 0);
	for (int i = 0; i < CROWD; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

static const struct story {
	const char *name;
	void (*tell)(void);
} stories[] = {
	{"nested", nested},   {"unrelated", unrelated}, {"remote", remote},   {"ends", ends},
	{"labels", labels},   {"renamed", renamed},     {"refused", refused}, {"silent", silent},
	{"tracers", tracers}, {"forked", forked},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		if (argc < 2)
			puts(stories[i].name);
		else if (strcmp(stories[i].name, argv[1]) == 0) {
			if (argc > 2)
				tell_piece_ms = atoi(argv[2]);
			tell_tracer = tell_create();
			HOST_CHECK(tell_tracer != NULL);
			tell_tracer->ops->start(tell_tracer);
			tell_before();
			stories[i].tell();
			tell_deinit(tell_tracer);
			return 7;
		}
	}
	if (argc < 2)
		return 0;
	/* Without a tracer of its own. */
	HOST_CHECK(strcmp(argv[1], "crowd") == 0);
	crowd();
	return 7;
}
