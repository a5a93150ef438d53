/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time that no sample stands for: none is missing or counted twice, and a label is known or absent. The clocks
 * are doubles, and the test calls what the handler would call for samples.
 */
#include "sampler/sampling/thread_account.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "clock_double.h"
#include "kernel_double.h"
#include "sampler/base/counters.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/handler.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "span_host.h"
#include "test/common/own_memory.h"

#define MS SP_NS_PER_MS
#define PERIOD (10 * MS)
#define TID 100
#define SPANS 10

static struct sp_channel channel;

static struct sp_thread *thread;
static uint64_t labelled[SPANS]; /* nanoseconds by span id, 0 = none */
static unsigned records;
static struct sp_cpu_time last;

static void start(void)
{
	set_up();
	kernel.on = true;
	kernel.tid = TID;
	cr_assert_eq(ring_init(&channel.ring, 1 << 16), 0);
	atomic_store(&sp_channel_open, &channel);
	sp_thread_account_init(false);
	sp_thread_timer_set(SIGURG, PERIOD, 0x80000001U);
	thread_ns = own_ns = 5 * SP_NS_PER_S;
	process_ns = 7 * SP_NS_PER_S;
	thread = sp_thread_self();
	cr_assert_not_null(thread);
	sp_thread_account_start();
}

TestSuite(thread_account, .init = start, .timeout = 20);

/* CPU time passes on the thread, and so for the process. */
static void work(uint64_t ns)
{
	thread_ns += ns;
	own_ns += ns;
	process_ns += ns;
}

static void sample(void)
{
	sp_thread_account_sample(&thread->account, PERIOD, active() != 0);
}

static void note(const struct sp_record *record, void *arg SP_UNUSED)
{
	last = record->cpu_time;
	cr_assert_eq(record->kind, SP_RECORD_CPU_TIME);
	cr_assert_lt(last.span_id, SPANS);
	cr_assert_eq(last.name_id != 0, last.span_id != 0);
	labelled[last.span_id] += last.ns;
	records++;
}

/* All time in records since the last call. */
static uint64_t drained(void)
{
	uint64_t ns = 0;

	memset(labelled, 0, sizeof(labelled));
	records = 0;
	(void)sp_ring_drain(&channel.ring, note, NULL, 1000);
	for (unsigned i = 0; i < SPANS; i++)
		ns += labelled[i];
	return ns;
}

/* The record that the thread itself makes at its end. */
static uint64_t end_thread(void)
{
	sp_thread_account_end(thread);
	return drained();
}

/* The record that another thread makes of the first thread, whose clock the kernel has to look up. */
static uint64_t flush(void)
{
	uint64_t own = own_ns;

	own_ns = 0;
	sp_thread_account_flush();
	own_ns = own;
	return drained();
}

/* As if this were the next thread, and the first one's block were free again. */
static void next_thread(void)
{
	sp_thread_account_begin(thread, TID);
}

/* --- Sums ----------------------------------------------------------------------------------------- */

Test(thread_account, is_what_the_clock_says_and_samples_do_not)
{
	work(27 * MS);
	sample();
	sample();

	cr_expect_eq(flush(), 7 * MS);
	cr_expect_eq(flush(), 0, "settled twice");
}

Test(thread_account, does_not_count_what_was_used_before)
{
	cr_expect_eq(flush(), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_UNSAMPLED), 0);
}

static void *routine(void *arg)
{
	return arg;
}

Test(thread_account, puts_records_under_the_start_routine)
{
	thread->start = routine;
	work(MS);

	cr_expect_eq(flush(), MS);
	cr_expect_eq(last.start, (uintptr_t)routine);
	cr_expect_eq(last.tid, TID);
}

Test(thread_account, leaves_a_live_thread_time_to_be_sampled)
{
	work(200 * MS);
	sp_thread_account_balance();
	cr_expect_eq(drained(), 0);

	work(200 * MS);
	sp_thread_account_balance();
	cr_expect_eq(drained(), 400 * MS);
}

/* The signal was delayed by a long system call, and stands for time that a record has already. */
Test(thread_account, tells_the_handler_what_was_told_of_a_live_thread)
{
	work(400 * MS);
	sp_thread_account_balance();
	cr_expect_eq(drained(), 400 * MS);
	work(300 * MS);
	sp_thread_account_balance();
	cr_expect_eq(drained(), 300 * MS);

	cr_expect_eq(sp_thread_account_recorded(&thread->account, PERIOD), 700 * MS / PERIOD);
	cr_expect_eq(sp_thread_account_recorded(&thread->account, PERIOD), 0);
	work(400 * MS);
	sp_thread_account_balance();
	next_thread();
	cr_expect_eq(sp_thread_account_recorded(&thread->account, PERIOD), 0);
}

