/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans whose stack or table is full, threads without a block, and messages. test_span_model.c is about the rules of
 * spans.
 */
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "test/unit/core/span_host.h"
#include "test/unit/sampler/stderr_pipe.h"

TestSuite(span, .init = set_up, .timeout = 20);

/* The root that a sample would have now; 0 for none. */
static uint64_t active_root(void)
{
	struct sp_span_record r = {0};

	(void)sp_span_stack_peek(&sp_thread_own->spans, &r);
	return active() != 0 ? r.root_id : 0;
}

/* With this many nested spans, the oldest frames are forgotten once. */
#define DEEP (SP_SPAN_DEPTH_MAX + 10U)

static void begin_deep(void)
{
	for (uint64_t id = 1; id <= DEEP; id++) {
		cr_assert(begin(id));
		cr_assert_eq(active(), id);
		cr_assert_eq(root_of(id), 1);
	}
}

static bool forgot(void)
{
	return sp_span_stack_forgot(&sp_thread_own->spans);
}

Test(span, deeper_than_the_stack_is_active_and_the_oldest_ones_are_their_roots)
{
	begin_deep();
	for (uint64_t id = DEEP; id > SP_SPAN_FORGET; id--) {
		cr_assert_eq(active(), id);
		cr_assert(end(id));
	}
	for (uint64_t id = SP_SPAN_FORGET; id > 1; id--) {
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert_eq(active_root(), 1);
		cr_assert(end(id));
	}
	cr_assert_eq(active_root(), 1, "which is itself");
	cr_assert(begin(300));
	cr_assert_eq(root_of(300), 1);
	cr_assert_eq(active(), 300);
	cr_assert(end(300));
	cr_assert(end(1));
	cr_assert_eq(active(), 0);
	cr_assert_not(forgot());
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), 0, "nothing is lost");
}

Test(span, of_a_peak_leaves_nothing_behind)
{
	for (unsigned peak = 130; peak <= 4000; peak *= 5) {
		cr_assert(begin_under(1, 0));
		for (uint64_t id = 2; id <= peak; id++)
			cr_assert(begin_under(id, 0));
		cr_assert_eq(active(), peak);
		for (uint64_t id = 2; id <= peak; id++)
			cr_assert(end(id));
		cr_assert_eq(active_root(), 0,
			     "the first one, or none: several had a root of their own");
		cr_assert(begin_under(peak + 1, 0));
		cr_assert_eq(active(), peak + 1);
		cr_assert(end(peak + 1));
		cr_assert(forgot());
		cr_assert(end(1));
		cr_assert_not(forgot());
	}
}

/* The loop starts each span, and a worker ends it. */
static void *end_the_oldest(void *arg)
{
	for (uint64_t id = 1; id <= SP_SPAN_FORGET; id++)
		cr_assert(end(id));
	return arg;
}

Test(span, whose_frame_was_forgotten_ends_elsewhere_as_well)
{
	begin_deep();
	run(end_the_oldest);
	cr_assert_not(forgot());
	for (uint64_t id = DEEP; id > SP_SPAN_FORGET; id--)
		cr_assert(end(id));
	cr_assert_eq(active(), 0);
	begin_deep();
	cr_assert(forgot(), "counted anew");
	run(end_the_oldest);
	cr_assert_not(forgot());
}

static void *begin_deep_and_end(void *arg)
{
	begin_deep();
	sp_thread_ended();
	return arg;
}

/* The block belongs to another thread then, which has forgotten the same number of spans. */
Test(span, of_a_thread_that_has_ended_is_not_counted_off_from_the_next_one)
{
	uint32_t block;

	run(begin_deep_and_end);
	block = sp_thread_self()->index;
	for (uint64_t id = 1; id <= DEEP; id++)
		cr_assert(begin(1000 + id));
	cr_assert_eq(sp_thread_at(block), sp_thread_own);
	run(end_the_oldest);
	for (uint64_t id = SP_SPAN_FORGET + 1; id <= DEEP; id++)
		cr_assert(end(id), "by whoever has its block");
	cr_assert(forgot());
	cr_assert_eq(active(), 1000 + DEEP);
	for (uint64_t id = DEEP; id >= 1; id--)
		cr_assert(end(1000 + id));
	cr_assert_not(forgot());
}

