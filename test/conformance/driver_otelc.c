/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' SDK: otap-labs/opentelemetry-c, as test/otelc stands in for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test/conformance/byname.h"
#include "test/conformance/driver.h"
#include "test/hosts/host.h"
#include "test/otelc/otelc.h"

static otel_tracer_t *tracer;

static otel_string_view_t view(const char *text)
{
	return (otel_string_view_t){text, strlen(text)};
}

/* Called before a call that the SDK answers with a status, and after it. */
static void before(void)
{
	errno = 4242;
}

static void said(const char *call, unsigned result)
{
	int after = errno;
	otel_string_view_t error = SDK(otel_last_error_message)();

	printf("%s %u errno %d error %.*s\n", call, result, after, (int)error.len,
	       error.ptr != NULL ? error.ptr : "");
}

static void set_up(enum driver_provider provider)
{
	if (provider == PROVIDER_UNSAMPLED)
		setenv("FIXTURE_MODE", "unsampled", 1);
	if (provider == PROVIDER_NONE)
		setenv("FIXTURE_MODE", "noop", 1);
	tracer = SDK(otel_tracer_provider_get_tracer)(SDK(otel_global_tracer_provider)(),
						      view("conformance"), view("1"), view(""));
	HOST_CHECK(tracer != NULL);
}

static void shut_down(void)
{
	HOST_CHECK(SDK(otel_sdk_shutdown)(NULL, 1000) == OTEL_OK);
}

static void *start(const char *name, const void *parent)
{
	static __thread unsigned turns;
	unsigned turn = turns++ % 4;
	otel_span_start_options_t options = {.kind = 1, .parent = parent};
	/* A caller that does not know parent modes: the bytes behind its struct are no mode. */
	otel_span_start_options_ex_t more = {
		.struct_size = offsetof(otel_span_start_options_ex_t, parent_mode),
		.parent_mode = parent != NULL ? OTEL_PARENT_ROOT : OTEL_PARENT_AMBIENT};
	otel_span_context_t *ids_of_parent = NULL;
	otel_span_t *span;

	if (turn == 0)
		return SDK(otel_tracer_start_span)(tracer, view(name),
						   parent != NULL ? &options : NULL);
	if (parent != NULL)
		(void)SDK(otel_span_get_context)(parent, &ids_of_parent);
	/* a span without effect has no ids */
	if (turn == 1 || (parent != NULL && ids_of_parent == NULL))
		return SDK(otel_tracer_start_span)(tracer, view(name), &options);
	if (turn == 2 && parent != NULL) {
		options.parent = NULL;
		span = SDK(otel_tracer_start_span_with_context)(tracer, view(name), &options,
								ids_of_parent);
	} else {
		more.parent_context = ids_of_parent;
		if (turn == 2) {
			more.struct_size = sizeof(more);
			more.parent_mode = OTEL_PARENT_ROOT;
		}
		span = SDK(otel_tracer_start_span_ex)(tracer, view(name), &more);
	}
	SDK(otel_span_context_destroy)(ids_of_parent);
	return span;
}

static void *start_ambient(const char *name)
{
	otel_span_start_options_ex_t options = {.struct_size = sizeof(options),
						.parent_mode = OTEL_PARENT_AMBIENT};

	return SDK(otel_tracer_start_span_ex)(tracer, view(name), &options);
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	otel_span_context_t *context =
		SDK(otel_span_context_create)(parent->trace_id, parent->span_id, 1, 1, view(""));
	void *span = SDK(otel_tracer_start_span_with_context)(tracer, view(name), NULL, context);

	SDK(otel_span_context_destroy)(context);
	return span;
}

#ifndef BY_DLSYM
/* The first release has none (test/e2e/otelc_calls.sh). */
#pragma weak otel_span_get_context
#endif

static bool ids(const void *span, struct driver_ids *out)
{
	otel_span_context_t *context = NULL;
	bool ok = SDK(otel_span_get_context) != NULL &&
		  SDK(otel_span_get_context)(span, &context) == OTEL_OK &&
		  SDK(otel_span_context_trace_id)(context, out->trace_id) == OTEL_OK &&
		  SDK(otel_span_context_span_id)(context, out->span_id) == OTEL_OK;

	if (context != NULL)
		SDK(otel_span_context_destroy)(context);
	return ok;
}

static void rename_span(void *span, const char *name)
{
	HOST_CHECK(SDK(otel_span_update_name)(span, view(name)) == OTEL_OK);
}

