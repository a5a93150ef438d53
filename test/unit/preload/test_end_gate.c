/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the gate between the background thread and the end of the process. */
#include "preload/end_gate.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "sampler/compiler.h"
#include "sampler/monotonic.h"

static _Atomic bool entered;
static _Atomic bool may_leave;
static _Atomic bool left;

static void *work(void *arg)
{
	cr_assert(sp_end_gate_enter());
	atomic_store(&entered, true);
	while (!atomic_load(&may_leave))
		(void)sched_yield();
	atomic_store(&left, true);
	sp_end_gate_leave();
	return arg;
}

static void *let_go(void *arg)
{
	atomic_store(&may_leave, true);
	return arg;
}

TestSuite(end_gate, .timeout = 20);

Test(end_gate, lets_nobody_in_once_closed)
{
	cr_assert(sp_end_gate_enter());
	sp_end_gate_leave();
	sp_end_gate_close();

	cr_expect_not(sp_end_gate_enter());
	cr_expect_not(sp_end_gate_enter());
}

Test(end_gate, closes_when_the_one_inside_has_left)
{
	pthread_t inside;
	pthread_t other;

	cr_assert_eq(pthread_create(&inside, NULL, work, NULL), 0);
	while (!atomic_load(&entered))
		(void)sched_yield();
	cr_assert_eq(pthread_create(&other, NULL, let_go, NULL), 0);
	sp_end_gate_close();

	cr_expect(atomic_load(&left));
	cr_assert_eq(pthread_join(inside, NULL), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
}

/* A thread that a crowded machine lets run now and then, for longer than the first wait. */
static void *starve(void *arg)
{
	const struct timespec turn = {0, 1000000};
	uint64_t end;

	cr_assert(sp_end_gate_enter());
	end = sp_monotonic_ns() + 1500 * SP_NS_PER_MS;
	atomic_store(&entered, true);
	while (sp_monotonic_ns() < end)
		(void)nanosleep(&turn, NULL);
	atomic_store(&left, true);
	sp_end_gate_leave();
	return arg;
}

Test(end_gate, waits_longer_for_one_that_gets_little_of_its_time)
{
	pthread_t inside;

	cr_assert_eq(pthread_create(&inside, NULL, starve, NULL), 0);
	while (!atomic_load(&entered))
		(void)sched_yield();
	sp_end_gate_close();

	cr_expect(atomic_load(&left));
	cr_assert_eq(pthread_join(inside, NULL), 0);
}

Test(end_gate, waits_only_so_long)
{
	cr_assert(sp_end_gate_enter());

	sp_end_gate_close();

	cr_expect_not(sp_end_gate_enter());
}

Test(end_gate, closes_once)
{
	sp_end_gate_close();
	cr_assert_not(sp_end_gate_enter());

	/* no second wait, whoever is inside */
	sp_end_gate_close();
}

Test(end_gate, is_open_in_a_forked_child)
{
	cr_assert(sp_end_gate_enter());
	sp_end_gate_close();

	sp_end_gate_forked();

	cr_expect(sp_end_gate_enter());
}
