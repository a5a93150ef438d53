/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by which the program changes what may be done in it, or says what it publishes: prctl(), syscall()
 * and ptrace().
 *
 * The program installs a seccomp filter: by prctl(PR_SET_SECCOMP), or by seccomp(2) through
 * syscall(3), as libseccomp does. Below the filter a system call of ours could kill the process, and
 * so could the return from our signal handler. So all of them have to stop before the kernel gets the
 * filter (sampler/base/seccomp.h). What the filter allows is not looked at: a later one may forbid it.
 *
 * The program is about to trace another process. Debuggers wait for children of any kind (__WALL), and the
 * keeper is one: strace, which waits until it has no child left, would never end. So profiling ends for
 * good before the first request of a tracer. PTRACE_TRACEME is the request of a process that is going to be
 * traced, and changes nothing.
 *
 * All other calls of the three functions go on by a jump, with stack and registers as the caller made
 * them: they take their arguments by "...", syscall(3) has seven, and it may be a clone or vfork. APP
 * context; async-signal-safe.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/seccomp.h"
#include "sampler/context/foreign_context.h"

/* Linux 5.0; headers may be older. */
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1U << 3)
#endif

static long no_call(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * Before the kernel is asked, because another thread may have the filter before we know the answer.
 * Nothing is done, and false returned, where we are switched off, or in a child of vfork, whose
 * memory belongs to its parent.
 */
static bool begin(void)
{
	int saved = errno;

	/* filters are counted, because the kernel may refuse the one that was there before this one */
	if (sp_lifecycle_here() == SP_LIFECYCLE_OFF && !sp_seccomp_is_on())
		return false;
	sp_lifecycle_before_filter();
	errno = saved;
	return true;
}

static void end(bool begun, bool refused)
{
	int saved = errno;

	if (begun)
		sp_lifecycle_after_filter(refused);
	errno = saved;
}

/*
 * With SECCOMP_FILTER_FLAG_TSYNC a positive result is a refusal, too: the id of a thread that could
 * not get the filter.
 */
static bool is_refused(long rc, unsigned flags)
{
	return rc < 0 || (rc > 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) == 0);
}

/*
 * The program gives memory a name: as the last step of publishing a process context, for which profilers
 * wait, or for somebody who reads /proc/PID/maps. This may be inside of the program's malloc. The kernel has
 * read a name that it took. One that it did not take may be no text at all, but a kernel without such names
 * refuses each, and then the memory itself says what it is.
 *
 * If the context says that threads publish their spans, sampling begins.
 */
static void named(long rc, unsigned long what, unsigned long at, unsigned long name)
{
	bool has_name = rc == 0;
	int saved = errno;

	if (what != SP_MEMORY_NAME_ANON || name == 0 || sp_lifecycle_here() == SP_LIFECYCLE_OFF ||
	    !sp_lifecycle_wanted() ||
	    (has_name && strcmp((const char *)name, SP_PROCESS_CONTEXT_NAME) != 0))
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	/* Otherwise it is our own. */
	if (g.outermost && sp_publisher_announced(at, has_name) && sp_lifecycle_start())
		sp_publisher_read_on();
	sp_reentrancy_guard_leave(g);
	errno = saved;
}

static int by_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	__typeof__(&prctl) next = SP_NEXT(prctl);
	bool sets = option == PR_SET_SECCOMP;
	bool begun = sets && begin();
	int rc = next(option, a, b, c, d);

	if (sets)
		end(begun, rc != 0);
	else
		named(rc, a, b, d);
	return rc;
}

/* NOLINTNEXTLINE(readability-function-size): the number and the six arguments of a system call */
static long by_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	__typeof__(&syscall) next = SP_NEXT(syscall);
	bool sets = number == SYS_seccomp || (int)a == PR_SET_SECCOMP;
	bool begun = sets && begin();
	long rc = next(number, a, b, c, d, e, f);

	if (sets)
		end(begun, is_refused(rc, number == SYS_prctl ? 0 : (unsigned)b));
	else
		named(rc, (unsigned long)b, (unsigned long)c, (unsigned long)e);
	return rc;
}

/* The targets of the two functions. */
const void *sp_prctl_begin(int option);
const void *sp_prctl_begin(int option)
{
	const void *next = sp_next(SP_NEXT_prctl);

	if (next == NULL)
		return (const void *)no_call;
	return option == PR_SET_SECCOMP || option == SP_MEMORY_NAME_OPTION ? (const void *)by_prctl
									   : next;
}

const void *sp_syscall_begin(long number, long operation);
const void *sp_syscall_begin(long number, long operation)
{
	const void *next = sp_next(SP_NEXT_syscall);
	bool is_ours = false;

	if (next == NULL)
		return (const void *)no_call;
	if (number == SYS_seccomp)
		is_ours = (unsigned)operation == SECCOMP_SET_MODE_STRICT ||
			  (unsigned)operation == SECCOMP_SET_MODE_FILTER;
	else if (number == SYS_prctl)
		is_ours =
			(int)operation == PR_SET_SECCOMP || (int)operation == SP_MEMORY_NAME_OPTION;
	return is_ours ? (const void *)by_syscall : next;
}

SP_TAIL_CALL("prctl", "sp_prctl_begin", "");
SP_TAIL_CALL("syscall", "sp_syscall_begin", "");

const void *sp_ptrace_begin(int request);
const void *sp_ptrace_begin(int request)
{
	const void *next = sp_next(SP_NEXT_ptrace);

	if (request != PTRACE_TRACEME)
		sp_lifecycle_trace();
	return next != NULL ? next : (const void *)no_call;
}

SP_TAIL_CALL("ptrace", "sp_ptrace_begin", "");
