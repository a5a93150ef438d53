/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread blocks: which thread owns a block, when its timer is deleted, and how each race ends. The test thread stands
 * for all threads in turn (kernel_double.h); test/stress/thread_churn.c has real ones.
 */
#include "sampler/thread/thread.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernel_double.h"
#include "sampler/base/counters.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/thread/signals.h"

#define PERIOD_NS (10 * SP_NS_PER_MS)

static void set_up(void)
{
	kernel.on = true;
	kernel.tid = 100;
	sp_process_set();
	cr_assert_eq(sp_thread_init(), 0);
	sp_thread_timer_set(SIGURG, PERIOD_NS, 0x80000001U);
	sp_thread_account_init(false);
}

/* From here on the calling thread plays another thread. */
static void become(uint32_t tid, struct sp_thread *own)
{
	kernel.tid = tid;
	sp_thread_own = own;
	sp_thread_excluded = false;
}

static struct sp_thread *block_of(uint32_t tid)
{
	unsigned have = atomic_load(sp_thread_by_tid(tid));

	return have != 0 ? sp_thread_at(have - 1U) : NULL;
}

static uint32_t unarmed(enum sp_unarmed why)
{
	uint32_t by[SP_UNARMED_N];

	cr_assert(sp_thread_unarmed(by, true));
	return by[why];
}

TestSuite(thread, .init = set_up, .timeout = 20);

TestSuite(thread_before_init, .timeout = 20);

Test(thread_before_init, has_no_block)
{
	cr_assert_null(sp_thread_at(0));
	cr_assert_null(sp_thread_claim());
	cr_assert_null(sp_thread_self());
	cr_assert_not(sp_thread_alternate_begin());
	sp_thread_enrol(100);
	sp_thread_free_ended();
	sp_thread_disarm_all();
	(void)sp_thread_forked();
	sp_thread_ended();
}

Test(thread, its_timer_carries_cookie_and_index)
{
	(void)sp_thread_claim();
	struct sp_thread *t = sp_thread_self();
	const struct kernel_timer *timer = &kernel.timer[0];

	cr_assert_eq(t->index, 1);
	cr_assert_eq((uintptr_t)timer->event.sigev_value.sival_ptr, UINT64_C(0x80000001) << 32 | 1);
	cr_assert_eq(timer->event.sigev_notify, SIGEV_THREAD_ID);
	cr_assert_eq(timer->event.sigev_signo, SIGURG);
}

Test(thread, ids_that_no_thread_has_are_ignored)
{
	sp_thread_enrol(0);
	sp_thread_enrol(SP_TID_MAX);
	sp_thread_enrol(UINT32_MAX);

	cr_assert_eq(sp_thread_armed(), 0);
}

Test(thread, born_owns_the_block_that_was_claimed_for_it)
{
	struct sp_thread *t = sp_thread_claim();

	become(200, NULL);
	sp_thread_born(t);

	cr_assert_eq(sp_thread_own, t);
	cr_assert_eq(sp_thread_self(), t);
	cr_assert_not(sp_thread_excluded);
	cr_assert_eq(kernel_timers_of(200), 1);
}

/* There is no memory for the map. */
Test(thread, born_with_an_id_that_cannot_be_noted_is_counted)
{
	struct sp_thread *t = sp_thread_claim();

	become(SP_TID_MAX, NULL);
	sp_thread_born(t);

	cr_assert_null(sp_thread_own);
	cr_assert_eq(sp_count_read(SP_COUNT_THREADS_NO_BLOCK), 1);
	cr_assert_eq(sp_thread_claim(), t, "the block is free");
}

Test(thread, a_birth_that_failed_gives_its_block_back)
{
	struct sp_thread *t = sp_thread_claim();

	sp_thread_unclaim(t);

	cr_assert_eq(sp_thread_claim(), t);
}

Test(thread, born_after_the_scan_saw_it_has_one_block_and_one_timer)
{
	struct sp_thread *t = sp_thread_claim();

	sp_thread_enrol(200);
	struct sp_thread *scanned = block_of(200);

	become(200, scanned); /* our handler has run */
	sp_thread_born(t);

	cr_assert_eq(sp_thread_own, t);
	cr_assert_eq(block_of(200), t);
	cr_assert_eq(kernel_timers_of(200), 1);
	cr_assert_eq(sp_thread_claim(), scanned, "the other block is free");
}

static void be_born(uint32_t tid)
{
	struct sp_thread *t = sp_thread_claim();

	become(tid, NULL);
	sp_thread_born(t);
}

/* The scan has bound a block and is about to arm it when the thread itself calls a hook. */
Test(thread, born_while_the_scan_arms_it_has_one_timer)
{
	kernel.at_create = be_born;

	sp_thread_enrol(200);

	cr_assert_eq(block_of(200), sp_thread_own);
	cr_assert_eq(kernel_timers_of(200), 1);
	cr_assert_eq(sp_thread_armed(), 1);
	sp_thread_ended();
	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(sp_thread_armed(), 0);
}

