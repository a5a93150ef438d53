/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the line "SigQ:" of /proc/self/status. Context: APP. */
#include "sampler/thread/timer_limit.h"

#include <stddef.h>
#include <string.h>

#include "sampler/base/proc_status.h"
#include "sampler/base/text.h"
#include "sampler/thread/thread.h"

#define QUEUED "\nSigQ:"

static const char *read_number(const char *at, uint64_t *n)
{
	at += strspn(at, " \t");
	return sp_text_number(&at, 10, n) ? at : NULL;
}

/* "SigQ:\t18/96551\n": entries in use by the user, and this process's limit (fs/proc/array.c). */
bool sp_timer_limit_of(const char *status, uint32_t ours, uint64_t *timers)
{
	const char *at = strstr(status, QUEUED);
	uint64_t others;
	uint64_t limit;

	at = at != NULL ? read_number(at + strlen(QUEUED), &others) : NULL;
	if (at == NULL || *at != '/' || read_number(at + 1, &limit) == NULL)
		return false;
	/*
	 * The kernel prints a signed count as an unsigned number, and the count may be below zero
	 * for a moment.
	 */
	if (others > INT32_MAX)
		others = 0;
	others = others > ours ? others - ours : 0;
	*timers = limit / 2 > others ? limit / 2 - others : 0;
	return true;
}

void sp_timer_limit_look(void)
{
	char line[SP_PROC_STATUS_LINE];
	uint64_t timers;

	if (sp_proc_status("/proc/self/status", QUEUED, line) > 0 &&
	    sp_timer_limit_of(line, sp_thread_armed(), &timers))
		sp_thread_limit(timers);
}
