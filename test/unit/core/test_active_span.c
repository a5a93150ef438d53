/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about which span is active on a thread: scopes, starts that stand in, interleaving. */
#include <criterion/criterion.h>

#include "sampler/base/counters.h"
#include "sampler/span/active_span.h"
#include "sampler/span/manual_label.h"
#include "test/unit/core/span_host.h"
#include "test/unit/sampler/stderr_pipe.h"

static bool begin_of(uint64_t id, enum sp_activation how, uint8_t sdk)
{
	struct sp_span_start s = start_of(id);

	s.how = how;
	s.sdk = sdk;
	return sp_span_started(&s);
}

/* As SDKs do whose spans say by their arguments that they have no parent. */
static bool begin_root_of(uint64_t id, enum sp_activation how, uint8_t sdk)
{
	struct sp_span_start s = start_of(id);

	s.how = how;
	s.sdk = sdk;
	s.has_parent = true;
	return sp_span_started(&s);
}

static void attach(uint64_t token, uint64_t id)
{
	uint8_t bytes[8];

	memcpy(bytes, &id, sizeof(bytes));
	sp_active_span_attached(token, bytes);
}

TestSuite(active_span, .init = set_up, .timeout = 20);

Test(active_span, of_an_sdk_with_scopes_is_active_by_its_start_until_the_first_attach)
{
	const uint64_t three = 3;

	begin_scoped(1);
	cr_assert_eq(active(), 1);
	end(1);

	begin_scoped(2);
	begin_scoped(3);
	sp_active_span_attached(30, (const uint8_t *)&three);
	begin_scoped(4);
	cr_assert_eq(active(), 3, "attached, and a mere start no longer decides");
}

Test(active_span, is_active_while_it_is_attached)
{
	const uint64_t ids[2] = {1, 2};

	sp_active_span_attached(99, NULL);
	begin_scoped(1);
	begin_scoped(2);
	cr_assert_eq(active(), 0);

	sp_active_span_attached(10, (const uint8_t *)&ids[0]);
	sp_active_span_attached(20, (const uint8_t *)&ids[1]);
	cr_assert_eq(active(), 2);
	sp_active_span_detached(20, false);
	cr_assert_eq(active(), 1);
	sp_active_span_detached(10, false);
	cr_assert_eq(active(), 0);
}

/* The usual order in C++: End() first, then the scope object is destroyed. */
Test(active_span, attached_and_ended_before_the_detach_leaves_nothing_behind)
{
	const uint64_t one = 1;

	begin_scoped(1); /* the first span of the process: active by its start */
	sp_active_span_attached(10, (const uint8_t *)&one);
	end(1);
	sp_active_span_detached(10, false);

	cr_assert_eq(active(), 0);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 0);
}

Test(active_span, ended_elsewhere_labels_nothing_where_it_is_attached)
{
	const uint64_t ids[2] = {1, 2};

	sp_active_span_attached(99, NULL);
	begin_scoped(1);
	begin_scoped(2);
	sp_active_span_attached(10, (const uint8_t *)&ids[1]);
	sp_active_span_attached(20, (const uint8_t *)&ids[0]);

	end_elsewhere(1);

	cr_assert_eq(active(), 0, "and span 2 below stays hidden until the detach");
	sp_active_span_detached(20, false);
	cr_assert_eq(active(), 2);
}

/* As main() does with its server span: started, then attached, then detached. */
Test(active_span, started_before_the_first_attach_gives_way_to_it)
{
	begin_scoped(1);
	cr_assert_eq(active(), 1);

	attach(10, 1);
	cr_assert_eq(active(), 1);
	sp_active_span_detached(10, false);
	cr_assert_eq(active(), 0, "detached is not active, whatever it was before");

	begin_scoped(2);
	cr_assert_eq(root_of(2), 2, "nor is it a parent");
	cr_assert(end(2));
	cr_assert(end(1));
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 2);
}

static void *attach_nothing(void *arg)
{
	(void)arg;
	sp_active_span_attached(10, NULL);
	return NULL;
}

Test(active_span, gives_way_on_every_thread)
{
	begin_scoped(1);
	begin(2);
	begin_scoped(3);

	run(attach_nothing);

	cr_assert_eq(active(), 2, "a start that is a scope stays");
	end(2);
	cr_assert_eq(active(), 0);
}