Test(span, whose_frame_was_forgotten_shows_nothing_where_roots_differ)
{
	begin_deep();
	cr_assert(begin_under(500, 0));
	for (uint64_t id = 501; id <= 500 + SP_SPAN_DEPTH_MAX; id++)
		cr_assert(begin_under(id, 500));
	for (uint64_t id = 500 + SP_SPAN_DEPTH_MAX; id >= 500; id--)
		cr_assert(end(id));
	for (uint64_t id = DEEP; id > 1; id--) {
		cr_assert_eq(active(), 0);
		cr_assert(end(id));
	}
	cr_assert(begin(300));
	cr_assert_eq(root_of(300), 300, "nobody knows");
	cr_assert(end(300));
	cr_assert(end(1));
	begin_deep();
	for (uint64_t id = DEEP; id > 1; id--)
		cr_assert(end(id));
	cr_assert_eq(active_root(), 1, "again");
}

Test(span, that_stands_in_interleaves_with_those_that_were_forgotten)
{
	struct sp_span_start s;

	begin_root(1);
	for (uint64_t id = 2; id <= DEEP; id++) {
		s = start_of(id);
		s.how = SP_ACTIVATION_NONE;
		cr_assert(sp_span_started(&s));
	}
	for (uint64_t id = DEEP; id > SP_SPAN_FORGET; id--)
		cr_assert(end(id));
	begin_root(900);
	cr_assert_eq(active(), 0);
	cr_assert_eq(active_root(), 0);
	s = start_of(901);
	s.how = SP_ACTIVATION_NONE;
	s.has_parent = true;
	s.linked_root = sp_active_span_linked_root(1);
	cr_assert(sp_span_started(&s));
	cr_assert_eq(active(), 0, "with 900");
	cr_assert(end(900));
	cr_assert_eq(active(), 901, "it links to the one that was forgotten");
	cr_assert(end(901));
	for (uint64_t id = SP_SPAN_FORGET; id >= 1; id--)
		cr_assert(end(id));
	begin_root(902);
	cr_assert_eq(active(), 902);
}

/* Once a thread has attached a scope, forgotten spans that yield to scopes count as nothing. */
Test(span, that_yields_and_was_forgotten_is_nothing_once_there_are_scopes)
{
	for (uint64_t id = 1; id <= DEEP; id++)
		cr_assert(begin_scoped(id));
	for (uint64_t id = DEEP; id > SP_SPAN_FORGET; id--)
		cr_assert(end(id));
	cr_assert_eq(active(), ROOT_ALONE);
	cr_assert(sp_active_span_attached(32, NULL));
	sp_active_span_detached(32, false);
	cr_assert_eq(active(), 0);
	begin_root(900);
	cr_assert_eq(active(), 900, "nothing to interleave with");
}

static uint32_t scopes_forgotten(void)
{
	return atomic_load(&sp_thread_own->spans.scopes);
}

static void attach_deep(const uint8_t *id)
{
	for (uint64_t token = 1; token <= DEEP; token++)
		cr_assert(sp_active_span_attached(token * 32, id));
	cr_assert_eq(scopes_forgotten(), SP_SPAN_FORGET);
}

Test(span, of_scopes_that_were_forgotten_each_detach_is_known)
{
	const uint8_t id[8] = {1};

	cr_assert(begin_scoped(1));
	attach_deep(id);
	for (uint64_t token = DEEP; token >= 1; token--) {
		cr_assert_eq(active(), token <= SP_SPAN_FORGET ? ROOT_ALONE : 1);
		sp_active_span_detached(token * 32, token % 2 == 0);
	}
	cr_assert_not(forgot());
	cr_assert_eq(active(), 0);
}

Test(span, of_scopes_that_were_forgotten_any_one_may_be_detached_first)
{
	const uint8_t id[8] = {1};

	cr_assert(begin_scoped(1));
	attach_deep(id);
	sp_active_span_detached(3 * 32, false);
	cr_assert_eq(scopes_forgotten(), SP_SPAN_FORGET - 1);
	cr_assert_eq(active(), 1, "frames stay");
	sp_active_span_detached(3 * 32, false);
	cr_assert_eq(scopes_forgotten(), SP_SPAN_FORGET - 1, "once");
	/* through all later scopes */
	sp_active_span_detached(2 * 32, true);
	cr_assert_eq(scopes_forgotten(), 1);
	cr_assert_eq(active(), ROOT_ALONE);
	sp_active_span_detached(1 * 32, true);
	cr_assert_not(forgot());
	cr_assert_eq(active(), 0);
}