static void set_attribute(void *span, const char *key, const char *value)
{
	static __thread unsigned turns;
	otel_key_value_t given = {
		.key = view(key), .value_type = OTEL_STRING, .value.s = view(value)};

	HOST_CHECK((turns++ % 2 == 0 ? SDK(otel_span_set_attribute)(span, given)
				     : SDK(otel_span_set_string_attribute)(
					       span, given.key, given.value.s)) == OTEL_OK);
}

static void *start_with(const char *name, const char *key, const char *value)
{
	const otel_key_value_t given = {
		.key = view(key), .value_type = OTEL_STRING, .value.s = view(value)};
	const otel_span_start_options_ex_t options = {
		.struct_size = sizeof(options), .attributes = &given, .attribute_count = 1};

	return SDK(otel_tracer_start_span_ex)(tracer, view(name), &options);
}

/*
 * A caller of the first release has options that end before the attributes: the bytes behind them are no attributes.
 */
static void *start_with_value(const char *name, unsigned way, const char **text)
{
	const otel_key_value_t given = {
		.key = view("test.value"), .value_type = 2, .value.i = 42 + way};
	const otel_span_start_options_ex_t options = {
		.struct_size = way == 0 ? sizeof(options)
					: offsetof(otel_span_start_options_ex_t, attributes),
		.attributes = &given,
		.attribute_count = 1};

	if (way > 1)
		return NULL;
	*text = way == 0 ? "42" : "-";
	return SDK(otel_tracer_start_span_ex)(tracer, view(name), &options);
}

static void *start_linked(const char *name, const void *other, const struct driver_ids *far,
			  bool is_remote)
{
	otel_span_link_t links[] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
	otel_span_context_t *of_other = NULL;
	otel_span_context_t *of_far =
		SDK(otel_span_context_create)(far->trace_id, far->span_id, 1, 1, view(""));
	otel_span_start_options_ex_t options = {
		.struct_size = offsetof(otel_span_start_options_ex_t, parent_mode),
		.parent_context = is_remote ? of_far : NULL,
		.links = links,
		.link_count = 2};
	void *span;

	(void)SDK(otel_span_get_context)(other, &of_other);
	links[0].context = of_far;
	links[1].context = of_other;
	span = SDK(otel_tracer_start_span_ex)(tracer, view(name), &options);
	SDK(otel_span_context_destroy)(of_other);
	SDK(otel_span_context_destroy)(of_far);
	return span;
}

static const char *set_value(void *span, unsigned way)
{
	otel_string_view_t key = view("test.value");

	switch (way) {
	case 0:
		HOST_CHECK(SDK(otel_span_set_int64_attribute)(span, key, INT64_MIN) == OTEL_OK);
		return "-9223372036854775808";
	case 1:
		HOST_CHECK(SDK(otel_span_set_bool_attribute)(span, key, 1) == OTEL_OK);
		return "true";
	case 2:
		HOST_CHECK(SDK(otel_span_set_double_attribute)(span, key, 0.1) == OTEL_OK);
		return "0.1";
	case 3:
		HOST_CHECK(SDK(otel_span_set_attribute)(
				   span, (otel_key_value_t){.key = key,
							    .value_type = 3,
							    .value.d = -2.5}) == OTEL_OK);
		return "-2.5";
	default:
		return NULL;
	}
}

static void set_status(void *span, bool is_error)
{
	/* A code that the SDK does not know: it refuses the call, and the status stays. */
	HOST_CHECK(SDK(otel_span_set_status)(span, is_error ? 1 : 2, view("")) == OTEL_OK);
	HOST_CHECK(SDK(otel_span_set_status)(span, is_error ? 2 : 1, view("why")) == OTEL_OK);
	HOST_CHECK(SDK(otel_span_set_status)(span, 3, view("")) != OTEL_OK);
}

static void end(void *span)
{
	HOST_CHECK(SDK(otel_span_end)(span) == OTEL_OK);
}

static void destroy(void *span)
{
	/* a destroy does not change the error of the call before it */
	(void)SDK(otel_span_end)(NULL);
	before();
	SDK(otel_span_destroy)(span);
	said("destroy", 0);
}

