/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about span semantics: roots, activation, ends, what a forked child keeps. */
#include "sampler/span/span.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "test/unit/core/span_host.h"

TestSuite(span, .init = set_up, .timeout = 20);

Test(span, without_a_parent_is_its_own_root)
{
	struct sp_span_record r;

	cr_assert(begin(1));

	cr_assert(sp_span_of(handle_of(1), &r));
	cr_assert_eq(r.root_id, 1);
	cr_assert(sp_span_is_root(&r));
	cr_assert_eq(r.root_name_id, r.name_id);
	cr_assert_gt(r.start_ns, UINT64_C(1700000000) * SP_NS_PER_S, "wall-clock time");
	cr_assert_eq(active(), 1);
}

Test(span, started_under_an_active_one_has_its_root)
{
	struct sp_span_record r;

	begin(1);
	begin(2);
	begin(3);

	cr_assert_eq(root_of(2), 1);
	cr_assert_eq(root_of(3), 1);
	cr_assert(sp_span_of(handle_of(3), &r));
	cr_assert_not(sp_span_is_root(&r));
}

Test(span, an_explicit_parent_decides_over_the_active_span)
{
	begin(1);
	begin(2);
	end(2);
	begin_under(10, 77); /* remote: another service's */
	cr_assert_eq(root_of(10), 10);

	begin_under(11, 1);
	cr_assert_eq(root_of(11), 1);
}

Test(span, a_parent_that_is_not_recorded_makes_a_root)
{
	begin(1);
	end(1);

	begin_under(2, 1);
	cr_assert_eq(root_of(2), 2);
}

static void *child_of_1(void *arg)
{
	(void)arg;
	cr_assert(begin_under(2, 1));
	cr_assert_eq(root_of(2), 1);
	cr_assert_eq(active(), 2);
	cr_assert(begin(3));
	cr_assert_eq(root_of(3), 1, "the root goes on through the active span");
	return NULL;
}

Test(span, a_child_on_another_thread_belongs_to_its_parents_root)
{
	begin(1);

	run(child_of_1);

	cr_assert_eq(active(), 1, "this thread still works for span 1");
}

Test(span, ended_on_another_thread_is_active_nowhere)
{
	begin(1);

	end_elsewhere(1);

	cr_assert_eq(active(), 0);
	cr_assert_not(end(1));
	begin(2);
	cr_assert_eq(root_of(2), 2);
}

static void *begin_5(void *arg)
{
	(void)arg;
	cr_assert(begin(5));
	sp_thread_ended();
	return NULL;
}

Test(span, outlives_its_thread)
{
	begin(1);
	run(begin_5);
	/* whoever has the block of that thread now is not touched by the end */
	cr_assert_not_null(sp_thread_claim());

	cr_assert(end(5));
	cr_assert_eq(active(), 1);
	cr_assert_eq(sp_span_table_count(), 1);
}

Test(span, ends_once)
{
	begin(1);

	cr_assert(end(1));
	cr_assert_not(end(1));
	cr_assert_not(end(2));
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 1);
}

Test(span, without_an_id_is_refused)
{
	cr_assert_not(begin(0));
	cr_assert_eq(sp_span_table_count(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0);
}

/* Two hooks may fire for one span. */
Test(span, reported_twice_counts_once)
{
	cr_assert(begin(1));
	cr_assert(begin(1));

	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 1);
	cr_assert(end(1));
	cr_assert_eq(active(), 0);
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span, reported_under_two_objects_counts_once)
{
	struct sp_span_start again = start_of(1);

	begin(1);
	again.handle = handle_of(99);

	cr_assert_not(sp_span_started(&again));
	cr_assert_eq(sp_span_table_count(), 1);
	cr_assert_not(end(99));
	cr_assert(end(1));
	cr_assert_eq(active(), 0);
	cr_assert_eq(sp_span_table_count(), 0);
}

Test(span, whose_end_was_missed_ends_when_its_object_is_used_again)
{
	struct sp_span_start next = start_of(2);

	begin(1);
	next.handle = handle_of(1);

	cr_assert(sp_span_started(&next));
	cr_assert_eq(active(), 2);
	cr_assert(sp_span_ended(handle_of(1)));
	cr_assert_eq(active(), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 2);
}

Test(span, found_by_its_id_is_not_in_the_index_of_objects)
{
	struct sp_span_start s = start_of(1);
	struct sp_span_record r;

	s.by_id = true;
	cr_assert(sp_span_started(&s));

	cr_expect_not(sp_span_of(handle_of(1), &r));
	cr_expect_not(sp_span_of_id(1, handle_of(2), &r), "another object stands for it");
	cr_assert(sp_span_of_id(1, handle_of(1), &r));
	sp_span_rename(&r, "new", 3);
	cr_assert(sp_span_of_id(1, handle_of(1), &r));
	cr_expect_eq(sp_span_root_name(&r), sp_names_intern("new", 3));
	cr_expect(sp_span_close(&r));
	cr_expect_not(sp_span_close(&r));
	sp_span_table_release(&r);
	cr_expect_not(sp_span_of_id(1, handle_of(1), &r));
	cr_expect_eq(active(), 0);
	cr_expect_eq(sp_span_table_count(), 0);
}

/* As a wrapper's span and the one inside it, which is not reported then. */
Test(span, known_by_an_object_is_not_found_by_its_id)
{
	struct sp_span_record r;

	begin(1);

	cr_assert_not(sp_span_of_id(1, handle_of(1), &r));
	cr_assert(end(1));
}