Test(active_span, by_scope_alone_when_asked_for)
{
	sp_active_span_set_source(SP_ACTIVE_SCOPE);

	begin_scoped(1);
	begin_of(2, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(active(), 0);
	attach(10, 1);
	cr_assert_eq(active(), 1);
	sp_active_span_detached(10, false);
	begin(3);
	cr_assert_eq(active(), 3, "the start of an SDK that attaches by it is a scope");
}

Test(active_span, by_start_alone_when_asked_for)
{
	sp_active_span_set_source(SP_ACTIVE_START);

	begin_scoped(1);
	attach(10, 1);
	begin_scoped(2);
	cr_assert_eq(active(), 2);
	sp_active_span_detached(10, true);
	cr_assert_eq(active(), 2);
	end(2);
	cr_assert_eq(active(), 1);
	end(1);

	begin_root_of(3, SP_ACTIVATION_NONE, 1);
	begin_root_of(4, SP_ACTIVATION_NONE, 1);
	end(3);
	cr_assert_eq(active(), 4, "nor does interleaving change what was asked for");
}

/* An event loop: request 3 begins before request 2 ends. */
static void interleave(enum sp_activation how, uint8_t sdk)
{
	begin_root_of(2, how, sdk);
	begin_root_of(3, how, sdk);
}

static enum sp_span_active what(void)
{
	struct sp_span_record r;

	return sp_span_stack_peek(&sp_thread_own->spans, &r);
}

Test(active_span, is_nobodys_while_starts_interleave)
{
	stderr_begin();
	begin_of(1, SP_ACTIVATION_NONE, 1);
	begin_of(4, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(active(), 4, "a child is of the same root");
	interleave(SP_ACTIVATION_NONE, 1);
	cr_assert_eq(what(), SP_SPAN_INTERLEAVED);
	cr_assert_eq(active(), 0);

	/* The others go on: they are tracked. */
	cr_assert_eq(root_of(3), 3);
	cr_assert(end(3));
	cr_assert_eq(active(), 0, "2 is open in 1");
	cr_assert(end(2));
	cr_assert_eq(active(), 4, "and nothing else is any more");
	interleave(SP_ACTIVATION_NONE, 1);
	cr_assert_eq(stderr_end(), 1, "once is enough");
	cr_assert(stderr_has("SPANPROF_ACTIVE_SPAN"));
}

Test(active_span, is_the_one_that_is_left_in_whatever_order_they_end)
{
	stderr_begin();
	interleave(SP_ACTIVATION_NONE, 1);
	end(2);
	cr_assert_eq(active(), 3);
	begin_root_of(4, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(active(), 0);
	end_elsewhere(3);
	cr_assert_eq(active(), 4);
	cr_assert_eq(stderr_end(), 1);
}

Test(active_span, of_a_child_whose_root_has_ended_does_not_interleave_with_it)
{
	stderr_begin();
	begin_of(1, SP_ACTIVATION_NONE, 1);
	begin_of(2, SP_ACTIVATION_NONE, 1);
	end(1);
	begin_of(3, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(stderr_end(), 0);

	cr_assert_eq(active(), 3);
}

Test(active_span, interleaves_too_where_an_sdk_has_scopes_and_does_not_use_them)
{
	stderr_begin();
	interleave(SP_ACTIVATION_SCOPE, 1);
	cr_assert_eq(stderr_end(), 1);

	cr_assert_eq(active(), 0);
	attach(10, 3);
	cr_assert_eq(active(), 3, "what is attached is active");
	sp_active_span_detached(10, true);
	cr_assert_eq(what(), SP_SPAN_NONE, "and nothing interleaves any more");
}

Test(active_span, does_not_interleave_once_scopes_are_in_use)
{
	stderr_begin();
	begin_root_of(1, SP_ACTIVATION_SCOPE, 1);
	attach(10, 1);
	begin_root_of(2, SP_ACTIVATION_SCOPE, 1);
	attach(20, 2);
	end(1);
	cr_assert_eq(stderr_end(), 0);

	cr_assert_eq(active(), 2);
}

/* Some hosts start the next span before they end the one before, by an SDK whose start attaches. */
Test(active_span, of_an_sdk_whose_start_attaches_does_not_interleave)
{
	stderr_begin();
	interleave(SP_ACTIVATION_START, 1);
	cr_assert_eq(stderr_end(), 0);

	cr_assert_eq(active(), 3);
	end(2);
	begin_of(4, SP_ACTIVATION_START, 1);
	cr_assert_eq(active(), 4);
}

Test(active_span, interleaves_with_the_same_sdk_only)
{
	stderr_begin();
	begin_root_of(1, SP_ACTIVATION_NONE, 1);
	begin_root_of(2, SP_ACTIVATION_NONE, 2);
	cr_assert_eq(stderr_end(), 0);
	cr_assert_eq(active(), 2);

	stderr_begin();
	begin_root_of(3, SP_ACTIVATION_NONE, 2);
	cr_assert_eq(stderr_end(), 1);
	cr_assert_eq(active(), 0);
	begin_root_of(4, SP_ACTIVATION_NONE, 3);
	cr_assert_eq(active(), 4, "the other SDK's spans stay");
}

static void *nest_here(void *arg)
{
	(void)arg;
	begin_root_of(21, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(active(), 21);
	return NULL;
}

Test(active_span, interleaves_on_one_thread_and_not_on_the_others)
{
	stderr_begin();
	interleave(SP_ACTIVATION_NONE, 1);
	cr_assert_eq(stderr_end(), 1);

	cr_assert_eq(active(), 0);
	run(nest_here);
}

/* The SDK gave the object of span 1 to span 3: span 1 has ended, though nobody saw it. */
Test(active_span, whose_end_was_missed_does_not_interleave)
{
	struct sp_span_start next = start_of(3);

	stderr_begin();
	begin_root_of(1, SP_ACTIVATION_NONE, 1);
	next.handle = handle_of(1);
	next.how = SP_ACTIVATION_NONE;
	next.sdk = 1;
	next.has_parent = true;
	cr_assert(sp_span_started(&next));
	cr_assert_eq(stderr_end(), 0);

	cr_assert_eq(active(), 3);
}

static const struct sp_thread *block;

static void *interleave_here(void *arg)
{
	begin_root_of(11, SP_ACTIVATION_NONE, 1);
	begin_root_of(12, SP_ACTIVATION_NONE, 1);
	cr_assert_eq(active(), 0);
	block = sp_thread_own;
	sp_thread_ended();
	return arg;
}

static void *nest_there(void *arg)
{
	cr_assert_eq(sp_thread_self(), block, "it has the block of the one before");
	return nest_here(arg);
}

Test(active_span, of_a_new_thread_starts_afresh)
{
	stderr_begin();
	run(interleave_here);
	cr_assert_eq(stderr_end(), 1);
	run(nest_there);
}

/* What does not fit is no reason to give up as long as some of what is below goes. */
Test(active_span, scopes_that_come_back_from_the_depth_are_believed)
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

Test(active_span, scopes_that_pile_up_are_given_up_and_hide_nothing_more)
{
	uint64_t lost = sp_count_read(SP_COUNT_SPAN_STACK_FULL);
	unsigned n = attached_until_given_up();

	cr_assert_lt(n, 10000);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL), lost + n + 1 - SP_SPAN_DEPTH_MAX);
	cr_assert(begin_of(1, SP_ACTIVATION_NONE, 3));
	cr_assert_eq(active(), 1, "by its start, as nothing is above it");
	end(1);
	cr_assert_eq(active(), 0);
}

Test(active_span, what_is_forgotten_is_what_was_attached)
{
	const uint64_t two = 2;

	cr_assert(begin_of(1, SP_ACTIVATION_START, 1));
	cr_assert(begin_of(2, SP_ACTIVATION_SCOPE, 2));
	(void)sp_active_span_attached(20, (const uint8_t *)&two);
	(void)sp_active_span_attached(30, NULL);
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(9, 0), 0);
	cr_assert_eq(active(), 9);

	sp_active_span_forget_scopes();
	cr_assert_eq(active(), 9, "a program's own label is no scope");
	cr_assert(sp_manual_label_leave());
	cr_assert_eq(active(), 1);
	sp_active_span_detached(20, true);
	cr_assert_eq(active(), 1, "and a late detach meets nothing");
}

static void attach_by(uint32_t storage, uint64_t key, uint64_t id)
{
	attach(sp_span_token_of(storage, key), id);
}

Test(active_span, of_a_storage_is_what_that_storage_says)
{
	attach_by(3, 1, 0);
	begin_scoped(1);
	begin_scoped(2);
	cr_assert(sp_active_span_agrees(3, 0));
	cr_assert_not(sp_active_span_agrees(3, 1), "attached, and not on this thread");
	attach_by(3, 10, 1);
	attach_by(4, 10, 2);

	cr_assert(sp_active_span_agrees(3, 1), "the scope of another storage is around it");
	cr_assert(sp_active_span_agrees(4, 2));
	cr_assert_not(sp_active_span_agrees(3, 0));
	cr_assert_not(sp_active_span_agrees(4, 1));
	cr_assert_not(sp_active_span_agrees(5, 1));
	cr_assert(sp_active_span_agrees(5, 9), "of a span that is not recorded nothing is known");
	cr_assert(end(2));
	cr_assert(sp_active_span_agrees(4, 2) && sp_active_span_agrees(4, 0),
		  "nor of one that has ended");
	/* a wrapper's start attaches as well */
	begin(6);
	cr_assert(sp_active_span_agrees(4, 6));
	for (uint64_t key = 100; key < 300; key++)
		attach_by(3, key, 1);
	cr_assert(sp_active_span_agrees(3, 0), "beyond the end of the stack nothing is known");
}

static _Atomic int step;
static uint64_t seen_by_other[2];

static void *attach_and_wait(void *unused)
{
	(void)unused;
	attach_by(3, 10, 1);
	seen_by_other[0] = active();
	atomic_store(&step, 1);
	while (atomic_load(&step) != 2)
		continue;
	seen_by_other[1] = active();
	return NULL;
}

Test(active_span, of_a_silent_storage_is_none_on_any_thread)
{
	pthread_t other;

	attach_by(4, 10, 0);
	begin_scoped(1);
	begin_scoped(2);
	attach_by(4, 11, 2);
	attach_by(3, 10, 1);
	cr_assert_eq(active(), 1);
	cr_assert_eq(pthread_create(&other, NULL, attach_and_wait, NULL), 0);
	while (atomic_load(&step) != 1)
		continue;

	sp_active_span_silence(3);
	atomic_store(&step, 2);
	cr_assert_eq(pthread_join(other, NULL), 0);

	cr_assert_eq(seen_by_other[0], 1);
	cr_assert_eq(seen_by_other[1], 0);
	cr_assert_eq(active(), 2, "what another storage attached is not hidden");
	attach_by(3, 12, 1);
	cr_assert_eq(active(), 2);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 2, "nor is room taken");
	sp_active_span_detached(sp_span_token_of(3, 10), true);
	cr_assert_eq(active(), 2);
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(9, 0), 0);
	cr_assert_eq(active(), 9, "a label of the program's own");
}