Test(span, that_went_with_a_scope_that_was_forgotten_is_not_its_root_any_more)
{
	const uint8_t id[8] = {1};

	cr_assert(begin(1));
	cr_assert(sp_active_span_attached(32, id));
	for (uint64_t n = 2; n <= DEEP; n++)
		cr_assert(begin(n));
	sp_active_span_detached(32, true);
	cr_assert_eq(active(), 0, "1, and nobody knows that");
	cr_assert(forgot());
	for (uint64_t n = DEEP; n >= 1; n--)
		cr_assert(end(n));
	cr_assert_not(forgot());
}

Test(span, of_scopes_that_were_forgotten_those_never_attached_take_nothing_away)
{
	attach_deep(NULL);
	sp_active_span_detached(902 * 32, true);
	cr_assert_eq(scopes_forgotten(), SP_SPAN_FORGET);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), DEEP - SP_SPAN_FORGET);
}

/* A scope without a span has no root, and neither has a label. */
Test(span, that_was_forgotten_beside_a_label_or_a_blank_scope_is_not_known)
{
	cr_assert(begin(1));
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(1, 1), 0, "the id of a span, as chance will have it");
	for (uint64_t id = 2; id <= DEEP; id++)
		cr_assert(begin(id));
	for (uint64_t id = DEEP; id > 1; id--)
		cr_assert(end(id));
	cr_assert_eq(active(), 0);
	cr_assert(sp_manual_label_exit());
	cr_assert_eq(scopes_forgotten(), 0);
	cr_assert(end(1));
	cr_assert_not(forgot());
}

Test(span, of_more_scopes_than_are_known_by_their_tokens_shows_nothing)
{
	const uint8_t id[8] = {1};
	const uint64_t most = SP_SPAN_DEPTH_MAX + SP_SPAN_FORGOTTEN_SCOPES + 1;

	cr_assert(begin_scoped(1));
	for (uint64_t token = 1; token <= most; token++) {
		cr_assert(sp_active_span_attached(token * 32, id));
		cr_assert_eq(active(), 1);
	}
	cr_assert_eq(scopes_forgotten(), SP_SPAN_FORGOTTEN_SCOPES / 2 + SP_SPAN_FORGET);
	for (uint64_t token = most; token >= 1; token--) {
		sp_active_span_detached(token * 32, true);
		if (scopes_forgotten() != 0 && atomic_load(&sp_thread_own->spans.depth) == 0)
			cr_assert_eq(active(), 0);
	}
	cr_assert_not(forgot());
}

/* Scopes with forgotten tokens do not count as piled up once the other scopes are detached. */
Test(span, of_more_scopes_than_are_known_that_come_back_each_time_are_believed)
{
	const uint64_t most = SP_SPAN_DEPTH_MAX + SP_SPAN_FORGOTTEN_SCOPES + 100;

	for (unsigned turn = 0; turn < 20; turn++) {
		for (uint64_t token = 1; token <= most; token++)
			cr_assert(sp_active_span_attached(token * 32, NULL), "turn %u", turn);
		for (uint64_t token = most; token >= 1; token--)
			sp_active_span_detached(token * 32, true);
		cr_assert_not(forgot());
	}
}

/* The owner thread need not check its active span again. */
Test(span, that_went_with_a_scope_below_ends_elsewhere_unseen)
{
	struct sp_span_stack *s;
	struct sp_span_record r;

	cr_assert(sp_active_span_attached(32, NULL));
	cr_assert(begin(1));
	cr_assert(begin(2));
	s = &sp_thread_own->spans;
	cr_assert(sp_span_of(handle_of(2), &r));
	cr_assert(sp_span_table_close(&r));
	cr_assert(sp_span_stack_ended_elsewhere(s, &r));
	cr_assert_eq(atomic_load(&s->struck), 1);
	sp_active_span_detached(32, true);
	cr_assert(sp_span_of(handle_of(1), &r));
	cr_assert(sp_span_table_close(&r));
	cr_assert_not(sp_span_stack_ended_elsewhere(s, &r));
	cr_assert_eq(atomic_load(&s->struck), 1);
}

static bool agrees(uint32_t storage, uint64_t says)
{
	return sp_active_span_agrees(storage, says);
}

Test(span, of_a_storage_whose_scopes_may_have_been_forgotten_agrees_with_all)
{
	const uint8_t id[8] = {1};

	cr_assert(begin_scoped(1));
	cr_assert(sp_active_span_attached(sp_span_token_of(3, 1), id));
	cr_assert_not(agrees(3, 0));
	for (uint64_t key = 1; key <= SP_SPAN_DEPTH_MAX; key++)
		cr_assert(sp_active_span_attached(sp_span_token_of(4, key), id));
	cr_assert(agrees(3, 0));
	cr_assert_not(agrees(4, 0), "its frames are there");
	cr_assert(sp_active_span_shows_parent(NULL));
	sp_active_span_detached(sp_span_token_of(4, SP_SPAN_FORGET), true);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 0);
	cr_assert_not(sp_active_span_shows_parent(NULL), "the last one is not known");
	cr_assert(sp_active_span_wants_links(0));
}

