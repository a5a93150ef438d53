/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about whose CPU time it was that no sample stands for. The clock is this file's. */
#include "sampler/turns.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "kernel_double.h"
#include "sampler/cpu_clock.h"
#include "sampler/handler.h"
#include "sampler/residual.h"
#include "sampler/thread.h"
#include "sampler/timer.h"

#define TID 100
#define RECORDS_MAX 16

static uint64_t clock_ns;
static unsigned looks;

/* Instead of the kernel's. */
bool sp_cpu_clock_ns(clockid_t clock SP_UNUSED, uint64_t *ns)
{
	looks++;
	*ns = clock_ns;
	return true;
}

static struct sp_thread *thread;
static struct sp_sample record[RECORDS_MAX];
static unsigned records;

static void note(const struct sp_sample *s, void *arg SP_UNUSED)
{
	cr_assert_lt(records, RECORDS_MAX);
	memcpy(&record[records++], s, offsetof(struct sp_sample, pc));
}

/* The thread ends: what there is under that span, and in all. */
static void end(void)
{
	records = 0;
	sp_residual_end(thread);
	(void)sp_ring_drain(&sp_handler_setup.ring, note, NULL, RECORDS_MAX);
}

static uint64_t under(uint64_t span_id)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < records; i++)
		ns += record[i].span_id == span_id ? record[i].weight : 0;
	return ns;
}

static void used_ms(uint64_t ms)
{
	clock_ns += ms * SP_NS_PER_MS;
}

static void begin_span(uint64_t id)
{
	struct sp_span_entry e = {.span_id = id,
				  .root_id = id,
				  .name_id = (uint32_t)id,
				  .root_name_id = (uint32_t)id};

	sp_turns_change(thread);
	(void)sp_span_stack_push(&thread->spans, &e);
}

static void end_span(uint64_t id)
{
	sp_turns_change(thread);
	cr_assert(sp_span_stack_pop(&thread->spans, id));
}

/* What the handler does when a sample was put. */
static void sampled_ms(uint64_t ms)
{
	atomic_fetch_add(&thread->residual.settled_ns, ms * SP_NS_PER_MS);
	sp_turns_restart(&thread->turns);
}

static void set_up(void)
{
	kernel.on = true;
	kernel.tid = TID;
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_ring_init(&sp_handler_setup.ring, 1 << 16), 0);
	sp_handler_setup.id_scope = SP_SCOPE_ROOT;
	sp_handler_setup.name_scope = SP_SCOPE_ROOT;
	sp_timer_set(SIGURG, 10 * SP_NS_PER_MS, 0x80000001U);
	clock_ns = 5 * SP_NS_PER_S;
	thread = sp_thread_self();
	cr_assert_not_null(thread);
	sp_residual_start();
}

TestSuite(turns, .init = set_up, .timeout = 20);

Test(turns, give_each_span_its_own)
{
	used_ms(1);
	begin_span(11);
	used_ms(2);
	end_span(11);
	used_ms(3);
	begin_span(22);
	used_ms(4);
	end_span(22);
	used_ms(5);

	end();
	cr_expect_eq(under(11), 2 * SP_NS_PER_MS);
	cr_expect_eq(under(22), 4 * SP_NS_PER_MS);
	cr_expect_eq(under(0), 9 * SP_NS_PER_MS);
}

Test(turns, carry_name_and_span)
{
	begin_span(11);
	used_ms(2);

	end();
	cr_assert_eq(records, 1);
	cr_expect_eq(record[0].span_id, 11);
	cr_expect_eq(record[0].name_id, 11);
	cr_expect_eq(record[0].weight, 2 * SP_NS_PER_MS);
}

Test(turns, start_over_with_a_sample)
{
	begin_span(11);
	used_ms(8);
	end_span(11);
	begin_span(22);
	used_ms(2);
	sampled_ms(10);
	used_ms(6);
	end_span(22);
	used_ms(1);

	end();
	cr_expect_eq(under(11), 0);
	cr_expect_eq(under(22), 6 * SP_NS_PER_MS);
	cr_expect_eq(under(0), SP_NS_PER_MS);
}

/* The latest is what samples lack: what came before, a sample may have stood for in advance. */
Test(turns, of_less_than_was_used_are_the_latest)
{
	begin_span(11);
	used_ms(5);
	end_span(11);
	begin_span(22);
	used_ms(5);
	atomic_fetch_add(&thread->residual.settled_ns, 4 * SP_NS_PER_MS);

	end();
	cr_expect_eq(under(22), 5 * SP_NS_PER_MS);
	cr_expect_eq(under(11), 1 * SP_NS_PER_MS);
}

Test(turns, that_were_not_noted_are_nobodys)
{
	for (uint64_t id = 1; id <= 10; id++) {
		begin_span(id);
		used_ms(1);
		end_span(id);
	}

	end();
	cr_expect_eq(under(1), SP_NS_PER_MS);
	cr_expect_eq(under(2), SP_NS_PER_MS);
	cr_expect_eq(under(3), 0);
	cr_expect_eq(under(0), 8 * SP_NS_PER_MS);
}

Test(turns, take_few_looks_at_the_clock_however_many_there_are)
{
	looks = 0;
	for (uint64_t id = 1; id <= 1000; id++) {
		begin_span(id);
		end_span(id);
	}

	cr_expect_eq(looks, SP_TURNS_MAX);
}

Test(turns, of_a_thread_without_a_block_are_none)
{
	errno = 4711;

	sp_turns_change(NULL);

	cr_expect_eq(errno, 4711);
}
