/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the test SDK behaves the way the rest of the tests take for granted: what parents
 * what, what is exported and what is not, and the two oddities of the original library that a
 * profiler has to live with (a span that ends out of order, a span that ends on another thread).
 * Plain program, exit 0 = pass.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "test/sdk/opentelemetry_c.h"

#define REMOTE_TRACE "0af7651916cd43dd8448eb211c80319c"
#define REMOTE_SPAN "b7ad6b7169203331"
#define TRACEPARENT "00-" REMOTE_TRACE "-" REMOTE_SPAN "-01"
#define SAMPLED_CONTEXT "1 11 traceparent 55 " TRACEPARENT
#define UNSAMPLED_CONTEXT "1 11 traceparent 55 00-" REMOTE_TRACE "-" REMOTE_SPAN "-00"

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* A span of the dump by its name, NULL when it was not exported. Names are unique here. */
static json_t *exported(json_t *dump, const char *name)
{
	size_t i;
	json_t *span;

	json_array_foreach(dump, i,
			   span) if (strcmp(json_string_value(json_object_get(span, "name")),
					    name) == 0) return span;
	return NULL;
}

static const char *text(const json_t *span, const char *key)
{
	const char *value = json_string_value(json_object_get(span, key));

	return value != NULL ? value : "(missing)";
}

static int is_child(json_t *dump, const char *child, const char *parent)
{
	const json_t *c = exported(dump, child);
	const json_t *p = exported(dump, parent);

	return strcmp(text(c, "parent_span_id"), text(p, "span_id")) == 0 &&
	       strcmp(text(c, "trace_id"), text(p, "trace_id")) == 0;
}

static json_t *read_dump(const char *path)
{
	FILE *file = fopen(path, "re");
	json_t *dump = json_array();
	char *line = NULL;
	size_t size = 0;

	CHECK(file != NULL);
	while (file != NULL && getline(&line, &size, file) > 0) {
		json_t *span = json_loads(line, 0, NULL);

		CHECK(span != NULL);
		if (span != NULL)
			json_array_append_new(dump, span);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return dump;
}

static void *start(void *tracer, const char *name)
{
	return otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);
}

static void record_nested(void *tracer)
{
	void *outer = otelc_start_span(tracer, "outer", OTELC_SPAN_KIND_SERVER, "");
	void *inner = start(tracer, "inner");

	otelc_end_span(inner);
	inner = start(tracer, "second inner");
	otelc_end_span(inner);
	otelc_end_span(outer);
	otelc_end_span(start(tracer, "after outer"));
}

static void check_nested(json_t *dump)
{
	json_t *outer = exported(dump, "outer");
	json_t *inner = exported(dump, "inner");

	CHECK(is_child(dump, "inner", "outer"));
	CHECK(is_child(dump, "second inner", "outer"));
	CHECK(strcmp(text(outer, "parent_span_id"), "") == 0);
	CHECK(strcmp(text(exported(dump, "after outer"), "parent_span_id"), "") == 0);
	CHECK(strcmp(text(outer, "kind"), "server") == 0);
	CHECK(strcmp(text(inner, "kind"), "internal") == 0);
	CHECK(strcmp(text(outer, "service"), "selftest") == 0);
	CHECK(strlen(text(outer, "span_id")) == 16 && strlen(text(outer, "trace_id")) == 32);
	CHECK(json_integer_value(json_object_get(outer, "start_ns")) > 0);
	CHECK(json_integer_value(json_object_get(inner, "start_ns")) >=
	      json_integer_value(json_object_get(outer, "start_ns")));
	CHECK(json_integer_value(json_object_get(outer, "end_ns")) >=
	      json_integer_value(json_object_get(outer, "start_ns")));
}

