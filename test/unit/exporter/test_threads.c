/* SPDX-License-Identifier: Apache-2.0 */
/* When the host is asked to look for threads. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export/exporter/wait.h"
#include "host_double.h"

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
	const struct sp_threads_known k = {known, armed};

	return sp_threads_look(&threads, &seen, &k);
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
