/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' way to talk; see tell.h. */
#include "test/otelc/tell.h"

#include "test/hosts/host.h"

int tell_piece_ms = 1;
otel_tracer_t *tell_tracer;

otel_string_view_t tell_view(const char *text)
{
	otel_string_view_t view = {text, strlen(text)};

	return view;
}

void tell_result(const char *call, const char *result)
{
	int after = errno;
	otel_string_view_t error = otel_last_error_message();

	printf("call %s %s errno %d error %.*s\n", call, result, after, (int)error.len,
	       error.ptr != NULL ? error.ptr : "");
	errno = 4242;
}

void tell_status(const char *call, otel_status_t status)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", status);
	tell_result(call, text);
}

static otel_span_t *started(const char *call, const char *name, const char *root, otel_span_t *span)
{
	tell_result(call, span != NULL ? "span" : "NULL");
	if (root != NULL)
		printf("span %s %s\n", name, root);
	return span;
}

otel_span_t *tell_start(const char *name, const char *root, const otel_span_t *parent)
{
	otel_span_start_options_t options = {.kind = 1, .parent = parent};

	return started("start", name, root,
		       otel_tracer_start_span(tell_tracer, tell_view(name),
					      parent != NULL ? &options : NULL));
}

otel_span_t *tell_start_from(const char *name, const char *root, const otel_span_context_t *parent)
{
	otel_span_start_options_t options = {.kind = 2};

	return started("start_with_context", name, root,
		       otel_tracer_start_span_with_context(tell_tracer, tell_view(name), &options,
							   parent));
}

otel_span_t *tell_start_ex(const char *name, const char *root,
			   const otel_span_start_options_ex_t *options)
{
	return started("start_ex", name, root,
		       otel_tracer_start_span_ex(tell_tracer, tell_view(name), options));
}

void tell_rename(otel_span_t *span, const char *name, const char *root)
{
	tell_status("update_name", otel_span_update_name(span, tell_view(name)));
	printf("span %s %s\n", name, root);
}

void tell_end(otel_span_t *span)
{
	tell_status("end", otel_span_end(span));
}

void tell_destroy(otel_span_t *span)
{
	otel_span_destroy(span);
	tell_result("destroy", "-");
}

void tell_finish(otel_span_t *span)
{
	tell_end(span);
	tell_destroy(span);
}

otel_context_t *tell_context(const otel_span_t *span)
{
	otel_span_context_t *ids = NULL;
	otel_context_t *context;

	if (span != NULL)
		HOST_CHECK(otel_span_get_context(span, &ids) == OTEL_OK);
	context = otel_context_create(ids);
	otel_span_context_destroy(ids);
	return context;
}

void tell_attach(const otel_context_t *context, otel_context_scope_t *scope)
{
	tell_status("attach", otel_context_attach(context, scope));
}

void tell_detach(otel_context_scope_t *scope)
{
	tell_status("detach", otel_context_scope_detach(scope));
}
