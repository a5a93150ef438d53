/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, labels and errno of the stand-in; see record.h. */
#define _GNU_SOURCE
#include "test/haproxy/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* What the preloaded object takes over: it hands these on from the host. */
static const char *const handed_on[] = {
	"otelc_tracer_create", "start_span", "start_span_with_options", "end", "end_with_options",
	"set_operation_name",  "destroy",
};

static __thread struct {
	const void *pointer;
	char label[24];
} labels[FIXTURE_LABELS];

struct call call_begin(const void *caller, const char *function)
{
	struct call c = {.before = errno};

	c.ours = fixture_is_ours(caller, function, handed_on,
				 sizeof(handed_on) / sizeof(handed_on[0]));
	c.after = fixture_errno_after(c.ours);
	return c;
}

void call_end(const struct call *c, const char *format, ...)
{
	char last[32];
	va_list args;

	/* What errno was when a call of ours came is nobody's business. */
	snprintf(last, sizeof(last), " errno %d\n", c->ours ? 0 : c->before);
	va_start(args, format);
	fixture_record(c->ours ? "ours " : "", format, args, last);
	va_end(args);
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
