/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation and end of threads. A thread that is created while sampling is on gets its block and
 * timer before the host's start routine runs. While sampling is off the hooks only call the real
 * function, with one exception: a thread whose stack is too small for a signal notes its own id, so
 * that it never gets a timer. A thread that ends by cancellation or by a raw system call reaches no
 * hook; the exporter finds its end in /proc. When a process creates its second thread, glibc
 * installs its own handler for our sampling signal, so the hooks then check ours
 * (sampler/thread/signals.h).
 *
 * If a handler of the host uses alternate signal stacks, our handler must run on them too
 * (sampler/thread/signals.h). So we examine sigaction() until the first such handler is set, and
 * each sigaltstack(). The host's dispositions do not change: it cannot name our signal.
 *
 * APP context; sigaction() and sigaltstack() are async-signal-safe once the real functions were
 * found, as POSIX requires.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/base/syscall.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

/*
 * Claims a block for a new thread. Also does deferred work: a program may create threads and never
 * start another span.
 */
static struct sp_thread *claim(void)
{
	bool active;

	if (sp_lifecycle_here() != SP_LIFECYCLE_ACTIVE ||
	    sp_reentrancy_guard_inside((uintptr_t)__builtin_frame_address(0)))
		return NULL;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	active = sp_lifecycle_work();
	sp_reentrancy_guard_exit(g);
	return active ? sp_thread_claim() : NULL;
}

/*
 * The stack size that the host asked for. 0 = the C library's default, which is large enough for
 * signal handlers.
 */
static uint32_t stack_bytes(const pthread_attr_t *attr)
{
	__typeof__(&pthread_attr_getstacksize) get =
		attr != NULL ? SP_NEXT(pthread_attr_getstacksize) : NULL;
	size_t bytes = 0;

	if (get == NULL || get(attr, &bytes) != 0 || bytes > UINT32_MAX)
		return 0;
	return (uint32_t)bytes;
}

/*
 * Puts our signal handler back if the C library has replaced it (sp_signals_keep()). The C library
 * does so when it creates a thread, whose first signal may come at once, so this function is called
 * first in a new thread. The creator calls it if the creation failed, and for a thread that does
 * not begin in our function, such as one that the SDK creates inside a hooked call.
 */
static void keep_signal(void)
{
	if (!sp_lifecycle_active())
		return;
	(void)sp_signals_keep();
	sp_signals_check(false);
}

static void *run_pthread(void *arg)
{
	struct sp_thread *t = arg;
	void *(*start)(void *) = t->start;
	void *start_arg = t->start_arg;
	void *result;

	keep_signal();
	sp_thread_born(t);
	result = start(start_arg);
	sp_thread_ended();
	return result;
}

/* A thread with a small stack that has no block yet. */
static void *run_small(void *arg)
{
	struct sp_small_thread *s = arg;
	void *(*start)(void *) = s->start;
	void *start_arg = s->start_arg;
	void *result;

	sp_small_thread_born(s);
	keep_signal();
	result = start(start_arg);
	sp_small_thread_ended(s);
	return result;
}

/* Creates a thread while sampling is off, or for a creator without a block. */
static int create_without_block(__typeof__(&pthread_create) next, pthread_t *thread,
				const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	struct sp_small_thread *s =
		sp_lifecycle_wanted() ? sp_small_thread_make(stack_bytes(attr)) : NULL;
	bool is_first = sp_lifecycle_before_thread();
	int rc;

	if (s != NULL) {
		s->start = start;
		s->start_arg = arg;
		rc = next(thread, attr, run_small, s);
		if (rc != 0)
			sp_small_thread_ended(s);
	} else {
		rc = next(thread, attr, start, arg);
	}
	keep_signal();
	sp_lifecycle_after_thread(is_first, rc == 0);
	return rc;
}

SP_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			     void *arg)
{
	__typeof__(&pthread_create) next = SP_NEXT(pthread_create);
	struct sp_thread *t;
	int rc;

	if (next == NULL)
		return EAGAIN;
	t = claim();
	if (t == NULL) {
		rc = create_without_block(next, thread, attr, start, arg);
	} else {
		t->start = start;
		t->start_arg = arg;
		atomic_store_explicit(&t->stack_bytes, stack_bytes(attr), memory_order_relaxed);
		rc = next(thread, attr, run_pthread, t);
		if (rc != 0) {
			sp_thread_unclaim(t);
			keep_signal();
		}
	}
	return rc;
}

static int run_thrd(void *arg)
{
	struct sp_thread *t = arg;
	thrd_start_t start = (thrd_start_t)(uintptr_t)t->start;
	void *start_arg = t->start_arg;
	int result;

	keep_signal();
	sp_thread_born(t);
	result = start(start_arg);
	sp_thread_ended();
	return result;
}

SP_EXPORT _Noreturn void pthread_exit(void *result)
{
	__typeof__(&pthread_exit) next = SP_NEXT(pthread_exit);

	if (sp_lifecycle_active() && sp_thread_own != NULL)
		sp_thread_account_end(sp_thread_own);
	if (next != NULL)
		next(result);
	for (;;)
		(void)sp_syscall_always(SYS_exit, 0);
}

SP_EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
	__typeof__(&thrd_create) next = SP_NEXT(thrd_create);
	struct sp_thread *t;
	int rc;

	if (next == NULL)
		return thrd_error;
	t = claim();
	if (t == NULL) {
		bool is_first = sp_lifecycle_before_thread();

		rc = next(thread, start, arg);
		keep_signal();
		sp_lifecycle_after_thread(is_first, rc == thrd_success);
	} else {
		t->start = (void *(*)(void *))(uintptr_t)start;
		t->start_arg = arg;
		rc = next(thread, run_thrd, t);
		if (rc != thrd_success) {
			sp_thread_unclaim(t);
			keep_signal();
		}
	}
	return rc;
}

SP_EXPORT int sigaction(int signo, const struct sigaction *restrict act,
			struct sigaction *restrict old)
{
	__typeof__(&sigaction) next = SP_NEXT(sigaction);
	struct sigaction now;
	int rc;

	if (next == NULL) {
		errno = ENOSYS;
		return -1;
	}
	rc = next(signo, act, old);
	/*
	 * *act may be the same object as *old and hold the old handler now, so the new one is read
	 * again.
	 */
	if (rc == 0 && act != NULL && sp_lifecycle_active() &&
	    !sp_signals_know_alternate_stack(signo) && sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE &&
	    next(signo, NULL, &now) == 0 && (now.sa_flags & SA_ONSTACK) != 0)
		sp_signals_use_alternate_stack(signo);
	return rc;
}

/*
 * After the call and before we have read the new stack, our signal could arrive on a stack that is
 * too small. So the thread has no timer meanwhile.
 */
SP_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	__typeof__(&sigaltstack) next = SP_NEXT(sigaltstack);
	bool ours = sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE && sp_thread_alternate_begin();
	int rc = -1;

	if (next != NULL)
		rc = next(stack, old);
	else
		errno = ENOSYS;
	if (ours)
		sp_thread_alternate_end();
	return rc;
}