Test(active_span, of_a_silent_storage_is_none_beyond_the_end_of_the_stack)
{
	attach_by(3, 1, 0);
	begin_scoped(1);
	for (uint64_t key = 2; key < 200; key++)
		attach_by(3, key, 1);
	cr_assert_eq(active(), ROOT_ALONE);

	sp_active_span_silence(3);

	cr_assert_eq(active(), 0);
	attach_by(3, 300, 1);
	attach_by(4, 1, 1);
	cr_assert_eq(active(), 1);
}

/* Where all that an SDK attached is on the stack, the SDK need not be asked for the parent of a start. */
Test(active_span, tells_the_parent_of_a_start_unless_something_is_not_on_the_stack)
{
	uint8_t trace[16];
	uint8_t other[16];

	memset(trace, 0x5a, sizeof(trace));
	memset(other, 0x5b, sizeof(other));
	cr_expect_not(sp_active_span_tells_parent(NULL), "a thread without a stack");
	begin_scoped(1);
	attach(10, 1);
	cr_expect(sp_active_span_tells_parent(NULL));
	cr_expect(sp_active_span_tells_parent(trace));
	cr_expect_not(sp_active_span_tells_parent(other));
	sp_active_span_detached(10, true);
	cr_expect(sp_active_span_tells_parent(NULL), "nothing is attached");
	cr_expect_not(sp_active_span_tells_parent(trace), "its parent was attached unseen");
	for (uint64_t i = 0; i <= SP_SPAN_DEPTH_MAX; i++)
		attach(100 + i, 1);
	cr_expect_not(sp_active_span_tells_parent(NULL), "beyond the last frame");
	sp_active_span_forget_scopes();
	cr_expect(sp_active_span_tells_parent(NULL));
	sp_active_span_set_source(SP_ACTIVE_START);
	cr_expect_not(sp_active_span_tells_parent(NULL), "attach and detach are not looked at");
}