static void be_born_and_followed(uint32_t tid)
{
	be_born(tid);
	be_born(300); /* gets the block on which the scan still works */
}

Test(thread, a_late_timer_does_not_replace_that_of_the_blocks_next_owner)
{
	kernel.at_create = be_born_and_followed;

	sp_thread_enrol(200);

	cr_assert_eq(kernel_timers_of(200), 1);
	cr_assert_eq(kernel_timers_of(300), 1);
	sp_thread_disarm_all();
	cr_assert_eq(kernel_timers(), 0);
}

Test(thread, ended_has_neither_block_nor_timer_nor_returns)
{
	struct sp_thread *t = sp_thread_self();

	sp_thread_ended();

	cr_assert_null(sp_thread_own);
	cr_assert(sp_thread_excluded);
	cr_assert_null(sp_thread_self());
	cr_assert_null(block_of(100));
	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(sp_thread_armed(), 0);
	cr_assert_eq(sp_thread_claim(), t, "the block is free");
}

Test(thread, a_block_is_found_once_it_was_handed_out)
{
	struct sp_thread *t = sp_thread_claim();

	cr_assert_not_null(t);
	cr_assert_eq(sp_thread_at(t->index), t);
	cr_assert_null(sp_thread_at(t->index + 1));
	cr_assert_null(sp_thread_at(SP_THREADS_MAX));
	cr_assert_null(sp_thread_at(UINT32_MAX));
}

Test(thread, a_reused_block_is_as_new)
{
	struct sp_thread *t = sp_thread_self();

	sp_span_stack_push(&t->spans, 7, SP_SPAN_STARTED);
	t->bounds = (struct sp_stack_bounds){1, 2};
	t->in_handler = true;
	sp_thread_ended();

	cr_assert_eq(sp_thread_claim(), t);
	cr_assert(sp_span_stack_empty(&t->spans));
	cr_assert_eq(t->bounds.hi, 0);
	cr_assert_not(t->in_handler);
}

#define CROWD 16000U

/*
 * In a server with many workers each of them has ended requests. The free entries that they hoard must not be the
 * whole table.
 */
Test(thread, a_crowd_leaves_places_for_the_spans_of_others)
{
	uint64_t id = 1;

	cr_assert_eq(sp_span_table_init(), 0);
	for (unsigned n = 0; n < CROWD; n++) {
		struct sp_thread *t = sp_thread_claim();
		struct sp_span_record open[SP_SPAN_SPARE_MAX];

		cr_assert_not_null(t);
		sp_span_spare_own = &t->spare;
		for (unsigned i = 0; i < SP_ARRAY_LEN(open); i++, id++) {
			open[i] = (struct sp_span_record){
				.span_id = id, .root_id = id, .handle = SP_SPAN_BY_ID};
			cr_assert_eq(sp_span_table_add(&open[i]), 0, "thread %u", n);
		}
		for (unsigned i = 0; i < SP_ARRAY_LEN(open); i++) {
			cr_assert(sp_span_table_close(&open[i]));
			sp_span_table_release(&open[i]);
		}
	}
	sp_span_spare_own = NULL;
	for (uint64_t to = id + 1024; id < to; id++) {
		struct sp_span_record r = {.span_id = id, .root_id = id, .handle = SP_SPAN_BY_ID};

		cr_assert_eq(sp_span_table_add(&r), 0, "%u places are left",
			     1024 - (unsigned)(to - id));
	}
}