Test(span, that_the_table_cannot_hold_labels_nothing)
{
	for (uint64_t i = 0; i < SP_SPANS_MAX; i++) {
		struct sp_span_record r = {
			.span_id = 1000 + i, .handle = 1 + i, .start_ns = UINT64_MAX / 2};

		cr_assert_eq(sp_span_table_add(&r), 0);
	}

	cr_assert_not(begin(1));
	cr_assert_eq(active(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_TABLE_FULL), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0, "it will never be ended");
}

static void *after_the_end(void *arg)
{
	(void)arg;
	sp_thread_ended();
	cr_assert(begin(1), "a destructor of thread-local data may start spans");
	cr_assert_eq(active(), 0);
	cr_assert(end(1));
	return NULL;
}

Test(span, in_a_thread_that_has_ended_for_us_is_tracked_without_a_label)
{
	run(after_the_end);

	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_NO_THREAD), 1);
}

static void *some_spans(void *arg)
{
	for (uint64_t id = 1; id <= 40; id++)
		cr_assert(begin_under(id, 0));
	for (uint64_t id = 1; id <= 40; id++)
		cr_assert(end(id));
	sp_thread_ended();
	return arg;
}

Test(span, a_thread_that_ends_leaves_all_places_to_others)
{
	uint64_t id;

	run(some_spans);

	for (id = 1; id <= SP_SPANS_MAX; id++) {
		struct sp_span_record r = {.span_id = id, .root_id = id, .handle = id * 64};

		if (sp_span_table_add(&r) != 0)
			break;
	}
	cr_assert_eq(id, SP_SPANS_MAX + 1U);
}

static void *begin_of_two_sdks(void *arg)
{
	struct sp_span_start s = start_of(0x5d10 + (uintptr_t)arg);

	s.sdk = 2;
	cr_expect(sp_span_started(&s));
	s = start_of(0x5d20 + (uintptr_t)arg);
	s.sdk = 3;
	cr_expect(sp_span_started(&s));
	return NULL;
}

/* The last thread has no block in which it could count. */
static void *begin_without_a_block(void *arg)
{
	sp_thread_ended();
	return begin_of_two_sdks(arg);
}

Test(span, counts_the_spans_of_each_sdk)
{
	pthread_t thread;
	uint64_t all = sp_count_read(SP_COUNT_SPANS_STARTED);

	(void)begin_of_two_sdks((void *)1);
	cr_assert_eq(pthread_create(&thread, NULL, begin_of_two_sdks, (void *)2), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(pthread_create(&thread, NULL, begin_without_a_block, (void *)3), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_eq(sp_count_spans_of(2), 3);
	cr_expect_eq(sp_count_spans_of(3), 3);
	cr_expect_eq(sp_count_spans_of(1), 0);
	cr_expect_eq(sp_count_spans_of(SP_COUNTED_SDKS), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), all + 6);
	sp_counters_reset();
	cr_expect_eq(sp_count_spans_of(2), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0);
}

Test(span, that_others_have_ended_leaves_an_empty_stack_at_the_next_start)
{
	begin_deep();
	for (uint64_t id = 1; id <= DEEP; id++)
		end_elsewhere(id);

	cr_assert_not(forgot());
	cr_assert(begin(300));
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 1);
}

/* As in an event loop: each span ends after the next one has started, and the first one stays open. */
static void begin_before_the_last_ends(enum sp_activation how)
{
	cr_assert(begin(1));
	for (uint64_t id = 2; id <= 3 * SP_SPAN_DEPTH_MAX; id++) {
		struct sp_span_start s = start_of(id);

		s.how = how;
		cr_assert(sp_span_started(&s));
		if (id > 2)
			cr_assert(end(id - 1));
		cr_assert_eq(active(), id);
		cr_assert_eq(root_of(id), 1);
	}
	cr_assert_not(forgot());
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), 0);
	cr_assert(end(3 * SP_SPAN_DEPTH_MAX));
	cr_assert_eq(active(), 1);
}

Test(span, that_ended_below_an_open_one_takes_no_room)
{
	begin_before_the_last_ends(SP_ACTIVATION_START);
}

Test(span, that_stood_in_and_ended_below_an_open_one_takes_no_room)
{
	begin_before_the_last_ends(SP_ACTIVATION_NONE);
}

