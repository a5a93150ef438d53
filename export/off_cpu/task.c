/* SPDX-License-Identifier: Apache-2.0 */
/* Parses files of /proc about a thread (task.h). Context: the exporter. */
#include "export/off_cpu/task.h"

#include <stddef.h>
#include <string.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* One number without a sign, and the blank or newline behind it. NULL if there is none, or it is too large. */
static const char *number(const char *text, unsigned base, uint64_t *out)
{
	const char *at = text;

	*out = 0;
	for (;; at++) {
		int digit = digit_of(*at);

		if (digit < 0 || (unsigned)digit >= base)
			break;
		if (__builtin_mul_overflow(*out, base, out) ||
		    __builtin_add_overflow(*out, (unsigned)digit, out))
			return NULL;
	}
	if (at == text || (*at != ' ' && *at != '\n'))
		return NULL;
	return at + 1;
}

static const char *hex(const char *text, uint64_t *out)
{
	if (text == NULL || strncmp(text, "0x", 2) != 0)
		return NULL;
	return number(text + 2, 16, out);
}

bool sp_task_times_parse(const char *text, struct sp_task_times *out)
{
	uint64_t slices;
	const char *at = number(text, 10, &out->cpu_ns);

	if (at != NULL)
		at = number(at, 10, &out->delay_ns);
	return at != NULL && number(at, 10, &slices) != NULL;
}

static bool place_in_kernel(const char *at, struct sp_task_place *out)
{
	out->state = SP_TASK_IN_KERNEL;
	at = hex(at, &out->sp);
	return at != NULL && hex(at, &out->pc) != NULL;
}

bool sp_task_place_parse(const char *text, struct sp_task_place *out)
{
	const char *at;

	memset(out, 0, sizeof(*out));
	if (strcmp(text, "running\n") == 0)
		return true;
	if (strncmp(text, "-1 ", 3) == 0)
		return place_in_kernel(text + 3, out);
	out->state = SP_TASK_CALLS;
	at = number(text, 10, &out->number);
	for (unsigned i = 0; at != NULL && i < SP_TASK_ARGS; i++)
		at = hex(at, &out->arg[i]);
	at = at != NULL ? hex(at, &out->sp) : NULL;
	return at != NULL && hex(at, &out->pc) != NULL;
}