Test(thread, what_a_thread_has_beyond_its_part_is_given_back)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_record open[SP_SPAN_SPARE_MAX + 1];

	cr_assert_eq(sp_span_table_init(), 0);
	for (uint64_t i = 0; i < SP_ARRAY_LEN(open); i++) {
		open[i] = (struct sp_span_record){
			.span_id = i + 1, .root_id = i + 1, .handle = SP_SPAN_BY_ID};
		cr_assert_eq(sp_span_table_add(&open[i]), 0);
	}
	for (unsigned i = 0; i < SP_SPAN_SPARE_MAX; i++) {
		cr_assert(sp_span_table_close(&open[i]));
		sp_span_table_release(&open[i]);
	}
	cr_assert_eq(t->spare.n, SP_SPAN_SPARE_MAX);
	sp_span_table_threads(1024);

	cr_assert(sp_span_table_close(&open[SP_SPAN_SPARE_MAX]));
	sp_span_table_release(&open[SP_SPAN_SPARE_MAX]);

	cr_expect_eq(t->spare.n, 2);
	cr_expect_eq(sp_span_table_count(), 0);
	sp_span_table_threads(10);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(sp_span_table_add(&open[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert(sp_span_table_close(&open[i]));
		sp_span_table_release(&open[i]);
	}
	cr_expect_eq(t->spare.n, 2,
		     "fewer blocks are made later, and as many threads may be there");
}

Test(thread, a_thread_that_is_gone_is_reaped)
{
	sp_thread_enrol(200);
	sp_thread_enrol(201);
	struct sp_thread *gone = block_of(200);

	kernel.dead[0] = 200;
	sp_thread_free_ended();

	cr_assert_null(block_of(200));
	cr_assert_not_null(block_of(201));
	cr_assert_eq(kernel_timers_of(200), 0);
	cr_assert_eq(kernel_timers_of(201), 1);
	cr_assert_eq(sp_thread_claim(), gone);
}

/* Between the scan's question and its answer the thread ends, and a new thread takes its block. */
static void end_and_be_followed(uint32_t tid)
{
	become(tid, block_of(tid));
	sp_thread_ended();
	be_born(300);
}

Test(thread, reaping_takes_no_block_from_its_next_owner)
{
	sp_thread_enrol(200);
	struct sp_thread *t = block_of(200);

	kernel.dead[0] = 200;
	kernel.at_tgkill = end_and_be_followed;
	sp_thread_free_ended();

	cr_assert_eq(sp_thread_own, t);
	cr_assert_eq(block_of(300), t);
	cr_assert_eq(kernel_timers_of(300), 1);
	cr_assert_neq(sp_thread_claim(), t, "the block is in use");
}

Test(thread, disarmed_all_at_once_none_is_armed_again)
{
	(void)sp_thread_self();
	sp_thread_enrol(200);
	sp_thread_disarm_all();
	cr_assert_eq(kernel_timers(), 0);

	sp_thread_enrol(201);
	sp_thread_rearm();
	be_born(202);

	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(sp_thread_armed(), 0);
}

static void disarm_all(uint32_t tid)
{
	(void)tid;
	sp_thread_disarm_all();
}

Test(thread, disarmed_all_while_one_is_being_armed_leaves_none)
{
	kernel.at_create = disarm_all;

	sp_thread_enrol(200);

	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(sp_thread_armed(), 0);
}

/* Another thread has just taken the block and has not written to it. 0 is a timer id of the host. */
Test(thread, disarming_all_leaves_the_hosts_timers)
{
	kernel.timer[0].alive = true;
	atomic_fetch_add(&sp_thread_table.used, 1);

	sp_thread_disarm_all();

	cr_assert(kernel.timer[0].alive);
	cr_assert_eq(sp_thread_armed(), 0);
}

Test(thread, without_a_timer_it_still_has_a_block)
{
	kernel.refuse_create = EAGAIN;

	cr_assert_not_null(sp_thread_self());
	cr_assert_eq(sp_thread_armed(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_UNARMED_REFUSED), 1);
	cr_assert_eq(unarmed(SP_UNARMED_REFUSED), 1);
	cr_expect(sp_thread_self()->account.outside, "what it does now no sample meets");
	sp_thread_enrol(100);
	cr_assert_eq(sp_count_read(SP_COUNT_UNARMED_REFUSED), 1, "tried again, the same thread");

	kernel.refuse_create = 0;
	sp_thread_enrol(100);
	cr_assert_eq(kernel_timers_of(100), 1);
	cr_assert_eq(unarmed(SP_UNARMED_REFUSED), 0);
	sp_thread_ended();
	cr_assert_eq(kernel_timers(), 0);
}

Test(thread, a_timer_that_cannot_be_set_is_deleted)
{
	kernel.refuse_settime = EINVAL;

	cr_assert_not_null(sp_thread_self());
	cr_assert_eq(kernel_timers(), 0);
	cr_assert_eq(sp_thread_armed(), 0);
}

/* The thread has ended since the scan saw it. */
Test(thread, that_is_gone_was_refused_no_timer)
{
	kernel.refuse_create = EINVAL;
	kernel.dead[0] = 200;

	sp_thread_enrol(200);

	cr_expect_eq(sp_count_read(SP_COUNT_UNARMED_REFUSED), 0);
	cr_expect_eq(unarmed(SP_UNARMED_REFUSED), 0);
}

TestSuite(thread_limit, .timeout = 20);

Test(thread_limit, half_of_the_pending_signals_stay_the_hosts)
{
	struct rlimit limit = {0, 0};

	cr_assert_eq(getrlimit(RLIMIT_SIGPENDING, &limit), 0);
	limit.rlim_cur = 8;
	cr_assert_eq(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
	set_up();

	for (uint32_t tid = 200; tid < 206; tid++)
		sp_thread_enrol(tid);

	cr_assert_eq(kernel_timers(), 4);
	cr_assert_eq(sp_thread_armed(), 4);
	cr_assert_eq(sp_count_read(SP_COUNT_UNARMED_LIMIT), 2);
	cr_assert_eq(unarmed(SP_UNARMED_LIMIT), 2);
	for (uint32_t tid = 200; tid < 206; tid++)
		sp_thread_enrol(tid);
	cr_assert_eq(sp_count_read(SP_COUNT_UNARMED_LIMIT), 2, "the same threads");
	kernel.dead[0] = 200;
	sp_thread_free_ended();
	sp_thread_enrol(205);
	cr_assert_eq(kernel_timers_of(205), 1, "a timer that went makes room");
	cr_assert_eq(unarmed(SP_UNARMED_LIMIT), 1);
}

Test(thread_limit, may_change_at_any_time)
{
	set_up();
	sp_thread_limit(2);
	for (uint32_t tid = 200; tid < 205; tid++)
		sp_thread_enrol(tid);
	cr_assert_eq(sp_thread_armed(), 2);

	sp_thread_limit(0);
	sp_thread_enrol(204);
	cr_assert_eq(sp_thread_armed(), 2, "what is there stays, what is not does not come");
	sp_thread_limit(UINT64_MAX);
	for (uint32_t tid = 200; tid < 205; tid++)
		sp_thread_enrol(tid);
	cr_assert_eq(sp_thread_armed(), 5);
	cr_assert_eq(unarmed(SP_UNARMED_LIMIT), 0);
}

/* Checking the limit must not undo sp_thread_disarm_all(), which is final. */
Test(thread_limit, is_not_asked_once_all_were_disarmed)
{
	set_up();
	sp_thread_disarm_all();
	sp_thread_limit(100);
	sp_thread_enrol(200);

	cr_assert_eq(kernel_timers(), 0);
}

Test(thread, past_the_last_block_is_counted)
{
	atomic_store(&sp_thread_table.used, sp_thread_table.limit);

	cr_assert_null(sp_thread_claim());
	cr_assert_eq(sp_count_read(SP_COUNT_THREADS_NO_BLOCK), 1);
}

Test(thread, without_a_period_is_not_armed)
{
	sp_thread_timer_set(SIGURG, 0, 1);

	cr_assert_not_null(sp_thread_self());
	cr_assert_eq(kernel_timers(), 0);
	sp_thread_timer_set(SIGURG, PERIOD_NS, 1);
	sp_thread_rearm();
	cr_assert_eq(kernel_timers_of(100), 1);
	sp_thread_rearm();
	cr_assert_eq(kernel_timers_of(100), 1);
}

#ifndef AT_MINSIGSTKSZ /* before glibc 2.35 */
#define AT_MINSIGSTKSZ 51
#endif

/* The kernel's sigaltstack() takes no smaller one (linux 6.1). glibc's MINSIGSTKSZ may differ. */
#if defined(__aarch64__)
#define KERNEL_MINSIGSTKSZ 5120U
#else
#define KERNEL_MINSIGSTKSZ 2048U
#endif

/* The kernel takes this stack, and our handler does not fit into it. */
static stack_t smallest_stack(void)
{
	static char memory[65536];
	unsigned long least = getauxval(AT_MINSIGSTKSZ);

	if (least < KERNEL_MINSIGSTKSZ)
		least = KERNEL_MINSIGSTKSZ;
	return (stack_t){.ss_sp = memory, .ss_size = least};
}

/* Our handler has not run in the thread, so the thread does not know its block. */
Test(thread, that_only_the_scan_has_found_has_no_timer_on_a_stack_that_is_too_small)
{
	stack_t small = smallest_stack();
	stack_t before;

	sp_alternate_stack_init();
	sp_signals_use_alternate_stack(SIGUSR1);
	sp_thread_enrol(200);
	become(200, NULL);
	cr_assert_eq(kernel_timers_of(200), 1);

	cr_assert(sp_thread_alternate_begin());
	cr_expect_eq(kernel_timers_of(200), 0);
	cr_assert_eq(syscall(SYS_sigaltstack, &small, &before), 0);
	sp_thread_alternate_end();

	cr_expect_eq(kernel_timers_of(200), 0);
	cr_expect_eq(unarmed(SP_UNARMED_STACK), 1);
	cr_assert_eq(syscall(SYS_sigaltstack, &before, NULL), 0);
}

/* The labels in the other thread's block would appear on samples of this thread. */
Test(thread, with_the_id_of_one_that_ended_unseen_has_a_block_of_its_own)
{
	become(200, NULL);
	struct sp_thread *old = sp_thread_self();

	sp_span_stack_push(&old->spans, 7, SP_SPAN_STARTED);
	become(200, NULL);
	struct sp_thread *t = sp_thread_self();

	cr_expect_neq(t, old);
	cr_expect_eq(block_of(200), t);
	cr_expect(sp_span_stack_empty(&t->spans));
	cr_expect_eq(kernel_timers_of(200), 1);
	cr_expect_eq(sp_thread_claim(), old, "the other block is free");
}

/* Only the scan had found the other thread; the kernel deleted that thread's timer when the thread ended. */
Test(thread, with_the_id_of_one_that_ended_unseen_has_a_timer_of_its_own)
{
	sp_thread_enrol(200);
	kernel.timer[0].alive = false;
	become(200, NULL);

	cr_expect_eq(sp_thread_self(), block_of(200));
	cr_expect_eq(kernel_timers_of(200), 1);
	cr_expect_eq(sp_thread_armed(), 1);
}

Test(thread, that_comes_to_its_first_hook_on_a_stack_that_is_too_small_has_no_timer)
{
	stack_t small = smallest_stack();
	stack_t before;

	sp_alternate_stack_init();
	sp_signals_use_alternate_stack(SIGUSR1);
	cr_assert_eq(syscall(SYS_sigaltstack, &small, &before), 0);
	become(200, NULL);

	cr_assert_not_null(sp_thread_self());
	cr_expect_eq(kernel_timers_of(200), 0);
	cr_expect_eq(unarmed(SP_UNARMED_STACK), 1);
	cr_assert_eq(syscall(SYS_sigaltstack, &before, NULL), 0);
}

static char stack_memory[65536];

static void note_stack(struct sp_thread *t, const void *at)
{
	const struct sp_alternate_stack s = {(uintptr_t)at, at != NULL ? sizeof(stack_memory) : 0};

	sp_alternate_stack_store(t, &s);
}

/* Makes a thread with that alternate stack, and with a timer if it may have one. */
static struct sp_thread *with_stack(uint32_t tid, const void *at)
{
	struct sp_thread *t;

	become(tid, NULL);
	t = sp_thread_self();
	cr_assert_not_null(t);
	sp_thread_disarm(t);
	note_stack(t, at);
	sp_thread_rearm();
	return t;
}

static void use_for_any_signal(void)
{
	sp_alternate_stack_init();
	sp_signals_use_alternate_stack(SIGUSR1);
}

Test(thread, that_shares_its_alternate_stack_has_no_timer_and_nor_has_the_other)
{
	use_for_any_signal();
	(void)with_stack(200, stack_memory);
	cr_expect_eq(kernel_timers_of(200), 1);
	(void)with_stack(201, stack_memory + 16);
	cr_expect_eq(kernel_timers_of(201), 1, "another address");
	(void)with_stack(202, stack_memory);

	cr_expect_eq(kernel_timers_of(200), 0);
	cr_expect_eq(kernel_timers_of(201), 1);
	cr_expect_eq(kernel_timers_of(202), 0);
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 2);
	cr_expect_eq(sp_count_read(SP_COUNT_UNARMED_SHARED), 2);
	cr_expect_eq(sp_thread_armed(), 1);
}

Test(thread, that_shared_its_alternate_stack_has_a_timer_once_it_is_alone)
{
	struct sp_thread *t;

	use_for_any_signal();
	(void)with_stack(200, stack_memory);
	t = with_stack(201, stack_memory);
	cr_assert_eq(kernel_timers(), 0);

	note_stack(t, NULL);
	sp_thread_enrol(200);
	sp_thread_enrol(201);
	cr_expect_eq(kernel_timers_of(200), 1);
	cr_expect_eq(kernel_timers_of(201), 1);
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 0);
}