static void record_remote(void *tracer)
{
	void *local = start(tracer, "local");
	void *span =
		otelc_start_span(tracer, "remote child", OTELC_SPAN_KIND_SERVER, SAMPLED_CONTEXT);

	otelc_end_span(start(tracer, "remote grandchild"));
	otelc_end_span(span);
	otelc_end_span(otelc_start_span(tracer, "cut context", OTELC_SPAN_KIND_SERVER,
					"1 11 traceparent 55 00-0af7"));
	otelc_end_span(otelc_start_span(tracer, "overlong context", OTELC_SPAN_KIND_SERVER,
					"1 11 traceparent 99 " TRACEPARENT));
	otelc_end_span(otelc_start_span(tracer, "bad context", OTELC_SPAN_KIND_SERVER, "nonsense"));
	otelc_end_span(local);
}

static void check_remote(json_t *dump)
{
	json_t *child = exported(dump, "remote child");

	CHECK(strcmp(text(child, "trace_id"), REMOTE_TRACE) == 0);
	CHECK(strcmp(text(child, "parent_span_id"), REMOTE_SPAN) == 0);
	CHECK(is_child(dump, "remote grandchild", "remote child"));
	CHECK(is_child(dump, "cut context", "local"));
	CHECK(is_child(dump, "overlong context", "local"));
	CHECK(is_child(dump, "bad context", "local"));
}

/* The string must be readable by the same library, and name the span it came from. */
static void check_propagation(void *tracer)
{
	void *span = start(tracer, "propagating");
	char *context = otelc_extract_context_from_current_span(span);

	CHECK(strncmp(context, "1 11 traceparent 55 00-", 23) == 0);
	CHECK(strlen(context) == strlen("1 11 traceparent 55 ") + 55);
	CHECK(strcmp(context + strlen(context) - 3, "-01") == 0);
	otelc_end_span(span);
	otelc_end_span(otelc_start_span(tracer, "propagated", OTELC_SPAN_KIND_CONSUMER, context));
	free(context);
}

static void record_attributes(void *tracer)
{
	char value[] = "first";
	void *map = otelc_create_attr_map();
	void *span = start(tracer, "with \"attributes\"\n");

	otelc_set_str_attr(map, "string", value);
	/* The map keeps the pointer, so what counts is the text when the span gets it. */
	memcpy(value, "later", sizeof(value));
	otelc_set_bool_attr(map, "bool", 7);
	otelc_set_int32_t_attr(map, "int32", -5);
	otelc_set_int64_t_attr(map, "int64", -5000000000);
	otelc_set_uint64_t_attr(map, "uint64", 5000000000);
	otelc_set_double_attr(map, "double", 0.5);
	otelc_set_span_attrs(span, map);
	otelc_add_span_event(span, "event", map);
	otelc_set_span_status(span, OTELC_SPAN_STATUS_CODE_ERROR, "broken");
	otelc_destroy_attr_map(map);
	otelc_end_span(span);
}

static void check_attributes(json_t *dump)
{
	json_t *span = exported(dump, "with \"attributes\"\n");
	const json_t *attributes = json_object_get(span, "attributes");

	CHECK(json_object_size(attributes) == 6);
	CHECK(strcmp(text(attributes, "string"), "later") == 0);
	CHECK(json_is_true(json_object_get(attributes, "bool")));
	CHECK(json_integer_value(json_object_get(attributes, "int32")) == -5);
	CHECK(json_integer_value(json_object_get(attributes, "int64")) == -5000000000);
	CHECK(json_integer_value(json_object_get(attributes, "uint64")) == 5000000000);
	CHECK(json_number_value(json_object_get(attributes, "double")) == 0.5);
	CHECK(strcmp(text(span, "status"), "error") == 0);
}

/* Detaching a scope below the top takes everything above it along. */
static void *record_out_of_order(void *tracer)
{
	void *first = start(tracer, "first");
	void *second = start(tracer, "second");

	otelc_end_span(first);
	otelc_end_span(start(tracer, "after first"));
	otelc_end_span(second);
	return NULL;
}

static void *end_span(void *span)
{
	otelc_end_span(span);
	return NULL;
}

static void run_thread(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, arg) != 0) {
		perror("pthread_create");
		exit(1);
	}
	pthread_join(thread, NULL);
}