Test(span, of_scopes_those_that_were_detached_below_another_take_no_room)
{
	const uint8_t id[8] = {1};

	cr_assert(begin_scoped(1));
	for (uint64_t token = 32; token <= 32 * 3 * SP_SPAN_DEPTH_MAX; token += 32) {
		cr_assert(sp_active_span_attached(token, id));
		sp_active_span_detached(token - 32, false);
		cr_assert_eq(active(), 1);
	}
	cr_assert_not(forgot());
	sp_active_span_detached(32 * 3 * SP_SPAN_DEPTH_MAX, false);
	cr_assert_eq(active(), 0);
}

/*
 * The frame of a scope hides all frames below it, whether its span has ended or not, and wherever the frame was
 * moved.
 */
Test(span, that_makes_room_below_an_open_one_keeps_scopes_and_labels)
{
	const uint8_t id[8] = {2};

	cr_assert(begin(1));
	cr_assert(begin(2));
	cr_assert(sp_active_span_attached(32, id));
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(5000, 1), 0);
	cr_assert(begin(3));
	cr_assert(end(2));
	for (uint64_t n = 4; n <= 3 * SP_SPAN_DEPTH_MAX; n++) {
		cr_assert(begin(n));
		cr_assert(end(n - 1));
		cr_assert_eq(active(), n);
	}
	cr_assert(end(3 * SP_SPAN_DEPTH_MAX));
	cr_assert_eq(active(), 5000);
	cr_assert(sp_manual_label_exit());
	cr_assert_eq(active(), 0);
	sp_active_span_detached(32, false);
	cr_assert_eq(active(), 1);
}

Test(span, of_a_thread_where_starts_interleave_are_told_once)
{
	stderr_begin();
	begin_root(1);
	cr_assert_eq(active(), 1);
	cr_assert_eq(stderr_end(), 0);

	stderr_begin();
	begin_root(2);
	cr_assert_eq(active(), 0);
	cr_assert(end(2));
	begin_root(3);
	cr_assert_eq(stderr_end(), 1, "once is enough");
	cr_assert(stderr_has("SPANPROF_ACTIVE_SPAN"));
}

static void begin_linked(uint64_t id, uint64_t linked)
{
	struct sp_span_start s = start_of(id);

	s.how = SP_ACTIVATION_NONE;
	s.has_parent = true;
	s.linked_root = sp_active_span_linked_root(linked);
	cr_assert(sp_span_started(&s));
}

static void *links_to_another_thread(void *arg)
{
	(void)arg;
	begin_root(20);
	begin_linked(21, 10);
	cr_assert_eq(active(), 0);
	return NULL;
}

/* MySQL links statements to their session like this: roots without a parent, on the thread of the session's root. */
Test(span, of_a_root_that_links_to_the_open_one_is_active)
{
	stderr_begin();
	begin_root(10);
	begin_linked(11, 10);
	cr_assert_eq(active(), 11);
	cr_assert(begin_under(12, 11));
	cr_assert_eq(active(), 12);
	end(12);
	end(11);
	cr_assert_eq(active(), 10);
	begin_linked(13, 10);
	cr_assert_eq(active(), 13);
	cr_assert_eq(stderr_end(), 0);
}

static void begin_below(uint64_t id, uint64_t parent)
{
	struct sp_span_start s = start_of(id);

	s.how = SP_ACTIVATION_NONE;
	s.has_parent = true;
	memcpy(s.parent_id, &parent, sizeof(parent));
	cr_assert(sp_span_started(&s));
}

/* A span below such a root has no link, and one root may link to the next. */
Test(span, below_a_root_that_links_is_active)
{
	begin_root(10);
	begin_below(11, 10);
	begin_linked(20, 11);
	begin_below(21, 20);
	cr_assert_eq(active(), 21);
	begin_below(22, 21);
	cr_assert_eq(active(), 22);
	begin_linked(30, 21);
	cr_assert_eq(active(), 30);
	begin_below(31, 30);
	cr_assert_eq(active(), 31);
	/* continues the second root while the third is open */
	begin_below(23, 20);
	cr_assert_eq(active(), 0);
	end(23);
	cr_assert_eq(active(), 31);
	/* the linked root has ended */
	end(30);
	cr_assert_eq(active(), 0);
	end(31);
	cr_assert_eq(active(), 22);
	end(20);
	cr_assert_eq(active(), 0);
	end(22);
	end(21);
	cr_assert_eq(active(), 11);
}