Test(thread, whose_alternate_stack_was_that_of_one_that_is_gone_has_a_timer)
{
	use_for_any_signal();
	(void)with_stack(200, stack_memory);
	kernel.dead[0] = 200;
	(void)with_stack(201, stack_memory);
	cr_expect_eq(kernel_timers_of(201), 1);

	become(201, block_of(201));
	sp_thread_ended();
	kernel.dead[0] = 0;
	kernel.dead[1] = 201;
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 1, "the block of the other is free");
}

/* Such handlers report a fault and end the program: our handler need not run there. */
Test(thread, that_shares_a_stack_for_handlers_of_faults_is_signalled_elsewhere)
{
	sp_alternate_stack_init();
	sp_signals_use_alternate_stack(SIGSEGV);
	(void)with_stack(200, stack_memory);
	cr_assert(sp_signals_on_alternate_stack());
	(void)with_stack(201, stack_memory);

	cr_expect_not(sp_signals_on_alternate_stack());
	cr_expect_eq(kernel_timers_of(200), 1);
	cr_expect_eq(kernel_timers_of(201), 1);
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 0);
}

Test(thread, shares_nothing_where_no_handler_wants_alternate_stacks)
{
	sp_alternate_stack_init();
	(void)with_stack(200, stack_memory);
	(void)with_stack(201, stack_memory);
	cr_expect_eq(kernel_timers(), 2);

	/* The host sets a handler that uses alternate stacks. */
	sp_signals_use_alternate_stack(SIGUSR1);
	cr_expect_eq(kernel_timers(), 0);
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 2);
}