/* If a thread is further ahead, something is wrong, and no other thread may pay for it. */
Test(thread_account, has_a_lead_of_one_period_at_most)
{
	for (int i = 0; i < 5; i++)
		sample();
	cr_expect_eq(end_thread(), 0);
	for (int i = 0; i < 2; i++) {
		next_thread();
		work(3 * PERIOD);
		cr_expect_eq(end_thread(), (uint64_t)(i == 0 ? 2 : 3) * PERIOD);
	}
}

Test(thread_account, leaves_a_live_thread_its_lead)
{
	work(2 * MS);
	sample();
	sp_thread_account_balance();
	work(10 * MS);

	cr_expect_eq(end_thread(), 2 * MS);
}

Test(thread_account, takes_a_lead_off_what_comes_later)
{
	/* the thread ends after 2 ms, but its sample stands for 10 */
	work(2 * MS);
	sample();
	cr_expect_eq(end_thread(), 0);

	next_thread();
	work(3 * MS);
	cr_expect_eq(flush(), 0, "3 of the 8 ms are taken off");
	work(7 * MS);
	cr_expect_eq(flush(), 2 * MS);
}

Test(thread_account, pays_for_one_period_of_the_others_lead)
{
	for (int i = 0; i < 3; i++) {
		next_thread();
		work(2 * MS);
		sample();
		cr_expect_eq(end_thread(), 0);
	}
	next_thread();
	work(100 * MS);

	cr_expect_eq(end_thread(), 90 * MS, "the others are 24 ms ahead");
}

Test(thread_account, of_a_thread_that_is_gone_is_in_the_processs_clock)
{
	work(30 * MS);
	sample();
	thread_gone = true;

	cr_expect_eq(flush(), 20 * MS);
	cr_expect_eq(last.start, 0);
	cr_expect_eq(last.tid, 0);
}

static bool scan_is_asked_for(void)
{
	return (atomic_load(&sp_region_now()->deferred_work) & SP_WORK_SCAN) != 0;
}

/* A new thread may have come, so the number of threads does not show that one has ended. */
Test(thread_account, of_a_thread_that_is_gone_asks_for_a_scan)
{
	sp_thread_account_balance();
	cr_expect_not(scan_is_asked_for());

	thread_gone = true;
	sp_thread_account_balance();
	cr_expect(scan_is_asked_for());
}

Test(thread_account, ends_where_sampling_was_given_up)
{
	work(3 * MS);
	sp_thread_account_stop();
	cr_expect_eq(drained(), 3 * MS);

	work(400 * MS);
	sp_thread_account_balance();
	sp_thread_account_end(thread);
	cr_expect_eq(flush(), 0);
}

Test(thread_account, of_a_year_is_one_record)
{
	work(365 * 86400 * SP_NS_PER_S);

	cr_expect_eq(flush(), 365 * 86400 * SP_NS_PER_S);
	cr_expect_eq(records, 1);
}

Test(thread_account, counts_what_finds_no_room)
{
	cr_assert_eq(ring_init(&channel.ring, 1 << 13), 0);
	for (int i = 0; i < 400; i++) {
		work(MS);
		sp_thread_account_flush();
	}

	cr_expect_gt(sp_count_read(SP_COUNT_DROP_RING_FULL), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_UNSAMPLED),
		     sp_count_read(SP_COUNT_SAMPLES_PUT) + sp_count_read(SP_COUNT_DROP_RING_FULL));
}

Test(thread_account, leaves_errno_alone)
{
	thread_gone = true;
	errno = 4711;

	sp_thread_account_begin(thread, TID);
	sp_thread_account_balance();
	sp_thread_account_end(thread);

	cr_expect_eq(errno, 4711);
}

/* --- Threads that were never seen, or ended unseen ------------------------------------------------ */

Test(thread_account, of_threads_that_nobody_saw_is_told_while_the_process_lives)
{
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), SP_NS_PER_S);
	cr_expect_eq(last.start, 0);
	cr_expect_eq(last.tid, 0);

	sp_thread_account_balance();
	cr_expect_eq(drained(), 0, "told twice");
}

