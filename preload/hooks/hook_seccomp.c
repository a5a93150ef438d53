/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program installs a seccomp filter: by prctl(PR_SET_SECCOMP), or by seccomp(2) through
 * syscall(3), as libseccomp does. Below the filter a system call of ours could kill the process, so
 * all of them have to stop before the kernel gets the filter (sampler/base/seccomp.h).
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
#include "sampler/base/seccomp_program.h"

/* Linux 5.0; headers may be older. */
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1U << 3)
#endif

static long no_call(void)
{
	errno = ENOSYS;
	return -1;
}

struct attempt {
	bool begun;
	bool handlers_return;
};

/*
 * Before the kernel is asked, because another thread may have the filter before we know the answer.
 * Only the first filter is evaluated, because that takes system calls. Nothing is done where we are
 * switched off, or in a child of vfork, whose memory belongs to its parent.
 */
static struct attempt begin(bool is_filter, const void *program)
{
	int life = atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed);
	struct attempt a = {.begun = false, .handlers_return = true};
	bool is_first = !sp_seccomp_is_on();
	int saved = errno;

	if (life == SP_LIFECYCLE_OFF ||
	    (is_first && sp_lifecycle_active() && !sp_process_is_ours()))
		return a;
	/* Strict mode lets handlers return; without a program the kernel will refuse the filter. */
	if (is_first && is_filter && program != NULL)
		a.handlers_return = sp_seccomp_lets_return(program);
	sp_lifecycle_before_filter(a.handlers_return);
	a.begun = true;
	errno = saved;
	return a;
}

static void end(const struct attempt *a, bool refused)
{
	int saved = errno;

	if (!a->begun)
		return;
	if (refused)
		sp_seccomp_take_back();
	sp_lifecycle_after_filter(a->handlers_return, refused);
	errno = saved;
}

static int set_by_prctl(int option, unsigned long mode, unsigned long program, unsigned long c,
			unsigned long d)
{
	__typeof__(&prctl) next = SP_NEXT(prctl);
	struct attempt attempt = begin(mode == SECCOMP_MODE_FILTER, (const void *)program);
	int rc = next(option, mode, program, c, d);

	end(&attempt, rc != 0);
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
	bool by_prctl = number == SYS_prctl;
	bool is_filter =
		by_prctl ? b == SECCOMP_MODE_FILTER : (unsigned)a == SECCOMP_SET_MODE_FILTER;
	struct attempt attempt = begin(is_filter, (const void *)c);
	long rc = next(number, a, b, c, d, e, f);

	end(&attempt, is_refused(rc, by_prctl ? 0 : (unsigned)b));
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