/* More threads share the stack than are compared: a thread without an entry may be one that shares. */
Test(thread, is_one_of_so_many_that_share_a_stack_that_it_counts_as_one)
{
	use_for_any_signal();
	for (uint32_t i = 0; i <= SP_ALTERNATE_WINDOW; i++)
		(void)with_stack(200 + i, stack_memory);

	cr_expect_eq(unarmed(SP_UNARMED_SHARED), SP_ALTERNATE_WINDOW + 1);
	for (uint32_t i = 0; i < SP_ALTERNATE_WINDOW; i++)
		note_stack(block_of(200 + i), NULL);
	sp_thread_enrol(200 + SP_ALTERNATE_WINDOW);
	cr_expect_eq(kernel_timers_of(200 + SP_ALTERNATE_WINDOW), 0);
	note_stack(block_of(200 + SP_ALTERNATE_WINDOW), NULL);
	note_stack(block_of(200 + SP_ALTERNATE_WINDOW), stack_memory);
	sp_thread_enrol(200 + SP_ALTERNATE_WINDOW);
	cr_expect_eq(kernel_timers_of(200 + SP_ALTERNATE_WINDOW), 1);
}

/* Threads come and go, each with a stack of its own, and their entries are reused. */
Test(thread, finds_its_stack_among_those_of_many_that_are_gone)
{
	struct sp_thread *t;

	use_for_any_signal();
	t = with_stack(200, NULL);
	for (uintptr_t i = 1; i < 400000; i++)
		note_stack(t, (void *)(i * 4096));
	sp_thread_rearm();
	cr_expect_not(sp_alternate_stack_shared(t));
	(void)with_stack(201, (void *)(uintptr_t)(399999 * 4096UL));
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 2);
}