Test(thread_account, of_threads_that_nobody_saw_has_nothing_of_the_others)
{
	work(200 * MS);
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), SP_NS_PER_S);

	/* A later look takes nothing either, although the others have still to report that time. */
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), SP_NS_PER_S);

	cr_expect_eq(flush(), 200 * MS);
	cr_expect_eq(last.tid, TID);
}

/* The sample stands for 10 ms, of which the thread has not used 8 yet. */
Test(thread_account, of_threads_that_nobody_saw_does_not_pay_for_a_live_ones_lead)
{
	work(2 * MS);
	sample();
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), SP_NS_PER_S);
}

/* The CPU time of the thread that is gone was sampled, although the new thread with its id has used less. */
Test(thread_account, of_a_thread_is_not_told_again_where_another_one_has_its_id)
{
	for (int i = 0; i < 100; i++) {
		work(PERIOD);
		sample();
	}
	thread_ns = 0;
	sp_thread_account_balance();
	cr_expect_eq(drained(), 0);
}

Test(thread_account, that_found_no_room_is_told_once_there_is_some)
{
	uint64_t told;

	cr_assert_eq(ring_init(&channel.ring, 1 << 13), 0);
	while (sp_count_read(SP_COUNT_DROP_RING_FULL) == 0) {
		work(SP_NS_PER_S);
		sp_thread_account_balance();
	}
	told = drained();
	sp_thread_account_balance();

	cr_expect_eq(told + drained(), process_ns - 7 * SP_NS_PER_S);
}

/* Makes one thread more than a look reads. */
static void have_many_threads(void)
{
	for (uint32_t i = 0; i < SP_THREAD_ASK_MAX; i++)
		(void)sp_thread_enrol(TID + 1 + i);
	cr_assert_eq(sp_thread_known(), SP_THREAD_ASK_MAX + 1);
}

Test(thread_account, of_threads_that_nobody_saw_is_told_once_all_others_were_looked_at)
{
	have_many_threads();
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), 0);

	/* The additional time may belong to threads that were read before. */
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();
	cr_expect_eq(drained(), SP_NS_PER_S);
}

Test(thread_account, of_a_forked_child_has_nothing_of_its_parents)
{
	have_many_threads();
	process_ns += SP_NS_PER_S;
	sp_thread_account_balance();

	process_ns = thread_ns = own_ns = 0;
	sp_thread_account_forked();
	sp_thread_account_balance();
	sp_thread_account_balance();
	cr_expect_eq(drained(), 0);
}

/* --- Labels --------------------------------------------------------------------------------------- */

Test(thread_account, of_a_live_thread_has_no_label)
{
	begin(1);
	(void)flush();
	work(7 * MS);

	cr_expect_eq(flush(), 7 * MS);
	cr_expect_eq(labelled[0], 7 * MS);
}

Test(thread_account, has_no_label_when_several_roots_were_there)
{
	begin(1);
	work(4 * MS);
	end(1);
	begin(2);
	work(4 * MS);
	(void)end_thread();

	cr_expect_eq(labelled[0], 8 * MS);
}

/* --- Threads that are made for one task ----------------------------------------------------------- */

Test(thread_account, of_a_thread_with_one_root_is_that_roots)
{
	size_t len;

	begin(1);
	work(MS);
	begin(2);
	rename_to(1, "renamed");
	work(MS);
	end(2);
	end(1);
	work(MS);
	(void)end_thread();

	cr_expect_eq(labelled[1], 3 * MS);
	cr_expect_str_eq(sp_names_text(last.name_id, &len), "renamed");
}

Test(thread_account, of_the_next_thread_does_not_know_the_last_ones_root)
{
	begin(1);
	end(1);
	next_thread();
	work(MS);
	(void)end_thread();
	cr_expect_eq(labelled[0], MS);

	next_thread();
	begin(1);
	work(MS);
	end(1);
	(void)end_thread();
	cr_expect_eq(labelled[1], MS, "the same root on another thread");
}

Test(thread_account, of_a_child_that_was_forked_in_a_root_is_that_roots)
{
	begin(1);
	end(1);
	begin(2);
	sp_thread_account_start();
	work(MS);
	end(2);
	(void)end_thread();

	cr_expect_eq(labelled[2], MS);
}

