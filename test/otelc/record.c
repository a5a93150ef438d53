/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, last error and handles of the stand-in SDK; see record.h. */
#define _GNU_SOURCE
#include "test/otelc/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions that the preloaded object hooks: it passes the host's calls on. */
static const char *const handed_on[] = {
	"otel_tracer_start_span",
	"otel_tracer_start_span_with_context",
	"otel_tracer_start_span_ex",
	"otel_span_update_name",
	"otel_span_set_bool_attribute",
	"otel_span_set_double_attribute",
	"otel_span_set_attribute",
	"otel_span_set_status",
	"otel_span_end",
	"otel_span_destroy",
	"otel_context_attach",
	"otel_context_scope_detach",
};

static __thread char error[256];

bool is_ours(const void *caller, const char *function)
{
	return fixture_is_ours(caller, function, handed_on,
			       sizeof(handed_on) / sizeof(handed_on[0]));
}

void record(bool ours, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fixture_record(ours ? "ours " : "", format, args, "");
	va_end(args);
}

void clear_error(void)
{
	error[0] = '\0';
}

otel_status_t failed(otel_status_t status, const char *text)
{
	snprintf(error, sizeof(error), "%s", text);
	return status;
}

bool handle_ok(const void *handle, enum kind kind)
{
	if (handle == NULL)
		return failed(false, "null handle");
	if (*(const enum kind *)handle != kind)
		return failed(false, "handle of the wrong kind, or destroyed");
	return true;
}

otel_span_context_t *span_context_new(const struct span_ids *ids)
{
	otel_span_context_t *context = calloc(1, sizeof(*context));

	if (context == NULL)
		abort();
	context->kind = KIND_SPAN_CONTEXT;
	context->ids = *ids;
	return context;
}

const char *shown_id(const struct span_ids *ids, char *room)
{
	if (ids == NULL)
		return strcpy(room, "-");
	for (int i = 0; i < 8; i++)
		snprintf(room + 2 * i, 3, "%02x", (unsigned)ids->span_id[i]);
	return room;
}

API otel_string_view_t otel_last_error_message(void)
{
	int after = errno_after();
	otel_string_view_t view = {NULL, 0};

	if (error[0] != '\0') {
		view.ptr = error;
		view.len = strlen(error);
	}
	record(OURS, "last_error_message -> %s\n", error);
	errno = after;
	return view;
}

API void otel_api_set_last_error(const char *text, size_t len)
{
	int after = errno_after();

	snprintf(error, sizeof(error), "%.*s", (int)len, text != NULL ? text : "");
	record(OURS, "set_last_error %s\n", error);
	errno = after;
}

API void otel_api_clear_last_error(void)
{
	int after = errno_after();

	clear_error();
	record(OURS, "clear_last_error\n");
	errno = after;
}