Test(thread, looks_at_its_alternate_stack_in_deferred_work)
{
	const stack_t set = {.ss_sp = stack_memory, .ss_size = sizeof(stack_memory)};
	stack_t before;
	struct sp_thread *own = sp_thread_self();

	use_for_any_signal();
	errno = 4711;
	cr_assert_eq(syscall(SYS_sigaltstack, &set, &before), 0);
	sp_thread_alternate_check();
	cr_expect_eq(atomic_load(&own->alternate_at), (uintptr_t)stack_memory);
	cr_expect_eq(atomic_load(&own->alternate_bytes), sizeof(stack_memory));
	cr_expect_eq(kernel_timers_of(100), 1);
	cr_expect_eq(errno, 4711);

	(void)with_stack(200, stack_memory);
	cr_expect_eq(kernel_timers_of(100), 0);
	note_stack(block_of(200), NULL);
	become(100, own);
	sp_thread_alternate_check();
	cr_expect_eq(kernel_timers_of(100), 1, "the other has another one now");

	sp_thread_disarm(own);
	sp_thread_alternate_check();
	cr_expect_eq(kernel_timers_of(100), 0, "nothing is done where nothing has changed");
	become(300, NULL);
	sp_thread_alternate_check();
	cr_expect_null(sp_thread_own);
	cr_assert_eq(syscall(SYS_sigaltstack, &before, NULL), 0);
}

Test(thread, below_a_filter_knows_of_no_alternate_stack)
{
	struct sp_alternate_stack own;

	sp_seccomp_begin();
	errno = 4711;
	own = sp_alternate_stack_own();
	cr_expect_eq(errno, 4711);
	cr_expect_eq(own.at, 0);
	cr_expect_eq(own.bytes, 0);
}

static void ucontext_with(ucontext_t *uc, const void *at, int flags)
{
	memset(uc, 0, sizeof(*uc));
	uc->uc_stack.ss_sp = (void *)(uintptr_t)at;
	uc->uc_stack.ss_size = at != NULL ? sizeof(stack_memory) : 0;
	uc->uc_stack.ss_flags = flags;
}

Test(thread, hears_of_its_alternate_stack_by_its_own_signal)
{
	struct sp_thread *t;
	ucontext_t uc;

	use_for_any_signal();
	(void)with_stack(200, stack_memory);
	t = with_stack(201, NULL);
	ucontext_with(&uc, stack_memory + 4096, 0);
	cr_expect(sp_thread_alternate_seen(t, &uc, &uc));
	cr_expect_eq(atomic_load(&t->alternate_at), (uintptr_t)stack_memory + 4096);
	cr_expect_eq(kernel_timers(), 2);

	ucontext_with(&uc, stack_memory, 0);
	cr_expect_not(sp_thread_alternate_seen(t, &uc, &uc));
	cr_expect_eq(kernel_timers(), 0);
	cr_expect_eq(unarmed(SP_UNARMED_SHARED), 2);

	ucontext_with(&uc, stack_memory, SS_DISABLE);
	cr_expect(sp_thread_alternate_seen(t, &uc, &uc));
	cr_expect_eq(atomic_load(&t->alternate_at), 0);
	cr_expect_eq(atomic_load(&t->alternate_bytes), 0);
}

/* SS_AUTODISARM: while a handler runs on the stack, the kernel says that there is none. */
Test(thread, knows_that_it_is_on_its_alternate_stack_while_that_is_disarmed)
{
	struct sp_thread *t;
	ucontext_t uc;

	use_for_any_signal();
	t = with_stack(200, stack_memory);
	ucontext_with(&uc, NULL, SS_DISABLE);
	cr_expect(sp_thread_alternate_seen(t, &uc, stack_memory + 100));
	cr_expect_eq(atomic_load(&t->alternate_at), (uintptr_t)stack_memory);
	cr_expect_eq(sp_thread_alternate_room(t, stack_memory + 100), 100);
	cr_expect_eq(sp_thread_alternate_room(t, stack_memory), 0);
	cr_expect_eq(sp_thread_alternate_room(t, stack_memory + sizeof(stack_memory)), SIZE_MAX);
	cr_expect_eq(sp_thread_alternate_room(t, stack_memory - 1), SIZE_MAX);

	cr_expect(sp_thread_alternate_seen(t, &uc, &uc), "elsewhere");
	cr_expect_eq(atomic_load(&t->alternate_at), 0);
}

