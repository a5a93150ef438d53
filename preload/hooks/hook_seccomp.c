/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program installs a seccomp filter: by prctl(PR_SET_SECCOMP), or by seccomp(2) through
 * syscall(3), as libseccomp does. Below the filter a system call of ours could kill the process, and
 * so could the return from our signal handler. So all of them have to stop before the kernel gets the
 * filter (sampler/base/seccomp.h). What the filter allows is not looked at: a later one may forbid it.
 *
 * All other calls of the two functions go on by a jump, with stack and registers as the caller made
 * them: syscall(3) has seven arguments, and it may be a clone or vfork. APP context;
 * async-signal-safe.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/elf/tail_call.h"
#include "preload/hooks/hook_memory_name.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/memory_name.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"

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
	int life = atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed);
	int saved = errno;

	if (life == SP_LIFECYCLE_OFF ||
	    (!sp_seccomp_is_on() && sp_lifecycle_active() && !sp_process_is_ours()))
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

static int set_by_prctl(int option, unsigned long mode, unsigned long program, unsigned long c,
			unsigned long d)
{
	__typeof__(&prctl) next = SP_NEXT(prctl);
	bool begun = begin();
	int rc = next(option, mode, program, c, d);

	end(begun, rc != 0);
	return rc;
}

/*
 * With SECCOMP_FILTER_FLAG_TSYNC a positive result is a refusal, too: the id of a thread that could
 * not get the filter.
 */
static bool is_refused(long rc, unsigned flags)
{
	return rc < 0 || (rc > 0 && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) == 0);
}

/* NOLINTNEXTLINE(readability-function-size): the number and the six arguments of a system call */
static long set_by_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	__typeof__(&syscall) next = SP_NEXT(syscall);
	bool begun = begin();
	long rc = next(number, a, b, c, d, e, f);

	end(begun, is_refused(rc, number == SYS_prctl ? 0 : (unsigned)b));
	return rc;
}

/* The targets of the two functions. */
const void *sp_prctl_begin(int option);
const void *sp_prctl_begin(int option)
{
	const void *next = sp_next(SP_NEXT_prctl);

	if (next == NULL)
		return (const void *)no_call;
	if (option == SP_MEMORY_NAME_OPTION)
		return (const void *)sp_memory_name_prctl;
	return option == PR_SET_SECCOMP ? (const void *)set_by_prctl : next;
}

const void *sp_syscall_begin(long number, long operation);
const void *sp_syscall_begin(long number, long operation)
{
	const void *next = sp_next(SP_NEXT_syscall);
	bool sets = false;

	if (next == NULL)
		return (const void *)no_call;
	if (number == SYS_seccomp)
		sets = (unsigned)operation == SECCOMP_SET_MODE_STRICT ||
		       (unsigned)operation == SECCOMP_SET_MODE_FILTER;
	else if (number == SYS_prctl)
		sets = (int)operation == PR_SET_SECCOMP;
	if (number == SYS_prctl && (int)operation == SP_MEMORY_NAME_OPTION)
		return (const void *)sp_memory_name_syscall;
	return sets ? (const void *)set_by_syscall : next;
}

SP_TAIL_CALL("prctl", "sp_prctl_begin", "");
SP_TAIL_CALL("syscall", "sp_syscall_begin", "");
