/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do with otap-labs/opentelemetry-c, one story per run; what they say is explained in
 * tell.h. What every SDK can do is told in test/conformance; this is what is told of calls that only this
 * one has, or refuses, and of CPU time. Built as programs of several link modes and as a plugin.
 * Usage: stories [story [milliseconds per piece of work]]; without a story, prints their names.
 */
#include "test/hosts/host.h"
#include "test/otelc/tell.h"

#define CONTEXTS_MAX 64

__attribute__((visibility("default"))) int stories_run(int argc, char **argv);

static void nested(void)
{
	otel_span_t *a = tell_start("a", "a", NULL);
	otel_span_t *b = tell_start("b", "a", a);

	tell_burn("b", "a");
	tell_finish(b);
	tell_burn("a", "a");
	tell_finish(a);
	tell_burn("-", "-");
}

/* Without a parent among its arguments a span is a root, whatever is active around it. */
static void unrelated(void)
{
	otel_span_t *a = tell_start("a", "a", NULL);
	otel_span_t *b = tell_start("b", "b", NULL);

	/* nor does anything tell which of them the thread works for */
	tell_burn("-", "-");
	tell_finish(b);
	tell_burn("a", "a");
	tell_finish(a);
}

static otel_span_context_t *ids_of(const otel_span_t *span)
{
	otel_span_context_t *ids;

	HOST_CHECK(otel_span_get_context(span, &ids) == OTEL_OK);
	return ids;
}

static void remote(void)
{
	static const uint8_t trace_id[16] = {0x0a, 0xf7, 0x65, 0x19, [15] = 0x9c};
	static const uint8_t span_id[8] = {0xb7, 0xad, 0x6b, [7] = 0x31};
	otel_span_context_t *far;
	otel_span_context_t *near;
	otel_span_t *a;
	otel_span_t *b;
	otel_span_t *c;

	far = otel_span_context_create(trace_id, span_id, 1, 1, tell_view(""));
	a = tell_start_from("a", "a", far);
	near = ids_of(a);
	tell_burn("a", "a");
	b = tell_start_from("b", "a", near);
	tell_burn("b", "a");
	tell_finish(b);
	/* a caller that knows the first fields only */
	c = tell_start_ex("c", "a",
			  &(otel_span_start_options_ex_t){.struct_size = 40,
							  .parent_context = near,
							  .parent_mode = OTEL_PARENT_ROOT});
	tell_burn("c", "a");
	tell_finish(c);
	tell_finish(a);
	otel_span_context_destroy(near);
	otel_span_context_destroy(far);
}

/* From its first attach on, a process shows by contexts what a thread works for. */
static void first_attach(void)
{
	otel_context_scope_t scope = OTEL_SCOPE_INIT;
	otel_context_t *none = tell_context(NULL);

	tell_finish(tell_start("warm", "warm", NULL));
	tell_attach(none, &scope);
	tell_detach(&scope);
	otel_context_destroy(none);
}

static void ambient(void)
{
	otel_span_start_options_ex_t options = {.struct_size = sizeof(options),
						.parent_mode = OTEL_PARENT_AMBIENT};
	otel_context_scope_t scope = OTEL_SCOPE_INIT;
	otel_context_t *context;
	otel_span_t *a;
	otel_span_t *b;
	otel_span_t *c;
	otel_span_t *d;
	otel_span_t *e;

	first_attach();
	a = tell_start("a", "a", NULL);
	context = tell_context(a);
	d = tell_start_ex("d", "d", &options);
	tell_attach(context, &scope);
	b = tell_start_ex("b", "a", &options);
	options.parent_mode = OTEL_PARENT_ROOT;
	c = tell_start_ex("c", "c", &options);
	/* a caller that does not know of parent modes: what follows its struct is not one */
	options.parent_mode = OTEL_PARENT_AMBIENT;
	options.struct_size = offsetof(otel_span_start_options_ex_t, parent_mode);
	e = tell_start_ex("e", "e", &options);
	tell_burn("a", "a");
	tell_detach(&scope);
	tell_burn("-", "-");
	for (int i = 0; i < 4; i++) {
		otel_span_t *span = (otel_span_t *[]){b, c, d, e}[i];
		otel_context_t *own = tell_context(span);

		tell_attach(own, &scope);
		tell_burn((const char *[]){"b", "c", "d", "e"}[i],
			  (const char *[]){"a", "c", "d", "e"}[i]);
		tell_detach(&scope);
		otel_context_destroy(own);
		tell_finish(span);
	}
	tell_finish(a);
	otel_context_destroy(context);
}

