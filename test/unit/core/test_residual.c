/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about CPU time that no sample stands for. The clocks are the double's: a thread's and the
 * process's CPU time is what the test says.
 */
#include "sampler/residual.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "clock_double.h"
#include "kernel_double.h"
#include "sampler/counters.h"
#include "sampler/handler.h"
#include "sampler/thread.h"
#include "sampler/timer.h"

#define PERIOD_NS (10 * SP_NS_PER_MS)
#define TID 100

static struct sp_thread *thread;
static struct {
	unsigned records;
	uint64_t ns;
	uint64_t pc;
	unsigned depth;
} seen;

static void note(const struct sp_sample *s, void *arg)
{
	(void)arg;
	cr_assert(s->flags & SP_SAMPLE_RESIDUAL);
	cr_assert(s->flags & SP_SAMPLE_ROOTED);
	seen.records++;
	seen.ns += s->weight;
	seen.depth = s->depth;
	seen.pc = s->depth > 0 ? s->pc[0] : 0;
}

static uint64_t drained(void)
{
	memset(&seen, 0, sizeof(seen));
	(void)sp_ring_drain(&sp_handler_setup.ring, note, NULL, 1000);
	return seen.ns;
}

static void *routine(void *arg)
{
	return arg;
}

static void set_up(void)
{
	kernel.on = true;
	kernel.tid = TID;
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_ring_init(&sp_handler_setup.ring, 1 << 16), 0);
	sp_timer_set(SIGURG, PERIOD_NS, 0x80000001U);
	thread_ns = 5 * SP_NS_PER_S;
	process_ns = 7 * SP_NS_PER_S;
	thread = sp_thread_self();
	cr_assert_not_null(thread);
	sp_residual_start();
}

/* What the handler does when a sample was put. */
static void sampled(uint64_t ns)
{
	atomic_fetch_add(&thread->residual.settled_ns, ns);
	atomic_fetch_add(&sp_handler_setup.accounted_ns, ns);
}

/* Time passes on the thread, and so for the process. */
static void used(uint64_t ns)
{
	thread_ns += ns;
	process_ns += ns;
}

TestSuite(residual, .init = set_up, .timeout = 20);

Test(residual, is_what_the_clock_says_and_samples_do_not)
{
	used(27 * SP_NS_PER_MS);
	sampled(20 * SP_NS_PER_MS);

	sp_residual_flush();
	cr_expect_eq(drained(), 7 * SP_NS_PER_MS);
	sp_residual_flush();
	cr_expect_eq(drained(), 0, "settled twice");
}

Test(residual, does_not_count_what_was_used_before)
{
	sp_residual_flush();

	cr_expect_eq(drained(), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_RESIDUALS), 0);
}

Test(residual, stands_under_the_start_routine)
{
	thread->start = routine;
	used(SP_NS_PER_MS);

	sp_residual_flush();
	cr_expect_eq(drained(), SP_NS_PER_MS);
	cr_expect_eq(seen.depth, 1);
	cr_expect_eq(seen.pc, (uintptr_t)routine);
}

Test(residual, leaves_a_live_thread_time_to_be_sampled)
{
	used(200 * SP_NS_PER_MS);
	sp_residual_look();
	cr_expect_eq(drained(), 0);

	used(200 * SP_NS_PER_MS);
	sp_residual_look();
	cr_expect_eq(drained(), 400 * SP_NS_PER_MS);
}

Test(residual, takes_a_lead_off_what_comes_later)
{
	/* the sample of a thread that ends after 2 ms stands for 10 */
	used(2 * SP_NS_PER_MS);
	sampled(10 * SP_NS_PER_MS);
	own_ns = thread_ns;
	sp_residual_end(thread);
	cr_expect_eq(drained(), 0);

	own_ns = 0;
	sp_residual_begin(thread, TID);
	used(3 * SP_NS_PER_MS);
	sp_residual_flush();
	cr_expect_eq(drained(), 0, "3 of the 8 ms are taken off");
	used(7 * SP_NS_PER_MS);
	sp_residual_flush();
	cr_expect_eq(drained(), 2 * SP_NS_PER_MS);
}

Test(residual, of_one_thread_pays_for_one_period_of_the_others_lead)
{
	for (int i = 0; i < 3; i++) {
		own_ns = 0;
		thread_ns = 0;
		sp_residual_begin(thread, TID);
		used(2 * SP_NS_PER_MS);
		sampled(10 * SP_NS_PER_MS);
		own_ns = thread_ns;
		sp_residual_end(thread);
	}
	cr_expect_eq(drained(), 0);

	thread_ns = 0;
	own_ns = 0;
	sp_residual_begin(thread, TID);
	used(100 * SP_NS_PER_MS);
	own_ns = thread_ns;
	sp_residual_end(thread);
	cr_expect_eq(drained(), 90 * SP_NS_PER_MS, "the others are 24 ms ahead");
}

Test(residual, of_a_thread_that_is_gone_is_in_the_processs_clock)
{
	used(30 * SP_NS_PER_MS);
	sampled(10 * SP_NS_PER_MS);
	thread_gone = true;

	sp_residual_flush();
	cr_expect_eq(drained(), 20 * SP_NS_PER_MS);
	cr_expect_eq(seen.depth, 0);
}

Test(residual, ends_where_sampling_was_given_up)
{
	used(3 * SP_NS_PER_MS);
	sp_residual_stop();
	cr_expect_eq(drained(), 3 * SP_NS_PER_MS);

	used(400 * SP_NS_PER_MS);
	own_ns = thread_ns;
	sp_residual_look();
	sp_residual_end(thread);
	sp_residual_flush();
	cr_expect_eq(drained(), 0);
}

Test(residual, of_seconds_takes_several_records)
{
	used(9 * SP_NS_PER_S);

	sp_residual_flush();
	cr_expect_eq(drained(), 9 * SP_NS_PER_S);
	cr_expect_eq(seen.records, 3);
}

Test(residual, that_finds_no_room_is_counted)
{
	cr_assert_eq(sp_ring_init(&sp_handler_setup.ring, 1 << 13), 0);
	for (int i = 0; i < 400; i++) {
		used(SP_NS_PER_MS);
		sp_residual_flush();
	}

	cr_expect_gt(sp_count_read(SP_COUNT_DROP_RING_FULL), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_RESIDUALS),
		     sp_count_read(SP_COUNT_SAMPLES_PUT) + sp_count_read(SP_COUNT_DROP_RING_FULL));
}

Test(residual, leaves_errno_alone)
{
	thread_gone = true;
	errno = 4711;

	sp_residual_begin(thread, TID);
	sp_residual_look();
	sp_residual_end(thread);

	cr_expect_eq(errno, 4711);
}
