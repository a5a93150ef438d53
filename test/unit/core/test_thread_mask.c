/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about threads that block or await the signal: none of them may get a timer, whoever looks. */
#include "sampler/thread/thread_mask.h"

#include <grp.h>
#include <sched.h>
#include <time.h>

#include "busy_thread.h"
#include "sampled_host.h"
#include "sampler/thread/signals.h"
#include "test/unit/emulated.h"

TestSuite(thread_mask, .timeout = 20);

static void mask_ours(int how)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	cr_assert_eq(pthread_sigmask(how, &set, NULL), 0);
}

Test(thread_mask, arms_no_thread_that_blocks_the_signal)
{
	prepare();
	mask_ours(SIG_BLOCK);

	cr_assert_not_null(sp_thread_self());
	cr_assert_eq(sp_thread_armed(), 0);

	mask_ours(SIG_UNBLOCK);
	sp_thread_rearm();
	cr_assert_eq(sp_thread_armed(), 1);
	sp_thread_disarm_own();
	cr_assert_eq(sp_thread_armed(), 0);
}

static void *wait_for_our_signal(void *arg)
{
	sigset_t set;
	int signo;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	(void)sigwait(&set, &signo);
	return arg;
}

/* The first has that many digits. */
static bool be_in_groups(size_t n, unsigned digits)
{
	static gid_t groups[2000];
	gid_t first = 1;

	while (digits-- > 1)
		first *= 10;
	groups[0] = first;
	for (unsigned i = 1; i < n; i++)
		groups[i] = 1000000 + i;
	return setgroups(n, groups) == 0;
}

/* In the file that tells of a thread's mask the groups come first, at up to 11 bytes each. */
Test(thread_mask, arms_threads_of_users_in_many_groups)
{
	pthread_t thread;
	unsigned blocking = 0;

	if (emulated() || !be_in_groups(2000, 1))
		cr_skip_test("needs the kernel's /proc, and root");
	prepare();
	thread = start_thread(work, NULL);

	cr_expect_not(sp_thread_mask_blocks(atomic_load(&idle_tid), false));
	/* wherever the line lies in what is read at once */
	for (size_t n = 1; n < 200; n++)
		for (unsigned digits = 1; digits <= 8; digits++)
			blocking += !be_in_groups(n, digits) ||
				    sp_thread_mask_blocks(atomic_load(&idle_tid), false);
	cr_expect_eq(blocking, 0);

	stop_thread(thread);
}

/* While it waits, the kernel shows the mask without the signals waited for. */
Test(thread_mask, arms_no_thread_that_waits_for_the_signal)
{
	pthread_t thread;

	if (emulated())
		cr_skip_test("/proc shows the emulator's mask");
	prepare();
	thread = start_thread(wait_for_our_signal, NULL);
	for (int i = 0; i < 2000; i++)
		cr_assert(sp_thread_mask_blocks(atomic_load(&idle_tid), false));
	cr_assert_eq(pthread_kill(thread, sp_signals_number()), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void *wait_again_and_again(void *rests)
{
	struct timespec soon = {0, 100000};
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, sp_signals_number());
	if (rests != NULL) {
		cr_assert_not_null(sp_thread_self());
		sp_thread_disarm_own();
	}
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	cr_assert_not_null(sp_thread_self());
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&stop))
		(void)sigtimedwait(&set, NULL, &soon);
	return NULL;
}

/* Both threads on one processor, and the other one gets none of it as long as this one runs. */
static void starve(pid_t tid)
{
	struct sched_param none = {0};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_eq(sched_setaffinity(tid, sizeof(one), &one), 0);
	cr_assert_eq(sched_setscheduler(tid, SCHED_IDLE, &none), 0);
}

/*
 * A thread that was woken in its wait and has not got a processor yet could run, so nothing in /proc
 * tells that the mask there is still that of the wait.
 */
static void scan_a_woken_thread(void *rests)
{
	struct sched_param none = {0};
	unsigned misleading = 0;
	pthread_t thread;
	pid_t tid;

	if (emulated())
		cr_skip_test("/proc shows the emulator's mask");
	prepare();
	thread = start_thread(wait_again_and_again, rests);
	tid = (pid_t)atomic_load(&idle_tid);
	starve(tid);

	while (misleading < 200) {
		misleading += !sp_thread_mask_blocks((uint32_t)tid, false);
		sp_thread_enrol((uint32_t)tid);
		cr_assert_eq(sp_thread_armed(), 0);
	}

	atomic_store(&stop, true);
	cr_assert_eq(sched_setscheduler(tid, SCHED_OTHER, &none), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(thread_mask, arms_no_woken_thread_that_found_the_signal_blocked)
{
	scan_a_woken_thread(NULL);
}

Test(thread_mask, arms_no_woken_thread_that_rested_before_it_blocked_the_signal)
{
	scan_a_woken_thread(&stop);
}