static void *detach_there(void *scope)
{
	otel_context_scope_t copy = *(otel_context_scope_t *)scope;

	tell_detach(&copy);
	return NULL;
}

static void scopes(void)
{
	otel_context_scope_t outer = OTEL_SCOPE_INIT;
	otel_context_scope_t inner = OTEL_SCOPE_INIT;
	otel_context_scope_t copy;
	otel_context_t *of_a;
	otel_context_t *of_b;
	otel_context_t *of_none = tell_context(NULL);
	otel_span_t *a;
	otel_span_t *b;

	first_attach();
	a = tell_start("a", "a", NULL);
	b = tell_start("b", "a", a);
	of_a = tell_context(a);
	of_b = tell_context(b);
	tell_burn("-", "-");
	tell_attach(of_a, &outer);
	tell_burn("a", "a");
	tell_attach(of_b, &inner);
	copy = inner;
	/* refused: not the innermost */
	tell_detach(&outer);
	tell_burn("b", "a");
	tell_detach(&inner);
	/* refused: detached already */
	tell_detach(&inner);
	tell_detach(&copy);
	tell_burn("a", "a");
	tell_elsewhere(detach_there, &outer);
	tell_burn("a", "a");
	/* a context without a span hides what is around it */
	tell_attach(of_none, &inner);
	tell_burn("-", "-");
	tell_detach(&inner);
	tell_burn("a", "a");
	tell_detach(&outer);
	tell_burn("-", "-");
	tell_finish(b);
	tell_finish(a);
	otel_context_destroy(of_a);
	otel_context_destroy(of_b);
	otel_context_destroy(of_none);
}

static void full_stack(void)
{
	static otel_context_scope_t scope[CONTEXTS_MAX];
	otel_context_scope_t one_more = OTEL_SCOPE_INIT;
	otel_context_t *of_a;
	otel_context_t *of_b;
	otel_span_t *a;
	otel_span_t *b;

	first_attach();
	a = tell_start("a", "a", NULL);
	b = tell_start("b", "b", NULL);
	of_a = tell_context(a);
	of_b = tell_context(b);
	for (int i = 0; i < CONTEXTS_MAX; i++) {
		scope[i].struct_size = sizeof(scope[i]);
		tell_attach(of_a, &scope[i]);
	}
	tell_attach(of_b, &one_more);
	tell_burn("a", "a");
	tell_detach(&one_more);
	tell_burn("a", "a");
	for (int i = CONTEXTS_MAX; i-- > 0;)
		tell_detach(&scope[i]);
	tell_burn("-", "-");
	tell_finish(b);
	tell_finish(a);
	otel_context_destroy(of_a);
	otel_context_destroy(of_b);
}

static void ends(void)
{
	otel_span_t *a = tell_start("a", "a", NULL);
	otel_span_t *b;
	otel_span_t *c;

	tell_burn("a", "a");
	tell_end(a);
	tell_end(a);
	tell_burn("-", "-");
	tell_destroy(a);
	b = tell_start("b", "b", NULL);
	tell_burn("b", "b");
	/* destroying leaves the error of the call before it to be read */
	tell_result("start",
		    otel_tracer_start_span(NULL, tell_view("x"), NULL) == NULL ? "NULL" : "span");
	tell_destroy(b);
	tell_burn("-", "-");
	c = tell_start("c", "c", NULL);
	HOST_CHECK(otel_span_set_string_attribute(c, tell_view("key"), tell_view("value")) == 0);
	tell_destroy(c);
}

