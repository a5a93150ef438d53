/* SPDX-License-Identifier: Apache-2.0 */
/* When the host is asked to look for threads. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export/exporter/wait.h"
#include "host_double.h"
#include "sampler/base/compiler.h"

static struct sp_view view;
static struct sp_host seen;
static struct sp_threads threads;

static void set_up(void)
{
	host_make();
	host_open(&view, &seen);
}

TestSuite(threads, .init = set_up, .timeout = 20);

static pthread_barrier_t barrier;
static _Atomic uint32_t tid;

static void *wait_twice(void *arg)
{
	atomic_store(&tid, (uint32_t)syscall(SYS_gettid));
	(void)pthread_barrier_wait(&barrier);
	(void)pthread_barrier_wait(&barrier);
	return arg;
}

static pthread_t start(void)
{
	pthread_t t;

	cr_assert_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
	cr_assert_eq(pthread_create(&t, NULL, wait_twice, NULL), 0);
	(void)pthread_barrier_wait(&barrier);
	return t;
}

static void end(pthread_t t)
{
	(void)pthread_barrier_wait(&barrier);
	cr_assert_eq(pthread_join(t, NULL), 0);
	/* join returns before the kernel has let go of it */
	while (syscall(SYS_tgkill, getpid(), atomic_load(&tid), 0) == 0)
		(void)sched_yield();
}

static bool advised(uint32_t known, uint32_t armed)
{
	const struct sp_threads_known k = {.known = known, .armed = armed};

	return sp_threads_compare(&threads, &seen, &k);
}

Test(threads, that_all_have_timers_need_no_scan)
{
	for (unsigned i = 0; i < 5; i++)
		cr_expect_not(advised(1, 1));
	cr_expect_eq(threads.seen, 1);
}

Test(threads, that_are_unknown_do)
{
	pthread_t t = start();

	cr_expect(advised(1, 1));
	cr_expect_eq(threads.seen, 2);
	cr_expect_not(advised(2, 2));
	end(t);
	cr_expect(advised(2, 2), "and those that are gone");
	cr_expect_not(advised(1, 1));
}

Test(threads, without_a_timer_do)
{
	pthread_t t = start();

	cr_expect(advised(2, 1));
	cr_expect_not(advised(2, 2));
	end(t);
}

Test(threads, that_get_no_timer_need_no_scan)
{
	struct sp_threads_known k = {.known = 2, .refused = 1};
	pthread_t t = start();

	cr_expect(sp_threads_compare(&threads, &seen, &k), "one has none yet");
	k.armed = 1;
	cr_expect_not(sp_threads_compare(&threads, &seen, &k));
	k.known = 1;
	cr_expect(sp_threads_compare(&threads, &seen, &k), "and one is not known");
	end(t);
}

Test(threads, that_nothing_helps_are_left_alone_more_and_more)
{
	pthread_t t = start();
	unsigned n = 0;

	for (unsigned i = 0; i < 100; i++)
		n += advised(2, 1);
	cr_expect_gt(n, 2);
	cr_expect_lt(n, 10);
	cr_expect_not(advised(2, 2));
	n = 0;
	for (unsigned i = 0; i < 3; i++)
		n += advised(2, 1);
	cr_expect_geq(n, 1, "a timer that went is news");
	end(t);
}

static _Atomic uint64_t value_of_signal;
static _Atomic uint32_t thread_of_signal;
static _Atomic int sender;

static void note(int signo SP_UNUSED, siginfo_t *info, void *context SP_UNUSED)
{
	atomic_store(&value_of_signal, (uint64_t)(uintptr_t)info->si_value.sival_ptr);
	atomic_store(&sender, info->si_code == SI_QUEUE ? info->si_pid : -1);
	atomic_store(&thread_of_signal, (uint32_t)syscall(SYS_gettid));
}

static _Atomic bool ends;

static void *run(void *arg)
{
	atomic_store(&tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&ends))
		;
	return arg;
}

static _Atomic uint64_t late_ns; /* by so much the clock advances with each reading */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	static _Atomic uint64_t all;
	int err = (int)syscall(SYS_clock_gettime, id, t);

	if (id == CLOCK_MONOTONIC) {
		t->tv_nsec += (long)atomic_fetch_add(&all, atomic_load(&late_ns)) % 1000000000;
		t->tv_sec += t->tv_nsec / 1000000000;
		t->tv_nsec %= 1000000000;
	}
	return err;
}

/* The calling thread sleeps meanwhile, and so is not the one that runs. */
static bool rouse(int signo)
{
	(void)poll(NULL, 0, 30);
	return sp_threads_rouse(&threads, &seen, signo, 4711);
}

static void *rouse_some_times(void *arg)
{
	bool *is_sent = arg;

	for (unsigned i = 0; i < 200 && !*is_sent; i++)
		*is_sent = rouse(SIGUSR1);
	return NULL;
}

Test(threads, that_run_are_roused)
{
	const struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	bool is_sent = false;
	pthread_t runner;
	pthread_t other;

	cr_assert_eq(pthread_create(&runner, NULL, run, NULL), 0);
	for (unsigned i = 0; i < 5; i++)
		cr_expect_not(rouse(SIGUSR1), "without a handler the signal would end the program");
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	threads.running = 0;
	/* Another thread looks, as the kernel shows the one that looks as running. */
	cr_assert_eq(pthread_create(&other, NULL, rouse_some_times, &is_sent), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
	for (unsigned i = 0; i < 2000 && atomic_load(&thread_of_signal) == 0; i++)
		(void)poll(NULL, 0, 1);
	atomic_store(&ends, true);
	cr_assert_eq(pthread_join(runner, NULL), 0);
	cr_expect(is_sent);
	cr_expect_eq(atomic_load(&thread_of_signal), atomic_load(&tid));
	cr_expect_eq(atomic_load(&value_of_signal), 4711);
	cr_expect_eq(atomic_load(&sender), getpid());
}

/* The exporter lost its processor behind the look at the thread's state, which may have changed since. */
Test(threads, that_ran_a_while_ago_are_not_roused)
{
	const struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	bool is_sent = false;
	pthread_t runner;

	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(pthread_create(&runner, NULL, run, NULL), 0);
	atomic_store(&late_ns, 1000000);
	for (unsigned i = 0; i < 20; i++)
		is_sent |= rouse(SIGUSR1);
	cr_expect_not(is_sent);
	atomic_store(&ends, true);
	cr_assert_eq(pthread_join(runner, NULL), 0);
}

Test(threads, that_have_used_no_time_since_are_not_roused)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid);

	cr_assert_neq(signal(SIGUSR1, SIG_IGN), SIG_ERR);
	cr_expect_not(sp_threads_rouse(&threads, &seen, SIGUSR1, 4711));
	cr_expect_eq(threads.running, self, "it looks, so it runs");
	threads.ran = UINT64_MAX;
	cr_expect_not(sp_threads_rouse(&threads, &seen, SIGUSR1, 4711), "it is ignored");
}
