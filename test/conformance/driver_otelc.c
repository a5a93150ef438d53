/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' SDK: otap-labs/opentelemetry-c, as test/otelc stands in for it. */
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
	otel_span_start_options_t options = {.parent = parent};

	return SDK(otel_tracer_start_span)(tracer, view(name), parent != NULL ? &options : NULL);
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

static bool ids(const void *span, struct driver_ids *out)
{
	otel_span_context_t *context = NULL;
	bool ok = SDK(otel_span_get_context)(span, &context) == OTEL_OK &&
		  SDK(otel_span_context_trace_id)(context, out->trace_id) == OTEL_OK &&
		  SDK(otel_span_context_span_id)(context, out->span_id) == OTEL_OK;

	SDK(otel_span_context_destroy)(context);
	return ok;
}

static void rename_span(void *span, const char *name)
{
	HOST_CHECK(SDK(otel_span_update_name)(span, view(name)) == OTEL_OK);
}

static void end(void *span)
{
	HOST_CHECK(SDK(otel_span_end)(span) == OTEL_OK);
}

static void destroy(void *span)
{
	SDK(otel_span_destroy)(span);
}

static void *attach(const void *span)
{
	otel_context_scope_t *scope = calloc(1, sizeof(*scope));
	otel_span_context_t *ids_of_span = NULL;
	otel_context_t *context;

	HOST_CHECK(scope != NULL);
	scope->struct_size = sizeof(*scope);
	if (span != NULL)
		(void)SDK(otel_span_get_context)(span, &ids_of_span);
	context = SDK(otel_context_create)(ids_of_span);
	HOST_CHECK(SDK(otel_context_attach)(context, scope) == OTEL_OK);
	SDK(otel_context_destroy)(context);
	SDK(otel_span_context_destroy)(ids_of_span);
	return scope;
}

static bool detach(void *scope)
{
	if (SDK(otel_context_scope_detach)(scope) != OTEL_OK)
		return false;
	free(scope);
	return true;
}

static const struct driver driver = {
	.lacks = {[NEED_WRAPPER] = "no-wrapper"},
	.set_up = set_up,
	.shut_down = shut_down,
	.start = start,
	.start_ambient = start_ambient,
	.start_remote = start_remote,
	.ids = ids,
	.rename = rename_span,
	.end = end,
	.destroy = destroy,
	.attach = attach,
	.detach = detach,
};

const struct driver *conformance_driver(void)
{
	return &driver;
}
