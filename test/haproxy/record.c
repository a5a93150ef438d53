/* SPDX-License-Identifier: Apache-2.0 */
/* Files, labels and errno of the stand-in; see record.h. */
#define _GNU_SOURCE
#include "test/haproxy/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

/* What the preloaded object takes over: it hands these on from the host. */
static const char *const handed_on[] = {
	"otelc_tracer_create", "start_span", "start_span_with_options", "end", "end_with_options",
	"set_operation_name",  "destroy",
};

static __thread struct {
	const void *pointer;
	char label[24];
} labels[FIXTURE_LABELS];

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

static bool is_ours(const void *caller, const char *function)
{
	Dl_info info;

	for (size_t i = 0; i < sizeof(handed_on) / sizeof(handed_on[0]); i++) {
		if (strcmp(handed_on[i], function) == 0)
			return false;
	}
	return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libspanprof.so") != NULL;
}

struct call call_begin(const void *caller, const char *function)
{
	const char *wanted = getenv("FIXTURE_ERRNO");
	struct call c = {.before = errno};

	c.ours = is_ours(caller, function);
	c.after = wanted != NULL ? atoi(wanted) + c.ours : c.before;
	return c;
}

void call_end(const struct call *c, const char *format, ...)
{
	char line[LINE_MAX_BYTES] = "ours ";
	size_t used = c->ours ? strlen(line) : 0;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line + used, sizeof(line) - used, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(line) - used)
		abort();
	used += (size_t)len;
	/* what errno was when a call of ours came is nobody's business */
	len = snprintf(line + used, sizeof(line) - used, " errno %d\n", c->ours ? 0 : c->before);
	if (len < 0 || (size_t)len >= sizeof(line) - used)
		abort();
	append("FIXTURE_CALLS", line, used + (size_t)len);
	errno = c->after;
}

void fixture_label(unsigned place, const void *pointer, const char *label)
{
	labels[place % FIXTURE_LABELS].pointer = pointer;
	snprintf(labels[place % FIXTURE_LABELS].label, sizeof(labels[0].label), "%s", label);
}

const char *label_of(const void *pointer)
{
	if (pointer == NULL)
		return "NULL";
	for (size_t i = 0; i < FIXTURE_LABELS; i++) {
		if (labels[i].pointer == pointer)
			return labels[i].label;
	}
	return "?";
}