/* If the parent is in another process, or has ended, the span is no child, and its links count. */
Test(span, links_matter_where_the_parent_is_not_open)
{
	cr_assert_not(sp_active_span_wants_links(0), "there is no span");
	begin_root(10);
	cr_expect(sp_active_span_wants_links(0));
	cr_expect(sp_active_span_wants_links(99));
	cr_expect_not(sp_active_span_wants_links(10));
	end(10);
	cr_expect_not(sp_active_span_wants_links(0));
	cr_expect_not(sp_active_span_wants_links(10));
}

/*
 * Two linked roots at once interleave, and so does a root with a link to another span, or with a link across threads.
 */
Test(span, of_linked_roots_that_interleave_are_not_guessed)
{
	begin_root(10);
	begin_linked(11, 10);
	begin_linked(12, 10);
	cr_assert_eq(active(), 0);
	end(12);
	cr_assert_eq(active(), 11);
	begin_linked(13, 99);
	cr_assert_eq(active(), 0);
	end(13);
	begin_root(14);
	cr_assert_eq(active(), 0);
	end(14);
	end(11);
	run(links_to_another_thread);
}

/* Scopes beyond the stack are no reason to stop believing in scopes while scopes below are detached. */
Test(span, of_scopes_that_come_back_from_the_depth_are_believed)
{
	for (unsigned turn = 0; turn < 40; turn++) {
		for (uint64_t token = 1; token <= 200; token++)
			cr_assert(sp_active_span_attached(token, NULL), "turn %u", turn);
		for (uint64_t token = 200; token >= 1; token--)
			sp_active_span_detached(token, true);
	}
}

static unsigned attached_until_given_up(void)
{
	unsigned n = 0;

	while (n < 100000 && sp_active_span_attached(1000 + n, NULL))
		n++;
	return n;
}

Test(span, of_scopes_that_pile_up_are_given_up_and_hide_nothing_more)
{
	uint64_t lost = sp_count_read(SP_COUNT_SPAN_STACK_FULL);
	unsigned n = attached_until_given_up();

	cr_assert_lt(n, 10000);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), lost + 1024);
	cr_assert_eq(n, SP_SPAN_DEPTH_MAX + 1024 - SP_SPAN_FORGET);
	cr_assert(begin(1));
	cr_assert_eq(active(), 1, "by its start, as nothing is above it");
	end(1);
	cr_assert_eq(active(), 0);
}

/* One request recurses that deep, and attaches and detaches many leaves there. */
Test(span, of_scopes_that_were_forgotten_and_are_detached_do_not_pile_up)
{
	uint64_t deep = SP_SPAN_DEPTH_MAX;

	for (uint64_t token = 1; token <= deep; token++)
		cr_assert(sp_active_span_attached(token * 32, NULL));
	for (unsigned leaf = 0; leaf < 5000; leaf++) {
		for (uint64_t token = deep + 1; token <= deep + 100; token++)
			cr_assert(sp_active_span_attached(token * 32, NULL), "leaf %u", leaf);
		for (uint64_t token = deep + 100; token > 20; token--)
			sp_active_span_detached(token * 32, leaf % 2 == 0);
		for (uint64_t token = 21; token <= deep; token++)
			cr_assert(sp_active_span_attached(token * 32, NULL));
	}
	cr_assert_lt(attached_until_given_up(), 10000, "those that stay do so nevertheless");
}

/* As many fibers move from this thread to another as come from there. */
Test(span, of_scopes_that_are_detached_elsewhere_pile_up_although_others_are_detached_here)
{
	uint64_t token = 0;

	while (token < 100000 && sp_active_span_attached(++token, NULL))
		sp_active_span_detached(200000 + token, true);
	cr_assert_lt(token, 10000);
}

static void attach_by(uint32_t storage, uint64_t key, uint64_t id)
{
	sp_active_span_attached(sp_span_token_of(storage, key), (const uint8_t *)&id);
}

Test(span, of_a_silent_storage_is_none_where_frames_were_forgotten)
{
	attach_by(4, 1, 0);
	sp_active_span_detached(sp_span_token_of(4, 1), true);
	begin_scoped(1);
	for (uint64_t key = 1; key < 200; key++)
		attach_by(3, key, 1);
	sp_active_span_detached(sp_span_token_of(3, SP_SPAN_FORGET), true);
	cr_assert_eq(active(), ROOT_ALONE);

	sp_active_span_silence(3);

	cr_assert_eq(active(), 0);
	attach_by(3, 300, 1);
	cr_assert_not(forgot());
	attach_by(4, 1, 1);
	cr_assert_eq(active(), 1);
}

