/* SPDX-License-Identifier: Apache-2.0 */
/* Files, last error and handles of the stand-in SDK; see record.h. */
#define _GNU_SOURCE
#include "test/otelc/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

/* What the preloaded object takes over: it hands these on from the host. */
static const char *const handed_on[] = {
	"otel_tracer_start_span",
	"otel_tracer_start_span_with_context",
	"otel_tracer_start_span_ex",
	"otel_span_update_name",
	"otel_span_end",
	"otel_span_destroy",
	"otel_context_attach",
	"otel_context_scope_detach",
};

static __thread char error[256];

bool mode_is(const char *mode)
{
	const char *now = getenv("FIXTURE_MODE");

	return now != NULL && strcmp(now, mode) == 0;
}

void append(const char *variable, const char *line, size_t len)
{
	const char *path = getenv(variable);
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, len) != (ssize_t)len)
		abort();
	close(fd);
}

bool is_ours(const void *caller, const char *function)
{
	Dl_info info;

	for (size_t i = 0; i < sizeof(handed_on) / sizeof(handed_on[0]); i++) {
		if (strcmp(handed_on[i], function) == 0)
			return false;
	}
	return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libspanprof.so") != NULL;
}

void record(bool ours, const char *format, ...)
{
	char line[LINE_MAX_BYTES] = "ours ";
	size_t used = ours ? strlen(line) : 0;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line + used, sizeof(line) - used, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(line) - used)
		abort();
	append("FIXTURE_CALLS", line, used + (size_t)len);
}

int errno_after_call(bool ours)
{
	const char *wanted = getenv("FIXTURE_ERRNO");

	return wanted != NULL ? atoi(wanted) + ours : errno;
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