/* The scope can only be detached where it was attached, so the ended span stays current here. */
static void *record_foreign_end(void *tracer)
{
	void *span = start(tracer, "ended elsewhere");

	run_thread(end_span, span);
	otelc_end_span(start(tracer, "after foreign end"));
	return NULL;
}

static void check_oddities(json_t *dump)
{
	CHECK(is_child(dump, "second", "first"));
	CHECK(strcmp(text(exported(dump, "after first"), "parent_span_id"), "") == 0);
	CHECK(is_child(dump, "after foreign end", "ended elsewhere"));
	CHECK(is_child(dump, "propagated", "propagating"));
}

static void check_recorded(const char *path)
{
	void *tracer;
	json_t *dump;

	otelc_init_tracer_provider("selftest", "1.0", "spanprof", "");
	tracer = otelc_get_tracer();
	record_nested(tracer);
	record_remote(tracer);
	record_attributes(tracer);
	check_propagation(tracer);
	run_thread(record_out_of_order, tracer);
	run_thread(record_foreign_end, tracer);
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();

	dump = read_dump(path);
	CHECK(json_array_size(dump) == 18);
	check_nested(dump);
	check_remote(dump);
	check_attributes(dump);
	check_oddities(dump);
	json_decref(dump);
}

/* An unsampled span has ids and takes attributes, but nobody ever sees it again. */
static void check_unsampled(const char *path)
{
	char *context;
	void *tracer;
	void *span;
	json_t *dump;

	setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on", 1);
	otelc_init_tracer_provider("selftest", NULL, NULL, NULL);
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, "unsampled", OTELC_SPAN_KIND_SERVER, UNSAMPLED_CONTEXT);
	context = otelc_extract_context_from_current_span(span);
	CHECK(strstr(context, REMOTE_TRACE) != NULL && strstr(context, REMOTE_SPAN) == NULL);
	CHECK(strcmp(context + strlen(context) - 3, "-00") == 0);
	free(context);
	otelc_end_span(start(tracer, "unsampled child"));
	otelc_end_span(span);
	otelc_end_span(start(tracer, "sampled root"));
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();

	dump = read_dump(path);
	CHECK(json_array_size(dump) == 1);
	CHECK(exported(dump, "sampled root") != NULL);
	json_decref(dump);
	unsetenv("OTEL_TRACES_SAMPLER");
}

/* Without a provider the API's no-op tracer answers, and there is no context to propagate. */
static void check_no_provider(void)
{
	void *tracer = otelc_get_tracer();
	void *span = start(tracer, "nobody listens");
	char *context = otelc_extract_context_from_current_span(span);

	CHECK(strcmp(context, "0") == 0);
	free(context);
	otelc_end_span(span);
	otelc_destroy_tracer(tracer);
}

/* Two processes share one file; neither calls otelc_destroy_tracer_provider, as real hosts do. */
static void check_end_of_process(const char *path)
{
	const char *name[] = {"in the first process", "in the second process"};
	json_t *dump;
	int status;

	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child == 0) {
			void *tracer;

			otelc_init_tracer_provider("selftest", NULL, NULL, NULL);
			tracer = otelc_get_tracer();
			otelc_end_span(start(tracer, name[i]));
			exit(0);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	dump = read_dump(path);
	CHECK(exported(dump, name[0]) != NULL && exported(dump, name[1]) != NULL);
	json_decref(dump);
}

int main(void)
{
	char path[] = "/tmp/otelc-selftest-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0) {
		perror("mkstemp");
		return 1;
	}
	setenv("OTELC_SPANS_JSON", path, 1);
	check_no_provider();
	check_end_of_process(path);
	CHECK(ftruncate(fd, 0) == 0);
	check_recorded(path);
	CHECK(ftruncate(fd, 0) == 0);
	check_unsampled(path);
	close(fd);
	unlink(path);
	if (failures == 0)
		printf("selftest: pass\n");
	return failures != 0;
}