/*
 * Spans that are found by their id have short functions: sp_span_started_by_id(), sp_span_close_by_id(),
 * sp_active_span_attach(). In any sequence of steps they must give the same results as the general functions. There
 * are few ids, so starts of open spans, ends of others' objects and repeated tokens occur often.
 */
#define STEPS 600U
#define IDS 24U

struct seen {
	bool done;
	enum sp_span_active is;
	struct sp_span_record r;
	uint64_t counted[3];
};

struct play {
	uint64_t seed;
	bool brief;
	enum sp_active_span source;
	uint64_t ended[IDS + 1];
	struct seen seen[STEPS];
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % below;
}

static bool brief_start(const struct sp_span_start *s, bool brief)
{
	return brief ? sp_span_started_by_id(s, sp_span_name(s->name, s->name_len))
		     : sp_span_started(s);
}

static bool brief_end(uint64_t id, const void *handle, bool brief)
{
	struct sp_span_record r;
	uint32_t ref;

	if (!brief) {
		if (!sp_span_of_id(id, handle, &r) || !sp_span_close(&r))
			return false;
		sp_span_table_release(&r);
		return true;
	}
	ref = sp_span_close_by_id(id, handle);
	if (ref != 0)
		sp_span_table_free(ref);
	return ref != 0;
}

/*
 * Draws one of a few ids. The id of a span that has ended is not drawn again: its root's name would depend on table
 * entries.
 */
static uint64_t draw_id(struct play *p)
{
	return 1 + draw(&p->seed, IDS);
}

static uint64_t fresh(const struct play *p, uint64_t id)
{
	return id + IDS * p->ended[id];
}

static bool start_any(struct play *p)
{
	static const char *const name[] = {"", "a", "four", "seven77", "twelve lines"};
	struct sp_span_start s = start_of(fresh(p, draw_id(p)));
	uint64_t parent = draw(&p->seed, 3) != 0 ? fresh(p, draw_id(p)) : 0;
	uint64_t n = draw(&p->seed, 5);

	s.by_id = true;
	s.name = name[n];
	s.name_len = strlen(name[n]);
	s.has_parent = draw(&p->seed, 2) == 0;
	s.how = (enum sp_activation)draw(&p->seed, 3);
	s.sdk = (uint8_t)draw(&p->seed, 3);
	s.trace_id[0] = (uint8_t)draw(&p->seed, 2);
	memcpy(s.parent_id, &parent, sizeof(parent));
	if (draw(&p->seed, 9) == 0)
		s.handle = handle_of(draw_id(p));
	return brief_start(&s, p->brief);
}

static bool end_any(struct play *p)
{
	uint64_t id = draw_id(p);
	const void *handle = handle_of(draw(&p->seed, 9) != 0 ? fresh(p, id) : draw_id(p));

	if (!brief_end(fresh(p, id), handle, p->brief))
		return false;
	p->ended[id]++;
	return true;
}

static bool attach_any(struct play *p)
{
	uint64_t token = sp_span_token_of(1, 1 + draw(&p->seed, 4));
	uint64_t id = draw(&p->seed, 5) != 0 ? fresh(p, draw_id(p)) : 0;

	return p->brief ? sp_active_span_attach(token, id)
			: sp_active_span_attached(token, (const uint8_t *)&id);
}

static bool step_any(struct play *p, bool scopes)
{
	uint64_t token;

	switch (draw(&p->seed, scopes ? 5 : 3)) {
	case 0:
		return start_any(p);
	case 1:
	case 2:
		return end_any(p);
	case 3:
		return attach_any(p);
	default:
		token = sp_span_token_of(1, 1 + draw(&p->seed, 4));
		sp_active_span_detached(token, draw(&p->seed, 2) == 0);
		return true;
	}
}

static void look(struct seen *s)
{
	memset(&s->r, 0, sizeof(s->r));
	s->is = sp_span_stack_peek(&sp_thread_own->spans, &s->r);
	if (s->is == SP_SPAN_NONE || s->is == SP_SPAN_INTERLEAVED)
		memset(&s->r, 0, sizeof(s->r));
	/* It does not matter which entry a span has. */
	s->r.ref = 0;
	s->r.root_ref = s->r.root_ref != 0;
	s->r.cell = NULL;
	s->r.start_ns = 0;
	s->counted[0] = sp_count_read(SP_COUNT_SPANS_STARTED);
	s->counted[1] = sp_count_read(SP_COUNT_SPANS_ENDED);
	s->counted[2] = sp_span_table_count();
}