static void refused(void)
{
	otel_span_start_options_ex_t options = {.struct_size = 39};
	otel_string_view_t malformed = {NULL, 3};
	otel_context_scope_t small = {.struct_size = 32, .generation = 7};
	otel_context_scope_t unused = OTEL_SCOPE_INIT;
	otel_span_t *a = tell_start("a", "a", NULL);

	tell_result("start",
		    otel_tracer_start_span(tell_tracer, malformed, NULL) == NULL ? "NULL" : "span");
	(void)tell_start_ex("x", NULL, NULL);
	(void)tell_start_ex("x", NULL, &options);
	options.struct_size = sizeof(options);
	options.parent = a;
	options.parent_mode = OTEL_PARENT_ROOT;
	(void)tell_start_ex("x", NULL, &options);
	(void)tell_start_from("x", NULL, NULL);
	tell_end(NULL);
	tell_destroy(NULL);
	tell_attach(NULL, NULL);
	tell_attach(NULL, &unused);
	tell_detach(NULL);
	tell_detach(&unused);
	tell_detach(&small);
	tell_status("set_attribute",
		    otel_span_set_attribute(a, (otel_key_value_t){.key = tell_view("number"),
								  .value_type = 2,
								  .value.i = -3}));
	tell_status("update_name", otel_span_update_name(NULL, tell_view("none")));
	tell_status("update_name", otel_span_update_name(a, tell_view("a")));
	tell_burn("a", "a");
	tell_finish(a);
}

/* A key that others write as well. */
static void own_attribute(void)
{
	otel_span_t *a = tell_start("a", "a", NULL);
	otel_span_t *b;

	HOST_CHECK(otel_span_set_string_attribute(a, tell_view("pyroscope.profile.id"),
						  tell_view(HOSTS_WORD)) == 0);
	printf("attribute a pyroscope.profile.id %s\n", HOSTS_WORD);
	tell_burn("a", "a");
	tell_end(a);
	tell_destroy(a);
	b = tell_start("b", "b", NULL);
	tell_burn("b", "b");
	tell_end(b);
	tell_destroy(b);
}

/* Of a root that works and then has that attribute, by whichever function. */
static void with_value(const char *value, void (*set)(otel_span_t *span, otel_string_view_t key))
{
	otel_span_t *a = tell_start("a", "a", NULL);
	otel_span_t *b;

	tell_burn("a", "a");
	b = tell_start("b", "a", a);
	HOST_CHECK(otel_span_set_string_attribute(b, tell_view("test.value"),
						  tell_view("of the child")) == 0);
	tell_burn("b", "a");
	tell_finish(b);
	/* test/e2e/span_labels.sh knows what follows */
	printf("value 0 %s\n", value);
	set(a, tell_view("test.value"));
	tell_end(a);
	HOST_CHECK(otel_span_set_int64_attribute(a, tell_view("test.value"), 1) == 0);
	tell_destroy(a);
}

static void set_text(otel_span_t *span, otel_string_view_t key)
{
	HOST_CHECK(otel_span_set_string_attribute(span, key, tell_view("a text")) == 0);
}

static void set_number(otel_span_t *span, otel_string_view_t key)
{
	HOST_CHECK(otel_span_set_int64_attribute(span, key, INT64_MIN) == 0);
}

static void set_bool(otel_span_t *span, otel_string_view_t key)
{
	tell_status("set_bool_attribute", otel_span_set_bool_attribute(span, key, 1));
}

static void set_double(otel_span_t *span, otel_string_view_t key)
{
	tell_status("set_double_attribute", otel_span_set_double_attribute(span, key, 0.1));
}

static void set_by_value(otel_span_t *span, otel_string_view_t key)
{
	tell_status(
		"set_attribute",
		otel_span_set_attribute(
			span, (otel_key_value_t){.key = key, .value_type = 3, .value.d = -2.5}));
}