Test(thread_account, has_no_label_when_a_sample_met_the_thread_outside_of_its_root)
{
	begin(1);
	work(PERIOD);
	sample();
	end(1);
	work(PERIOD);
	sample();
	work(2 * MS);
	(void)end_thread();

	cr_expect_eq(labelled[0], 2 * MS);
}

/* If no sample could hit the thread outside of the root, its label is unknown. */
Test(thread_account, has_no_label_of_a_thread_that_is_not_sampled)
{
	atomic_store(&thread->unarmed, SP_UNARMED_STACK);
	next_thread();
	begin(1);
	work(MS);
	end(1);
	(void)end_thread();

	cr_expect_eq(labelled[0], MS);
}

Test(thread_account, has_no_label_when_a_sample_was_lost)
{
	begin(1);
	work(MS);
	sp_thread_account_lost(&thread->account);
	end(1);
	(void)end_thread();

	cr_expect_eq(labelled[0], MS);
}

Test(thread_account, has_no_label_when_some_was_told_before)
{
	work(400 * MS);
	sp_thread_account_balance();
	(void)drained();
	begin(1);
	work(MS);
	end(1);
	(void)end_thread();

	cr_expect_eq(labelled[0], MS);
}

/* A server may do such work for the handshake of a connection. */
Test(thread_account, of_what_came_before_the_only_root_has_no_label)
{
	work(4 * MS);
	begin(1);
	work(MS);
	end(1);
	(void)end_thread();
	cr_expect_eq(labelled[0], 4 * MS);
	cr_expect_eq(labelled[1], MS);

	next_thread();
	work(MS);
	begin(2);
	work(7 * MS);
	end(2);
	(void)end_thread();
	cr_expect_eq(records, 1, "a little makes no difference");
	cr_expect_eq(labelled[2], 8 * MS);

	next_thread();
	work(6 * MS);
	begin(3);
	work(5 * MS);
	sample();
	end(3);
	(void)end_thread();
	cr_expect_eq(labelled[0], MS, "less than before, as a sample stands for a whole period");
	cr_expect_eq(labelled[3], 0);
}

/* A label with many tiny threads must not pay for a label whose threads are sampled. */
Test(thread_account, of_a_label_pays_for_that_labels_lead)
{
	uint64_t told[3];

	begin(1);
	rename_to(1, "sampled");
	work(2 * MS);
	sample();
	end(1);
	(void)end_thread();
	for (uint64_t i = 0; i < 3; i++) {
		next_thread();
		begin(2 + i);
		rename_to(2 + i, i == 1 ? "sampled" : "tiny");
		work(9 * MS);
		end(2 + i);
		told[i] = end_thread();
	}
	cr_expect_eq(told[0], 9 * MS);
	cr_expect_eq(told[1], MS, "8 ms of it were told before");
	cr_expect_eq(told[2], 9 * MS);
}

Test(thread_account, of_a_thread_that_was_in_one_label_at_the_start_has_that)
{
	sp_manual_label_enter();
	sp_manual_label_show(2, sp_names_intern("mark", 4));
	sp_thread_account_start();
	work(MS);
	(void)sp_manual_label_exit();
	(void)end_thread();

	cr_expect_eq(labelled[2], MS);
}

/* The child ends the inner root, and works for the outer one. */
Test(thread_account, has_no_label_when_several_roots_were_there_at_a_fork)
{
	begin(1);
	sp_manual_label_enter();
	sp_manual_label_show(2, sp_names_intern("mark", 4));
	sp_thread_account_start();
	(void)sp_manual_label_exit();
	work(MS);
	end(1);
	(void)end_thread();

	cr_expect_eq(labelled[0], MS);
}

Test(thread_account, of_a_thread_with_one_manual_label_has_that)
{
	sp_manual_label_enter();
	sp_manual_label_show(2, sp_names_intern("mark", 4));
	work(MS);
	(void)sp_manual_label_exit();
	(void)end_thread();

	cr_expect_eq(labelled[2], MS);
}

Test(thread_account, of_one_root_has_no_label_where_labels_are_of_spans_below_it)
{
	sp_active_span_label_scopes.id = SP_SCOPE_ALL;
	sp_active_span_label_scopes.name = SP_SCOPE_ALL;
	begin(1);
	begin(2);
	work(MS);
	end(2);
	end(1);
	(void)end_thread();

	cr_expect_eq(labelled[0], MS);
}