static void *play(void *arg)
{
	struct play *p = arg;
	bool scopes = draw(&p->seed, 2) == 0;
	struct sp_span_record r;
	uint32_t at = 0;

	/* Fills the thread's store of free entries. */
	for (uint64_t id = 1; id <= 4; id++)
		cr_assert(begin(id));
	for (uint64_t id = 1; id <= 4; id++)
		cr_assert(end(id));
	sp_counters_reset();
	for (unsigned i = 0; i < STEPS; i++) {
		p->seen[i].done = step_any(p, scopes);
		look(&p->seen[i]);
	}
	while (sp_span_table_next(&at, &r)) {
		cr_assert(sp_span_close(&r));
		sp_span_table_release(&r);
	}
	sp_thread_ended();
	return NULL;
}

static void play_in_thread(struct play *p)
{
	pthread_t thread;

	memset(p->ended, 0, sizeof(p->ended));
	atomic_store(&sp_span_stack_scoped, false);
	sp_active_span_set_source(p->source);
	cr_assert_eq(pthread_create(&thread, NULL, play, p), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span, the_short_way_of_starts_and_ends_says_what_the_whole_way_says)
{
	static struct play whole;
	static struct play brief;
	static const enum sp_active_span sources[] = {SP_ACTIVE_AUTO, SP_ACTIVE_AUTO,
						      SP_ACTIVE_SCOPE, SP_ACTIVE_START,
						      SP_ACTIVE_CONTEXT};

	for (uint64_t seed = 1; seed <= 100; seed++) {
		whole.seed = brief.seed = seed;
		whole.source = brief.source = sources[seed % SP_ARRAY_LEN(sources)];
		brief.brief = true;
		sp_span_age_tick(seed % 2 == 0);
		play_in_thread(&whole);
		play_in_thread(&brief);

		for (unsigned i = 0; i < STEPS; i++)
			cr_assert(memcmp(&whole.seen[i], &brief.seen[i], sizeof(struct seen)) == 0,
				  "seed %lu, step %u: %d %d, active %d %d", seed, i,
				  whole.seen[i].done, brief.seen[i].done, (int)whole.seen[i].is,
				  (int)brief.seen[i].is);
	}
}

/* A start by the short function takes an entry of the thread's store, and the end returns it. */
Test(span, the_short_way_uses_the_entries_at_hand)
{
	struct sp_span_start s = start_of(2);

	s.by_id = true;
	begin(1);
	end(1);
	cr_assert_eq(sp_thread_own->spare.n, 1);

	cr_assert(brief_start(&s, true));
	cr_expect_eq(sp_thread_own->spare.n, 0);
	cr_expect_eq(active(), 2);
	cr_expect(brief_end(2, s.handle, true));
	cr_expect_eq(sp_thread_own->spare.n, 1);
	cr_expect_eq(active(), 0);
}

static void *end_briefly(void *id)
{
	(void)sp_thread_self();
	cr_expect(brief_end((uint64_t)(uintptr_t)id, handle_of((uint64_t)(uintptr_t)id), true));
	return NULL;
}

Test(span, the_short_way_ends_on_another_thread)
{
	struct sp_span_start s = start_of(2);
	pthread_t thread;
	uint32_t struck;

	s.by_id = true;
	begin(1);
	end(1);
	cr_assert(brief_start(&s, true));
	struck = atomic_load(&sp_thread_own->spans.struck);

	cr_assert_eq(pthread_create(&thread, NULL, end_briefly, (void *)2), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_eq(active(), 0);
	cr_expect_gt(atomic_load(&sp_thread_own->spans.struck), struck);
	cr_expect_not(brief_end(2, s.handle, true));
}

/*
 * A program's own generator may repeat an id, and the SDK may reuse the object: still each is a span with an end of
 * its own.
 */
Test(span, with_the_id_of_one_that_has_ended_is_another)
{
	struct sp_span_start s = start_of(7);
	struct sp_span_record r;
	uint32_t first;

	s.by_id = true;
	begin(1);
	end(1);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert(brief_start(&s, true));
		cr_assert(sp_span_of_id(7, s.handle, &r));
		cr_expect(i == 0 || r.ref != first, "the same entry is used again");
		first = r.ref;
		cr_expect_not(sp_span_table_is_marked(r.ref, 8));
		cr_expect_eq(active(), 7);
		cr_expect(brief_end(7, s.handle, true));
		cr_expect_not(brief_end(7, s.handle, true));
		cr_expect_eq(active(), 0);
	}
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 4);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 4);
}
