/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about whose the CPU time is that no sample stands for: a label is right or there is none. The
 * clocks are the double's, samples are what the handler would note of them.
 */
#include "sampler/residual.h"

#include <criterion/criterion.h>
#include <string.h>

#include "clock_double.h"
#include "kernel_double.h"
#include "sampler/handler.h"
#include "sampler/timer.h"
#include "span_host.h"

#define MS SP_NS_PER_MS
#define PERIOD (10 * MS)
#define TID 100
#define SPANS 10

static struct sp_thread *thread;
static uint64_t labelled[SPANS]; /* nanoseconds by span id, 0 = none */

static void start(void)
{
	set_up();
	kernel.on = true;
	kernel.tid = TID;
	cr_assert_eq(sp_ring_init(&sp_handler_setup.ring, 1 << 16), 0);
	sp_handler_setup.trace_id = true;
	sp_timer_set(SIGURG, PERIOD, 0x80000001U);
	thread_ns = own_ns = 5 * SP_NS_PER_S;
	process_ns = 7 * SP_NS_PER_S;
	thread = sp_thread_self();
	cr_assert_not_null(thread);
	sp_residual_start();
}

TestSuite(residual_label, .init = start, .timeout = 20);

static void work(uint64_t ns)
{
	thread_ns += ns;
	own_ns += ns;
	process_ns += ns;
}

/* A period, and the sample at its end. */
static void sampled_work(void)
{
	work(PERIOD);
	atomic_fetch_add(&thread->residual.settled_ns, PERIOD);
	atomic_fetch_add(&sp_handler_setup.accounted_ns, PERIOD);
	sp_turns_restart(&thread->turns);
}

static void lost_sample(void)
{
	work(PERIOD);
	sp_residual_gap(&thread->residual);
}

static void note(const struct sp_sample *s, void *arg)
{
	(void)arg;
	cr_assert(s->flags & SP_SAMPLE_RESIDUAL);
	cr_assert_lt(s->span_id, SPANS);
	cr_assert_eq(s->name_id != 0, s->span_id != 0);
	cr_assert_eq(s->trace_id[0] != 0, s->span_id != 0);
	labelled[s->span_id] += s->weight;
}

static void drain(void)
{
	memset(labelled, 0, sizeof(labelled));
	(void)sp_ring_drain(&sp_handler_setup.ring, note, NULL, 1000);
}

/* What the thread itself says at its end. */
static void end_thread(void)
{
	sp_residual_end(thread);
	drain();
}

/* What another thread says of it, in whose view the clock of this thread is another's. */
static void flush(void)
{
	uint64_t own = own_ns;

	own_ns = 0;
	sp_residual_flush();
	own_ns = own;
	drain();
}

Test(residual_label, is_that_of_the_first_span_where_there_was_no_sample)
{
	work(1 * MS);
	begin(1);
	work(2 * MS);
	end(1);
	work(4 * MS);
	end_thread();

	cr_expect_eq(labelled[1], 2 * MS);
	cr_expect_eq(labelled[0], 5 * MS);
}

Test(residual_label, is_none_when_time_before_the_last_samples_is_among_it)
{
	begin(1);
	lost_sample();
	end(1);
	begin(2);
	sampled_work();
	sampled_work();
	sampled_work();
	work(4 * MS);
	end_thread();
	cr_expect_eq(labelled[0], 14 * MS, "10 of them in span 1");

	/* settled, and known again */
	work(3 * MS);
	end_thread();
	cr_expect_eq(labelled[2], 3 * MS);
}

Test(residual_label, is_none_when_the_timer_was_away_for_a_while)
{
	begin(1);
	sp_thread_rest();
	work(30 * MS);
	sp_thread_rearm();
	end(1);
	begin(2);
	sampled_work();
	sampled_work();
	end_thread();

	cr_expect_eq(labelled[0], 30 * MS);
}

Test(residual_label, of_another_thread_is_known_from_one_settlement_to_the_next)
{
	begin(1);
	work(5 * MS);
	flush();
	cr_expect_eq(labelled[0], 5 * MS, "another thread cannot tell when it began");
	work(7 * MS);
	flush();
	cr_expect_eq(labelled[1], 7 * MS);
	end(1);
	work(1 * MS);
	flush();
	cr_expect_eq(labelled[0], 1 * MS);
	begin(2);
	work(2 * MS);
	flush();
	cr_expect_eq(labelled[0], 2 * MS);
}

Test(residual_label, of_another_thread_is_known_from_a_look_that_found_it_even)
{
	begin(1);
	sampled_work();
	sp_residual_look();
	sampled_work();
	work(6 * MS);
	flush();

	cr_expect_eq(labelled[1], 6 * MS);
}

Test(residual_label, is_not_what_lies_below_a_span_that_another_thread_ended)
{
	sp_handler_setup.id_scope = SP_SCOPE_ALL;
	sp_handler_setup.name_scope = SP_SCOPE_ALL;
	begin(1);
	begin(2);
	flush();
	work(5 * MS);
	end_elsewhere(2);
	work(1 * MS);
	flush();
	cr_expect_eq(labelled[0], 6 * MS, "only the last of them was in span 1");
	work(2 * MS);
	flush();
	cr_expect_eq(labelled[1], 2 * MS);
}

Test(residual_label, is_none_where_the_program_began_to_attach)
{
	begin(1);
	begin_scoped(2); /* yields as soon as anything is attached anywhere */
	flush();
	work(5 * MS);
	atomic_store(&sp_span_stack_scoped, true);
	work(1 * MS);
	flush();
	cr_expect_eq(labelled[0], 6 * MS);
}
