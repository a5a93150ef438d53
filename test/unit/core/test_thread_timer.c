/* SPDX-License-Identifier: Apache-2.0 */
/* Arming timers: the arguments for the kernel, and that the kernel really sends the signal. */
#include "sampler/thread/thread.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel_double.h"
#include "sampler/base/compiler.h"

#define PERIOD_NS (10 * SP_NS_PER_MS)
#define COOKIE 0x89abcdefU

static uint64_t ns_of(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void set_up(void)
{
	sp_thread_timer_set(SIGURG, PERIOD_NS, COOKIE);
}

TestSuite(thread_timer, .init = set_up, .timeout = 20);

Test(thread_timer, repeats_each_period_after_a_first_expiry_within_one)
{
	const int n = 2000;
	uint64_t sum = 0;
	uint64_t least = UINT64_MAX;
	uint64_t most = 0;

	kernel.on = true;
	for (int i = 0; i < n; i++) {
		int id = sp_thread_timer_arm(1000 + (uint32_t)i, 0);

		cr_assert_eq(id, 0);
		uint64_t first = ns_of(kernel.timer[0].spec.it_value);

		cr_assert_eq(ns_of(kernel.timer[0].spec.it_interval), PERIOD_NS);
		cr_assert(first > 0 && first <= PERIOD_NS, "first expiry after %lu ns", first);
		sum += first;
		least = first < least ? first : least;
		most = first > most ? first : most;
		sp_thread_timer_delete(id);
	}

	/* uniform: the mean of 2,000 values is within 5 % of the middle, except with odds of one in a million */
	cr_assert_float_eq((double)sum / n, PERIOD_NS / 2.0, PERIOD_NS * 0.05);
	cr_assert_lt(least, PERIOD_NS / 50);
	cr_assert_gt(most, PERIOD_NS - PERIOD_NS / 50);
}

Test(thread_timer, takes_periods_of_seconds)
{
	kernel.on = true;
	sp_thread_timer_set(SIGURG, 5 * SP_NS_PER_S, COOKIE);

	cr_assert_eq(sp_thread_timer_arm(1, 0), 0);
	cr_assert_eq(ns_of(kernel.timer[0].spec.it_interval), 5 * SP_NS_PER_S);
	cr_assert_lt(kernel.timer[0].spec.it_value.tv_nsec, 1000000000L);
	cr_assert_leq(ns_of(kernel.timer[0].spec.it_value), 5 * SP_NS_PER_S);
}

Test(thread_timer, tells_why_it_could_not_be_armed)
{
	kernel.on = true;
	errno = 4711;

	kernel.refuse_create = EAGAIN;
	cr_assert_eq(sp_thread_timer_arm(1, 0), -EAGAIN);
	kernel.refuse_create = 0;
	kernel.refuse_settime = EINVAL;
	cr_assert_eq(sp_thread_timer_arm(1, 0), -EINVAL);
	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(errno, 4711);
}

Test(thread_timer, deletes_only_what_is_an_id)
{
	kernel.on = true;
	errno = 4711;
	cr_assert_eq(sp_thread_timer_arm(1, 0), 0);

	sp_thread_timer_delete(-1);
	sp_thread_timer_delete(63);
	cr_assert_eq(kernel_timers(), 1);
	sp_thread_timer_delete(0);
	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(errno, 4711);
}

static volatile sig_atomic_t came;
static siginfo_t got;

static void on_signal(int signo, siginfo_t *si, void *ucontext)
{
	(void)signo;
	(void)ucontext;
	got = *si;
	came++;
}

/* The real kernel: only the thread's CPU time counts, and the signal is the requested one. */
Test(thread_timer, signals_its_thread_for_cpu_time)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	int id;

	cr_assert_eq(sigaction(SIGURG, &sa, NULL), 0);
	id = sp_thread_timer_arm((uint32_t)syscall(SYS_gettid), 77);
	cr_assert_geq(id, 0);

	while (came < 3)
		continue;
	sp_thread_timer_delete(id);

	cr_assert_eq(got.si_code, SI_TIMER);
	cr_assert_eq((uintptr_t)got.si_value.sival_ptr, (uint64_t)COOKIE << 32 | 77);
}

Test(thread_timer, of_a_thread_that_does_not_exist_is_refused)
{
	int id = sp_thread_timer_arm(4194303, 0);

	cr_assert_eq(id, -EINVAL);
}
