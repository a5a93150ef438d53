/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about getting the background thread out of the way of a call of the host. */
#include "preload/leave_gate.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int tid;
static _Atomic unsigned wakes;
static _Atomic bool may_go;

/* Stands for the background thread: goes when it is asked to and may. */
static void *background(void *arg)
{
	sp_leave_gate_arrived();
	atomic_store(&tid, (int)syscall(SYS_gettid));
	do {
		while (!sp_leave_gate_asked() || !atomic_load(&may_go))
			(void)sched_yield();
	} while (!sp_leave_gate_go());
	return arg;
}

static void start(void)
{
	pthread_t thread;

	sp_leave_gate_present();
	atomic_store(&tid, 0);
	cr_assert_eq(pthread_create(&thread, NULL, background, NULL), 0);
	cr_assert_eq(pthread_detach(thread), 0);
	while (atomic_load(&tid) == 0)
		(void)sched_yield();
}

static void wake(void)
{
	atomic_fetch_add(&wakes, 1);
}

static bool thread_exists(void)
{
	return syscall(SYS_tgkill, getpid(), atomic_load(&tid), 0) == 0;
}

TestSuite(leave_gate, .timeout = 20);

Test(leave_gate, without_a_thread_nobody_waits_or_is_made)
{
	cr_expect_not(sp_leave_gate_is_present());
	cr_expect(sp_leave_gate_close(wake));
	cr_expect_not(sp_leave_gate_open());
	cr_expect_eq(atomic_load(&wakes), 0);
}

Test(leave_gate, the_thread_has_really_ended_when_closed_and_is_to_be_made_again)
{
	atomic_store(&may_go, true);
	for (int i = 0; i < 50; i++) {
		start();
		cr_assert(sp_leave_gate_is_present());

		cr_assert(sp_leave_gate_close(wake));
		cr_assert_not(thread_exists());
		cr_assert_not(sp_leave_gate_is_present());

		cr_assert(sp_leave_gate_open());
		cr_assert(sp_leave_gate_is_present());
	}
}

Test(leave_gate, of_two_calls_the_last_one_brings_it_back)
{
	atomic_store(&may_go, true);
	start();

	cr_assert(sp_leave_gate_close(wake));
	cr_assert(sp_leave_gate_close(wake));

	cr_expect_not(sp_leave_gate_open());
	cr_expect_not(sp_leave_gate_is_present());
	cr_expect(sp_leave_gate_open());
}

Test(leave_gate, a_busy_thread_is_waited_for_only_so_long_and_stays_when_the_call_is_over)
{
	start();

	cr_assert_not(sp_leave_gate_close(wake));
	cr_expect_gt(atomic_load(&wakes), 1);
	cr_expect_not(sp_leave_gate_open(), "there still is one");
	cr_expect(sp_leave_gate_is_present());
	cr_expect(thread_exists());
	cr_expect_not(sp_leave_gate_asked());
}

Test(leave_gate, a_thread_that_nobody_waits_for_any_more_stays)
{
	sp_leave_gate_present();
	sp_leave_gate_arrived();

	cr_expect_not(sp_leave_gate_go());
	cr_expect(sp_leave_gate_is_present());
}

Test(leave_gate, ended_for_good_it_is_not_made_again)
{
	sp_leave_gate_present();
	sp_leave_gate_absent();

	cr_expect(sp_leave_gate_close(wake));
	cr_expect_not(sp_leave_gate_open());
	cr_expect_not(sp_leave_gate_is_present());
}

Test(leave_gate, a_forked_child_begins_anew)
{
	start();
	cr_assert_not(sp_leave_gate_close(wake));

	sp_leave_gate_forked();

	cr_expect_not(sp_leave_gate_asked());
	cr_expect_not(sp_leave_gate_is_present());
}