static void *attach_ids(otel_span_context_t *span_context)
{
	otel_context_scope_t *scope = calloc(1, sizeof(*scope));
	otel_context_t *context = SDK(otel_context_create)(span_context);
	otel_status_t status;

	HOST_CHECK(scope != NULL);
	scope->struct_size = sizeof(*scope);
	before();
	status = SDK(otel_context_attach)(context, scope);
	said("attach", status);
	SDK(otel_context_destroy)(context);
	SDK(otel_span_context_destroy)(span_context);
	if (status == OTEL_OK)
		return scope;
	free(scope);
	return NULL;
}

static void *attach(const void *span)
{
	otel_span_context_t *ids_of_span = NULL;

	if (span != NULL)
		(void)SDK(otel_span_get_context)(span, &ids_of_span);
	return attach_ids(ids_of_span);
}

static void *attach_remote(const struct driver_ids *far)
{
	return attach_ids(
		SDK(otel_span_context_create)(far->trace_id, far->span_id, 1, 1, view("")));
}

static bool detach(void *scope)
{
	otel_context_scope_t copy = *(otel_context_scope_t *)scope;
	otel_status_t status;

	before();
	status = SDK(otel_context_scope_detach)(scope);
	said("detach", status);
	if (status != OTEL_OK)
		return false;
	/* refused: detached already */
	HOST_CHECK(SDK(otel_context_scope_detach)(scope) != OTEL_OK);
	HOST_CHECK(SDK(otel_context_scope_detach)(&copy) != OTEL_OK);
	free(scope);
	return true;
}

/* Calls that must be refused, as each call returns. */
static void odd(void *span)
{
	otel_span_start_options_ex_t options = {.struct_size = 39};
	otel_string_view_t malformed = {NULL, 3};
	otel_context_scope_t small = {.struct_size = 32, .generation = 7};
	otel_context_scope_t unused = {.struct_size = sizeof(unused)};

#define REFUSED(call, what)                                                                        \
	do {                                                                                       \
		before();                                                                          \
		said(what, (unsigned)(uintptr_t)(call));                                           \
	} while (0)
	REFUSED(SDK(otel_tracer_start_span)(NULL, view("x"), NULL), "start");
	/* releases nothing, and does not change the error of the call before it */
	before();
	SDK(otel_span_destroy)(SDK(otel_tracer_start_span)(tracer, malformed, NULL));
	said("destroy", 0);
	REFUSED(SDK(otel_tracer_start_span_ex)(tracer, view("x"), NULL), "start_ex");
	REFUSED(SDK(otel_tracer_start_span_ex)(tracer, view("x"), &options), "start_ex");
	options.struct_size = sizeof(options);
	options.parent = span;
	options.parent_mode = OTEL_PARENT_ROOT;
	REFUSED(SDK(otel_tracer_start_span_ex)(tracer, view("x"), &options), "start_ex");
	REFUSED(SDK(otel_tracer_start_span_with_context)(tracer, view("x"), NULL, NULL),
		"start_with_context");
	REFUSED(SDK(otel_span_end)(NULL), "end");
	before();
	SDK(otel_span_destroy)(NULL);
	said("destroy", 0);
	REFUSED(SDK(otel_context_attach)(NULL, NULL), "attach");
	REFUSED(SDK(otel_context_attach)(NULL, &unused), "attach");
	REFUSED(SDK(otel_context_scope_detach)(NULL), "detach");
	REFUSED(SDK(otel_context_scope_detach)(&unused), "detach");
	REFUSED(SDK(otel_context_scope_detach)(&small), "detach");
	REFUSED(SDK(otel_span_set_attribute)(
			span,
			(otel_key_value_t){.key = view("number"), .value_type = 2, .value.i = -3}),
		"set_attribute");
	REFUSED(SDK(otel_span_update_name)(NULL, view("none")), "update_name");
}

static const struct driver driver = {
	.lacks =
		{
			[NEED_WRAPPER] = "no-wrapper",
			[NEED_HELD] = "holds-ids",
			[NEED_CALLBACK] = "no-callback",
			[NEED_STORAGE] = "no-storage",
		},
	.set_up = set_up,
	.shut_down = shut_down,
	.start = start,
	.start_ambient = start_ambient,
	.start_remote = start_remote,
	.ids = ids,
	.rename = rename_span,
	.end = end,
	.destroy = destroy,
	.set_attribute = set_attribute,
	.start_with = start_with,
	.start_with_value = start_with_value,
	.start_linked = start_linked,
	.set_value = set_value,
	.set_status = set_status,
	.attach = attach,
	.attach_remote = attach_remote,
	.odd = odd,
	.detach = detach,
};

const struct driver *conformance_driver(void)
{
	return &driver;
}
