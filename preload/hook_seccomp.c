/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program forbids itself system calls: prctl(PR_SET_SECCOMP), or seccomp(2) by syscall(3), as
 * libseccomp calls it. APP context; async-signal-safe. All other calls of the two go on by a jump, with
 * stack and registers as the caller made them: syscall(3) has seven arguments, and among them may be
 * those of clone and vfork.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/lifecycle.h"
#include "preload/resolve.h"
#include "preload/tail_call.h"
#include "sampler/process.h"
#include "sampler/seccomp.h"
#include "sampler/seccomp_program.h"

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
 * Before the kernel is asked: another thread may have the filter before we know the answer. A filter
 * after the first one is not looked at, because that takes system calls. Nothing is begun where it is
 * none of ours to know: switched off, or a child of vfork, whose memory is its parent's.
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
	/* Strict mode lets handlers return; without a program there will be no filter. */
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

/* With SECCOMP_FILTER_FLAG_TSYNC the number of a thread is a refusal, too: it could not follow. */
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

/* Where the calls go on. */
const void *sp_prctl_begin(int option);
const void *sp_prctl_begin(int option)
{
	const void *next = sp_next(SP_NEXT_prctl);

	if (next == NULL)
		return (const void *)no_call;
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
	return sets ? (const void *)set_by_syscall : next;
}

SP_TAIL_CALL("prctl", "sp_prctl_begin", "");
SP_TAIL_CALL("syscall", "sp_syscall_begin", "");
