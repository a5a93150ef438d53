/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program is about to trace another process. Debuggers wait for children of any kind (__WALL), and the
 * keeper is one: strace, which waits until it has no child left, would never end. So profiling ends for
 * good before the first request of a tracer. PTRACE_TRACEME is the request of a process that is going to be
 * traced, and changes nothing.
 *
 * The call goes on by a jump, because ptrace() takes its arguments by "...". APP context.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>

#include "preload/elf/resolve.h"
#include "preload/elf/tail_call.h"
#include "preload/lifecycle/lifecycle.h"

static long no_ptrace(void)
{
	errno = ENOSYS;
	return -1;
}

const void *sp_ptrace_begin(int request);
const void *sp_ptrace_begin(int request)
{
	const void *next = sp_next(SP_NEXT_ptrace);

	if (request != PTRACE_TRACEME)
		sp_lifecycle_trace();
	return next != NULL ? next : (const void *)no_ptrace;
}

SP_TAIL_CALL("ptrace", "sp_ptrace_begin", "");