static void begin_a_full_stack(void)
{
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		cr_assert(begin(id));
}

/* The root that a sample would show now; 0 for none. */
static uint64_t active_root(void)
{
	struct sp_span_record r = {0};

	(void)sp_span_stack_peek(&sp_thread_own->spans, &r);
	return active() != 0 ? r.root_id : 0;
}

Test(span, deeper_than_the_stack_is_its_roots_and_not_the_last_ones)
{
	begin_a_full_stack();

	for (uint64_t id = 201; id <= 210; id++) {
		cr_assert(begin(id));
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert_eq(active_root(), 1);
		cr_assert_eq(root_of(id), 1);
	}
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), 0, "nothing is lost");
	for (uint64_t id = 210; id >= 201; id--) {
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert(end(id));
	}
	cr_assert_eq(active(), SP_SPAN_DEPTH_MAX);
	cr_assert(end(SP_SPAN_DEPTH_MAX));
	cr_assert(begin(300));
	cr_assert_eq(active(), 300);
}

/* Nobody counts it off, because a stack is changed by its thread alone. */
Test(span, deeper_than_the_stack_that_ended_elsewhere_counts_until_the_stack_is_empty)
{
	begin_a_full_stack();
	cr_assert(begin(201));
	end_elsewhere(201);

	for (uint64_t id = SP_SPAN_DEPTH_MAX; id >= 1; id--) {
		cr_assert_eq(active(), ROOT_ALONE);
		cr_assert(end(id));
	}
	cr_assert(begin(300));
	cr_assert_eq(active(), 300);
}

Test(span, deeper_than_the_stack_shows_nothing_where_roots_differ)
{
	struct sp_span_start root = start_of(200);

	begin_a_full_stack();
	root.has_parent = true;
	cr_assert(begin(199));
	cr_assert(sp_span_started(&root));
	cr_assert_eq(active_root(), 0);
	cr_assert(end(200));
	cr_assert_eq(active_root(), 0, "199 may be what is active, or not");
	cr_assert(end(199));
	cr_assert_eq(active(), SP_SPAN_DEPTH_MAX);

	cr_assert(begin(198));
	cr_assert_eq(active_root(), 1);
}

static uint32_t beyond(void)
{
	return atomic_load(&sp_thread_own->spans.beyond);
}

Test(span, deeper_than_the_stack_that_went_with_a_scope_below_is_not_counted_again)
{
	const uint8_t id[8] = {50};

	sp_active_span_set_source(SP_ACTIVE_AUTO);
	sp_active_span_attached(7777, id);
	for (uint64_t token = 1; token <= SP_SPAN_DEPTH_MAX; token++)
		sp_active_span_attached(token, NULL);
	cr_assert_eq(beyond(), 1);
	/* through all of it, and then once more as deep */
	sp_active_span_detached(7777, true);
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 0);
}

Test(span, deeper_than_the_stack_a_scope_attached_twice_is_detached_there_first)
{
	for (uint64_t token = 1; token <= SP_SPAN_DEPTH_MAX; token++)
		sp_active_span_attached(token, NULL);
	sp_active_span_attached(1, NULL);
	sp_active_span_attached(900, NULL);
	cr_assert_eq(beyond(), 2);
	sp_active_span_detached(900, true);
	sp_active_span_detached(1, true);
	cr_assert_eq(beyond(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), SP_SPAN_DEPTH_MAX);
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

Test(span, starts_and_ends_leave_errno_alone)
{
	errno = 4711;

	begin(1);
	end(1);

	cr_assert_eq(errno, 4711);
}

Test(span, a_forked_child_keeps_the_spans_of_the_forking_thread)
{
	int status;

	begin(1);
	run(child_of_1);
	begin(4);
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		struct sp_span_record r;

		sp_thread_forked();
		sp_span_forked();
		bool right = sp_span_table_count() == 2 && active() == 4 && end(4) &&
			     active() == 1 && !sp_span_of(handle_of(2), &r) && end(1) &&
			     active() == 0 && sp_span_table_count() == 0;

		_exit(right ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(span, attached_in_a_forked_child_goes_on_under_its_root)
{
	const uint64_t two = 2;
	int status;

	sp_active_span_attached(99, NULL);
	begin_scoped(1);
	run(child_of_1);
	sp_active_span_attached(20, (const uint8_t *)&two);
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		sp_thread_forked();
		sp_span_forked();
		rename_to(2, "renamed");
		bool right = sp_span_table_count() == 1 && active() == 2 && end(2) && active() == 0;

		_exit(right ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
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

Test(span, counts_the_spans_of_all_threads)
{
	cr_assert(begin(41));
	run(some_spans);
	cr_assert(end(41));

	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 41);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 41);
	sp_counters_reset();
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 0);
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

/* The last one has no block of its own to count in. */
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

/* Where nobody says what the parent is, as where a C++ program without a symbol has attached nothing. */
Test(span, of_another_trace_than_the_active_one_is_a_root)
{
	struct sp_span_start other = start_of(2);

	cr_assert(begin(1));
	other.trace_id[0] = 1;
	cr_assert(sp_span_started(&other));

	cr_assert_eq(root_of(2), 2);
	cr_assert(begin(3));
	cr_assert_eq(root_of(3), 3, "of the trace of 1, while 2 is active");
}