/* A raw clone() has made the thread: it runs on the thread-local storage of its maker. */
Test(thread, without_storage_of_its_own_has_no_block)
{
	kernel.raw[0] = 200;
	become(200, NULL);

	cr_expect_null(sp_thread_self());
	cr_expect_null(block_of(200));
	cr_expect_eq(kernel_timers(), 0);
}

Test(thread, counts_as_one_with_its_own_storage_where_nobody_has_a_list)
{
	kernel.raw[0] = 200;
	kernel.raw[1] = (uint32_t)getpid();
	become(200, NULL);
	cr_expect_not_null(sp_thread_self());
}

Test(thread, counts_as_one_with_its_own_storage_where_the_kernel_tells_nothing)
{
	static const int refusals[] = {ENOSYS, EPERM};

	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		kernel.raw[0] = 200 + i;
		kernel.refuse_list = refusals[i];
		become(200 + i, NULL);
		errno = 4711;
		cr_expect_not_null(sp_thread_self());
		cr_expect_eq(errno, 4711);
	}
}

/* The C library registers the list of robust mutexes when the thread begins: a scan may come before that. */
Test(thread, that_has_not_begun_has_a_block)
{
	kernel.raw[0] = 200;
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 1);
}

Test(thread, on_the_storage_of_another_leaves_that_ones_timer_alone)
{
	struct sp_thread *maker = sp_thread_self();

	sp_alternate_stack_init();
	sp_signals_use_alternate_stack(SIGUSR1);
	cr_assert_eq(kernel_timers_of(100), 1);
	become(200, maker);

	cr_expect_not(sp_thread_alternate_begin());
	cr_expect_eq(kernel_timers_of(100), 1);
}

/* The thread was made before sampling began, with a stack that is too small for a signal. It begins as thread tid. */
static struct sp_small_thread *begin_small(uint32_t tid)
{
	struct sp_small_thread *s = sp_small_thread_make(SP_THREAD_STACK_LEAST - 1);

	if (s == NULL)
		return NULL;
	become(tid, NULL);
	sp_small_thread_born(s);
	return s;
}

Test(thread, with_a_small_stack_from_before_has_no_timer)
{
	cr_assert_not_null(begin_small(200));
	sp_thread_enrol(200);
	sp_thread_enrol(201);
	cr_expect_eq(kernel_timers_of(200), 0);
	cr_expect_eq(kernel_timers_of(201), 1);
	cr_expect_eq(unarmed(SP_UNARMED_STACK), 1);

	/* It calls a hook, or goes on in a forked child, where its id differs. */
	cr_expect_not_null(sp_thread_self());
	cr_expect_eq(kernel_timers_of(200), 0);
	become(300, NULL);
	cr_expect_not_null(sp_thread_self());
	cr_expect_eq(kernel_timers_of(300), 0);
}

Test(thread, with_a_small_stack_loses_the_timer_that_it_got_before_it_began)
{
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 1);
	(void)begin_small(200);
	cr_expect_eq(kernel_timers_of(200), 0);
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 0);
	cr_expect_eq(unarmed(SP_UNARMED_STACK), 1);
}

static void begin_small_meanwhile(uint32_t tid)
{
	(void)begin_small(tid);
}

/* The thread begins before, or after, the scan has stored a block for its id. */
Test(thread, with_a_small_stack_that_begins_while_the_scan_arms_it_has_no_timer)
{
	kernel.at_clock = begin_small_meanwhile;
	sp_thread_enrol(200);
	kernel.at_create = begin_small_meanwhile;
	sp_thread_enrol(201);
	cr_expect_eq(kernel_timers(), 0);
	cr_expect_eq(sp_thread_armed(), 0);
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers(), 0);
}

Test(thread, with_a_small_stack_and_an_id_that_cannot_be_noted_has_no_timer)
{
	(void)begin_small(SP_TID_MAX);
	sp_thread_enrol(SP_TID_MAX);
	cr_expect_eq(kernel_timers(), 0);
}

Test(thread, with_the_id_of_a_small_one_that_has_ended_has_a_timer)
{
	sp_small_thread_ended(begin_small(200));
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 1);
}

Test(thread, with_a_larger_stack_is_no_small_one)
{
	struct sp_small_thread *s;

	cr_expect_null(sp_small_thread_make(0));
	cr_expect_null(sp_small_thread_make(SP_THREAD_STACK_LEAST));
	s = sp_small_thread_make(SP_THREAD_STACK_LEAST - 1);
	cr_assert_not_null(s);
	sp_seccomp_begin();
	become(200, NULL);
	sp_small_thread_born(s);
	cr_expect_neq(atomic_load(&s->tid), 200, "below a filter no call is made");
	cr_expect_null(begin_small(200), "below a filter nothing is sampled");
}

