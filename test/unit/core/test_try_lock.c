/* SPDX-License-Identifier: Apache-2.0 */
/* A lock for which no thread waits for ever, with threads and forks. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/process.h"
#include "sampler/base/try_lock.h"

static struct sp_try_lock lock;

/* Runs holds in a forked child, which our fork handler has seen. */
static bool in_child(bool (*holds)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		sp_process_forked();
		_exit(holds() ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Locks in a function below the holder's, or in a handler that has interrupted it. */
static __attribute__((noinline)) bool locks_below(void)
{
	return sp_try_lock(&lock);
}

Test(try_lock, is_held_by_one_and_given_back)
{
	cr_assert(sp_try_lock_once(&lock));
	cr_assert_not(locks_below(), "an attempt ends");

	sp_unlock(&lock);

	cr_assert(sp_try_lock(&lock));
}

static bool is_locked_once(void)
{
	return sp_try_lock(&lock) && !locks_below();
}

Test(try_lock, that_a_thread_of_the_parent_held_is_free_in_the_child)
{
	cr_assert(sp_try_lock(&lock));

	cr_assert(in_child(is_locked_once));

	cr_assert_not(locks_below(), "the parent's is its own");
}

static bool is_free_in_the_next_child(void)
{
	return in_child(is_locked_once);
}

static bool is_held_and_free_in_the_next_child(void)
{
	return sp_try_lock(&lock) && in_child(is_locked_once);
}

Test(try_lock, of_a_process_is_not_mistaken_for_one_of_its_grandchildren)
{
	cr_assert(sp_try_lock(&lock));

	cr_assert(in_child(is_free_in_the_next_child));
	cr_assert(in_child(is_held_and_free_in_the_next_child));
}

static sigjmp_buf before;
static bool got_in_handler;

static void leave(int signo)
{
	got_in_handler = sp_try_lock(&lock);
	siglongjmp(before, signo);
}

static __attribute__((noinline)) void hold_and_be_left(void)
{
	if (sp_try_lock(&lock))
		(void)raise(SIGUSR1);
}

static void leave_by_handler(int flags)
{
	struct sigaction act = {.sa_handler = leave, .sa_flags = flags};

	sp_process_set();
	cr_assert_eq(sigaction(SIGUSR1, &act, NULL), 0);
	if (sigsetjmp(before, 1) == 0)
		hold_and_be_left();
	cr_expect_not(got_in_handler, "its holder is only interrupted");
	cr_expect(sp_try_lock(&lock), "its holder has been left");
	cr_expect_not(locks_below());
	sp_unlock(&lock);
}

Test(try_lock, of_a_holder_that_a_handler_has_left_is_free)
{
	leave_by_handler(0);
}

/* The other stack is above the frames of the holder. */
Test(try_lock, of_a_holder_that_is_interrupted_on_another_stack_is_held)
{
	char room[65536];
	stack_t alternate = {.ss_sp = room, .ss_size = sizeof(room)};

	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	leave_by_handler(SA_ONSTACK);
	alternate.ss_flags = SS_DISABLE;
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
}

static _Atomic bool is_held;

/*
 * The frame of this function is gone before the thread is. The address sanitizer marks the frame of a function that
 * never returns, and would report the marks later as a fault.
 */
static __attribute__((noinline)) bool hold(void)
{
	return sp_try_lock(&lock);
}

static void *hold_and_be_cancelled(void *arg)
{
	(void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	if (hold()) {
		atomic_store(&is_held, true);
		for (;;)
			continue;
	}
	return arg;
}

Test(try_lock, of_a_thread_that_was_cancelled_is_free, .timeout = 20)
{
	pthread_t thread;

	sp_process_set();
	cr_assert_eq(pthread_create(&thread, NULL, hold_and_be_cancelled, NULL), 0);
	while (!atomic_load(&is_held))
		(void)sched_yield();
	cr_expect_not(sp_try_lock_once(&lock), "its holder lives");
	cr_assert_eq(pthread_cancel(thread), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect(sp_try_lock(&lock));
}

/* The child asks the kernel for the threads of its own process, and the holder is none of them. */
Test(try_lock, of_a_thread_of_the_parent_is_held_in_a_child_of_vfork)
{
	static volatile bool got;
	pid_t child;

	sp_process_set();
	cr_assert(sp_try_lock(&lock));
	child = vfork();
	if (child == 0) {
		got = locks_below();
		_exit(0);
	}

	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_expect_not(got);
}