static void set_nothing(otel_span_t *span, otel_string_view_t key)
{
	(void)span;
	(void)key;
}

/* Attributes whose values become labels (SPANPROF_SPAN_LABELS=test.value), by each way to set them. */
static void labels(void)
{
	const otel_key_value_t given = {
		.key = tell_view("test.value"), .value_type = 2, .value.i = 42};
	const otel_span_start_options_ex_t options = {
		.struct_size = sizeof(options), .attributes = &given, .attribute_count = 1};
	const otel_key_value_t behind = {
		.key = tell_view("test.value"), .value_type = 2, .value.i = 43};
	const otel_span_start_options_ex_t before = {
		.struct_size = 40, .attributes = &behind, .attribute_count = 1};
	otel_span_t *a;

	with_value("a text", set_text);
	with_value("-9223372036854775808", set_number);
	with_value("true", set_bool);
	with_value("0.1", set_double);
	with_value("-2.5", set_by_value);
	with_value("-", set_nothing);
	a = tell_start_ex("a", "a", &options);
	tell_burn("a", "a");
	printf("value 0 42\n");
	tell_finish(a);
	/* Of a caller of the first release, whose struct ends before attributes: what lies there is none. */
	a = tell_start_ex("b", "b", &before);
	tell_burn("b", "b");
	tell_finish(a);
}

/* As a server does that knows the route only after it has begun. */
static void renamed(void)
{
	otel_span_t *a = tell_start("draft", NULL, NULL);
	otel_span_t *b;

	tell_rename(a, "a", "a");
	tell_burn("a", "a");
	b = tell_start("draft", NULL, a);
	tell_rename(b, "b", "a");
	tell_burn("b", "a");
	tell_finish(b);
	tell_burn("a", "a");
	tell_end(a);
	tell_status("update_name", otel_span_update_name(a, tell_view("a")));
	tell_destroy(a);
}

/* Names that no label can be made of. */
static void unnamed(void)
{
	otel_string_view_t none = {NULL, 0};
	otel_span_t *a = otel_tracer_start_span(tell_tracer, none, NULL);

	tell_result("start", a != NULL ? "span" : "NULL");
	tell_burn("-", "-");
	tell_finish(a);
	tell_finish(tell_start("", NULL, NULL));
}

/* No SDK, no sampling: spans that say nothing. */
static void silent(void)
{
	otel_span_t *a = tell_start("a", NULL, NULL);
	otel_span_t *b = tell_start("b", NULL, a);

	tell_burn("-", "-");
	tell_finish(b);
	tell_finish(a);
}

static void shutdown_first(void)
{
	tell_status("shutdown", otel_sdk_shutdown(NULL, 1000));
	silent();
}

static void shutdown_between(void)
{
	otel_span_t *a = tell_start("a", "a", NULL);

	tell_burn("a", "a");
	tell_status("shutdown", otel_sdk_shutdown(NULL, 1000));
	tell_finish(a);
	silent();
}

static const struct story {
	const char *name;
	void (*tell)(void);
} stories[] = {
	{"nested", nested},
	{"unrelated", unrelated},

	{"remote", remote},
	{"ambient", ambient},
	{"scopes", scopes},
	{"full_stack", full_stack},
	{"ends", ends},
	{"refused", refused},
	{"own_attribute", own_attribute},
	{"labels", labels},
	{"renamed", renamed},
	{"unnamed", unnamed},
	{"silent", silent},
	{"shutdown_first", shutdown_first},
	{"shutdown_between", shutdown_between},
};

int stories_run(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		if (argc < 2)
			puts(stories[i].name);
		else if (strcmp(stories[i].name, argv[1]) == 0) {
			if (argc > 2)
				tell_piece_ms = atoi(argv[2]);
			tell_tracer = otel_tracer_provider_get_tracer(
				otel_global_tracer_provider(), tell_view("stories"), tell_view("1"),
				tell_view("schema"));
			errno = 4242;
			stories[i].tell();
			return 7;
		}
	}
	return argc < 2 ? 0 : 1;
}