Test(thread, that_the_scan_finds_has_no_timer_once_too_many_small_ones_were_made)
{
	struct sp_small_thread *first = begin_small(1000);
	unsigned n = 1;

	kernel.dead[0] = 1000;
	while (begin_small(1000 + n) != first)
		cr_assert_lt(++n, 1000, "the place of one that has ended is free");
	kernel.dead[0] = 0;
	sp_thread_enrol(1000 + n);
	cr_expect_eq(kernel_timers_of(1000 + n), 0);
	sp_thread_enrol(200);
	cr_expect_eq(kernel_timers_of(200), 1);

	cr_assert_null(sp_small_thread_make(16384));
	sp_thread_enrol(201);
	sp_thread_enrol(201);
	cr_expect_eq(kernel_timers_of(201), 0);
	sp_small_thread_ended(first);
	cr_expect_null(sp_small_thread_make(16384), "they cannot all be told from others any more");
}

Test(thread, that_has_ended_says_nothing_of_alternate_stacks)
{
	struct sp_thread *t = sp_thread_self();

	cr_assert_not_null(t);
	sp_alternate_stack_init();
	sp_thread_ended();
	atomic_store(&t->alternate_bytes, SP_HANDLER_ROOM_LEAST);
	sp_signals_use_alternate_stack(SIGSEGV);

	cr_expect(sp_signals_on_alternate_stack());
	cr_expect_eq(sp_count_read(SP_COUNT_UNARMED_STACK), 0);
}

/* In the child, the thread's block must be the first one. */
static bool child_is_right(void)
{
	struct sp_thread *own;

	kernel.tid = 500;
	for (int i = 0; i < KERNEL_TIMERS; i++)
		kernel.timer[i].alive = false; /* timers are not inherited */
	sp_process_set();
	(void)sp_thread_forked();
	own = sp_thread_own;
	if (own != sp_thread_at(0) || sp_span_spare_own != &own->spare || own->index != 0 ||
	    block_of(500) != own || block_of(100) != NULL || block_of(200) != NULL ||
	    sp_thread_armed() != 0 || atomic_load(&sp_thread_table.used) != 1)
		return false;
	if (atomic_load(&own->spans.depth) != 1 || atomic_load(&own->spans.frame[0].span_id) != 7)
		return false;
	sp_thread_rearm();
	if (kernel_timers_of(500) != 1 || kernel_timers() != 1)
		return false;
	/* every other block is free, and listed once */
	for (uint32_t n = 0; n < 3; n++) {
		struct sp_thread *t = sp_thread_claim();

		if (t == NULL || t == own || t->index == own->index)
			return false;
	}
	return atomic_load(&sp_thread_table.used) == 4;
}

/* Forks with a block behind that many others. */
static void fork_with_a_block(unsigned before)
{
	struct sp_thread *own;
	int status;

	for (unsigned i = 0; i < before; i++)
		cr_assert_not_null(sp_thread_claim());
	own = sp_thread_self();
	sp_span_stack_push(&own->spans, 7, SP_SPAN_STARTED);
	sp_thread_enrol(200);
	(void)sp_thread_claim();
	/* and a block that another thread has taken and not yet written to */
	atomic_fetch_add(&sp_thread_table.used, 1);
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0)
		_exit(child_is_right() ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(thread, a_forked_child_keeps_the_callers_block_alone)
{
	fork_with_a_block(0);
}

Test(thread, a_forked_child_of_a_late_thread_has_the_first_block)
{
	fork_with_a_block(1);
}

Test(thread, a_forked_child_of_a_thread_behind_many_has_the_first_block)
{
	fork_with_a_block(2 * SP_THREAD_SLAB + 5);
}

Test(thread, without_a_timer_are_counted_in_parts_or_at_once)
{
	const uint32_t many = SP_THREAD_LOOK_MAX + 10;
	uint32_t by[SP_UNARMED_N];

	sp_thread_disarm_all();
	for (uint32_t i = 0; i < many; i++)
		cr_assert(sp_thread_enrol(1000 + i));
	cr_assert_eq(sp_thread_known(), many);
	cr_assert(sp_thread_unarmed(by, false));
	cr_assert_eq(by[SP_UNARMED_NOT], 0, "as of before");
	cr_assert(sp_thread_unarmed(by, false));
	cr_assert_eq(by[SP_UNARMED_NOT], many);
	kernel.tid = 1000;
	sp_thread_born(sp_thread_claim());
	sp_thread_ended();
	cr_assert_eq(sp_thread_known(), many - 1);
	cr_assert(sp_thread_unarmed(by, true));
	cr_assert_eq(by[SP_UNARMED_NOT], many - 1);
	cr_assert(sp_thread_unarmed(by, false));
	cr_assert(sp_thread_unarmed(by, false));
	cr_assert_eq(by[SP_UNARMED_NOT], many - 1);
}

Test(thread, arming_leaves_errno_alone)
{
	kernel.refuse_create = EAGAIN;
	errno = 4711;

	(void)sp_thread_self();
	sp_thread_ended();

	cr_assert_eq(errno, 4711);
}
