/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl(), syscall() and ptrace(): calls by which the program restricts itself, traces another
 * process, or publishes data about itself.
 *
 * The program installs a seccomp filter: by prctl(PR_SET_SECCOMP), or by seccomp(2) through
 * syscall(3), as libseccomp does. Below the filter a system call of ours could kill the process,
 * and so could the return from our signal handler. So both end before the kernel gets the filter
 * (sampler/base/seccomp.h). We do not examine the filter: a later one may forbid more.
 *
 * The program is about to trace another process. Debuggers wait for children of any kind (__WALL),
 * and the keeper is a child: strace, which waits until it has no child left, would never end. So
 * profiling ends for good before the first request of a tracer. PTRACE_TRACEME is the request of a
 * process that is going to be traced, and changes nothing.
 *
 * The program says by prctl(PR_SET_DUMPABLE) who may read it: then the same users may read its
 * exporter.
 *
 * All other calls of the three functions jump to the real function, with the stack and the
 * registers of the caller: the functions take their arguments by "...", syscall(3) has seven, and
 * the call may be a clone or vfork. APP context; async-signal-safe.
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

/* In Linux 5.0 and later; the headers may be older. */
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1U << 3)
#endif

static long no_call(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * Ends our system calls before the kernel installs the filter, because another thread may run below
 * the filter before we know whether the kernel has refused it. Returns false, and does nothing, if
 * we are switched off, or in a child of vfork(), whose memory belongs to the parent.
 */
static bool begin(void)
{
	int saved = errno;

	/*
	 * Filters are counted, because the kernel may have accepted an earlier filter and refuse
	 * this one.
	 */
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
 * With SECCOMP_FILTER_FLAG_TSYNC a positive result is the id of a thread that could not get the
 * filter, so it is a refusal, too.
 */
static bool is_refused(long rc, unsigned flags)
{
	return rc < 0 || (rc > 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) == 0);
}

/*
 * The program names a piece of memory. This is the last step of publishing a process context, for
 * which profilers wait; or the name is for readers of /proc/PID/maps. The call may come from inside
 * the program's malloc(). If the kernel accepted the name, it is a readable text. If the kernel
 * refused it, the pointer may be invalid; but a kernel without such names refuses every name, so
 * then the content of the memory decides.
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

	/* Inside our own code the context is our own. */
	if (g.outermost && sp_publisher_announced(at, has_name) && sp_lifecycle_start())
		sp_publisher_read_on();
	sp_reentrancy_guard_exit(g);
	errno = saved;
}

/* Before the first span no exporter runs. */
static void dumpable(void)
{
	if (sp_lifecycle_active())
		sp_deferred_work_dumpable();
}

static int by_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	__typeof__(&prctl) next = SP_NEXT(prctl);
	bool sets = option == PR_SET_SECCOMP;
	bool begun = sets && begin();
	int rc = next(option, a, b, c, d);

	if (sets)
		end(begun, rc != 0);
	else if (option == PR_SET_DUMPABLE)
		dumpable();
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
	else if ((int)a == PR_SET_DUMPABLE)
		dumpable();
	else
		named(rc, (unsigned long)b, (unsigned long)c, (unsigned long)e);
	return rc;
}

static bool is_looked_at(int option)
{
	return option == PR_SET_SECCOMP || option == SP_MEMORY_NAME_OPTION ||
	       option == PR_SET_DUMPABLE;
}

/* Return the function to which prctl() and syscall() jump. */
const void *sp_prctl_begin(int option);
const void *sp_prctl_begin(int option)
{
	const void *next = sp_next(SP_NEXT_prctl);

	if (next == NULL)
		return (const void *)no_call;
	return is_looked_at(option) ? (const void *)by_prctl : next;
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
		is_ours = is_looked_at((int)operation);
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
