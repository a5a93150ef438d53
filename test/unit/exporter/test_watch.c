/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that sleeps on a futex for who waits for descriptors. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "export/exporter/view.h"
#include "export/exporter/wait.h"
#include "export/util/clock.h"

static _Atomic uint32_t word;
static struct sp_watch watch;
static int event;

static void turn(void)
{
	atomic_fetch_add(&word, 1);
	sp_view_wake(&word);
}

static bool is_told(int ms)
{
	struct pollfd p = {.fd = event, .events = POLLIN};
	uint64_t n;

	return poll(&p, 1, ms) == 1 && read(event, &n, sizeof(n)) == sizeof(n);
}

static void set_up(void)
{
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cr_assert_geq(event, 0);
	cr_assert_eq(sp_watch_start(&watch, &word, event), 0);
	/* The first one is for what was there before: a host may ask while its exporter starts. */
	cr_assert(is_told(0));
}

TestSuite(watch, .init = set_up, .timeout = 20);

Test(watch, tells_of_each_change_of_the_word)
{
	for (unsigned i = 0; i < 5; i++) {
		turn();
		cr_assert(is_told(10000));
	}
	sp_watch_stop(&watch);
}

/* A wake without a change is somebody else's, or a signal's. */
Test(watch, tells_of_no_wake_without_one)
{
	for (unsigned i = 0; i < 50; i++)
		sp_view_wake(&word);
	cr_expect_not(is_told(20));
	turn();
	cr_expect(is_told(10000));
	sp_watch_stop(&watch);
}

static _Atomic bool enough;

static void *play(void *arg)
{
	uint32_t value = 7;

	(void)arg;
	while (!atomic_load(&enough)) {
		atomic_store(&word, value);
		sp_view_wake(&word);
	}
	return NULL;
}

/* Whoever may write to the region may put back what we write to it. */
Test(watch, stops_although_somebody_holds_the_word)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, play, NULL), 0);
	sp_watch_stop(&watch);
	cr_expect_not(watch.runs);
	atomic_store(&enough, true);
	cr_assert_eq(pthread_join(t, NULL), 0);
}

static void *turn_for_ever(void *arg)
{
	(void)arg;
	while (!atomic_load(&enough))
		turn();
	return NULL;
}

Test(watch, costs_little_when_somebody_plays_with_the_word)
{
	clockid_t clock;
	struct timespec used;
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, turn_for_ever, NULL), 0);
	(void)poll(NULL, 0, 300);
	cr_assert_eq(pthread_getcpuclockid(watch.thread, &clock), 0);
	cr_assert_eq(clock_gettime(clock, &used), 0);
	atomic_store(&enough, true);
	cr_assert_eq(pthread_join(t, NULL), 0);
	sp_watch_stop(&watch);
	cr_expect_lt(used.tv_nsec / 1000000, 100);
}
