/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the span stack; test/stress/span_stack_step.c looks between the instructions. */
#include "sampler/open_spans/span_stack.h"

#include <criterion/criterion.h>
#include <string.h>

static struct sp_span_stack stack;

static struct sp_span_entry entry_of(uint64_t id, uint64_t token)
{
	struct sp_span_entry e = {
		.span_id = id,
		.root_id = id + 100,
		.name_id = (uint32_t)id + 200,
		.root_name_id = (uint32_t)id + 300,
		.token = token,
	};

	memset(e.trace_id, (int)id, sizeof(e.trace_id));
	return e;
}

static uint32_t attach(uint64_t id, uint64_t token)
{
	struct sp_span_entry e = entry_of(id, token);

	return sp_span_stack_push(&stack, &e);
}

static uint32_t push(uint64_t id)
{
	return attach(id, 0);
}

static uint32_t depth(void)
{
	return atomic_load(&stack.depth);
}

static uint64_t top(void)
{
	struct sp_span_entry e;

	return sp_span_stack_peek(&stack, &e) ? e.span_id : 0;
}

TestSuite(span_stack, .timeout = 20);

Test(span_stack, has_no_top_while_empty)
{
	struct sp_span_entry e;

	cr_assert_not(sp_span_stack_peek(&stack, &e));
	cr_assert_not(sp_span_stack_pop(&stack, 1));
}

Test(span_stack, shows_all_of_what_was_pushed)
{
	struct sp_span_entry want = entry_of(7, 70);
	struct sp_span_entry e;

	memset(&e, 0, sizeof(e));
	cr_assert_eq(attach(7, 70), 0);

	cr_assert(sp_span_stack_peek(&stack, &e));
	cr_assert_eq(memcmp(&e, &want, sizeof(e)), 0);
}

Test(span_stack, tells_the_slot)
{
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 1);
	cr_assert(sp_span_stack_pop(&stack, 2));
	cr_assert_eq(push(3), 1);
}

Test(span_stack, by_its_slot_pops_what_is_on_top_and_nothing_else)
{
	push(1);
	push(2);

	cr_expect_not(sp_span_stack_pop_top(&stack, 0, 1), "not on top");
	cr_expect_not(sp_span_stack_pop_top(&stack, 1, 1), "another span there");
	cr_expect_not(sp_span_stack_pop_top(&stack, SP_SPAN_DEPTH_MAX + 1, 2), "a deep slot");
	cr_expect_eq(top(), 2);
	cr_assert(sp_span_stack_strike(&stack, 0, 1));
	cr_expect(sp_span_stack_pop_top(&stack, 1, 2));
	cr_expect_eq(depth(), 0, "the ended frame below went too");
}

Test(span_stack, by_its_slot_leaves_scopes_and_what_lies_below_an_overflow)
{
	attach(1, 70);
	cr_expect_not(sp_span_stack_pop_top(&stack, 0, 1), "attached");
	for (uint64_t id = 2; id <= SP_SPAN_DEPTH_MAX + 1; id++)
		push(id);

	cr_expect_not(sp_span_stack_pop_top(&stack, SP_SPAN_DEPTH_MAX - 1, SP_SPAN_DEPTH_MAX));
	cr_expect(sp_span_stack_pop(&stack, SP_SPAN_DEPTH_MAX));
}

Test(span_stack, restores_what_was_there_before)
{
	for (uint64_t id = 1; id <= 5; id++)
		push(id);

	for (uint64_t id = 5; id >= 1; id--) {
		cr_assert_eq(top(), id);
		cr_assert(sp_span_stack_pop(&stack, id));
	}
	cr_assert_eq(top(), 0);
	cr_assert_eq(depth(), 0);
}

Test(span_stack, keeps_the_top_when_a_lower_span_ends)
{
	push(1);
	push(2);
	push(3);

	cr_assert(sp_span_stack_pop(&stack, 2));

	cr_assert_eq(top(), 3);
	cr_assert_not(sp_span_stack_pop(&stack, 2));
	cr_assert(sp_span_stack_pop(&stack, 3));
	cr_assert_eq(top(), 1);
	cr_assert_eq(depth(), 1, "the ended frame below went too");
}

/* All orders of ending four spans: after each end the top is the youngest that is still open. */
Test(span_stack, is_right_in_every_order_of_ending)
{
	for (unsigned code = 0; code < 256; code++) {
		const uint64_t order[4] = {code % 4 + 1, code / 4 % 4 + 1, code / 16 % 4 + 1,
					   code / 64 + 1};
		bool open[5] = {false, true, true, true, true};

		memset(&stack, 0, sizeof(stack));
		for (uint64_t id = 1; id <= 4; id++)
			push(id);
		for (unsigned i = 0; i < 4; i++) {
			uint64_t want = 0;

			cr_assert_eq(sp_span_stack_pop(&stack, order[i]), open[order[i]]);
			open[order[i]] = false;
			for (uint64_t id = 1; id <= 4; id++)
				want = open[id] ? id : want;
			cr_assert_eq(top(), want, "code %u", code);
			cr_assert_eq(depth(), want, "code %u: slots above the top are free", code);
		}
	}
}

Test(span_stack, forgets_a_span_that_another_thread_ended)
{
	push(1);
	push(2);

	cr_assert(sp_span_stack_strike(&stack, 1, 2));

	cr_assert_eq(top(), 1);
	cr_assert_not(sp_span_stack_strike(&stack, 1, 2), "only one of several enders");
	cr_assert_eq(push(3), 1, "the owner reaped the slot");
}

Test(span_stack, strikes_only_what_the_slot_holds)
{
	push(1);
	push(2);

	cr_assert_not(sp_span_stack_strike(&stack, 0, 2));
	cr_assert_not(sp_span_stack_strike(&stack, 1, 0));
	cr_assert_not(sp_span_stack_strike(&stack, SP_SPAN_DEPTH_MAX, 2));
	cr_assert_not(sp_span_stack_strike(&stack, UINT32_MAX, 2));
	cr_assert_eq(top(), 2);
}

Test(span_stack, a_pop_of_what_was_struck_finds_nothing)
{
	push(1);
	cr_assert(sp_span_stack_strike(&stack, 0, 1));

	cr_assert_not(sp_span_stack_pop(&stack, 1));
	cr_assert_eq(depth(), 0);
}

Test(span_stack, counts_what_does_not_fit)
{
	uint64_t version;
	uint64_t token;
	uint32_t slot;

	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		cr_assert_eq(push(id), id - 1);

	version = sp_span_stack_version(&stack);
	slot = push(99);
	cr_assert(sp_span_slot_is_deep(slot));
	cr_assert_neq(sp_span_stack_version(&stack), version);
	cr_assert_eq(top(), SP_SPAN_DEEPER);
	cr_assert_eq(sp_span_stack_top(&stack, &token), 0);
	cr_assert_not(sp_span_stack_pop(&stack, 99));
	version = sp_span_stack_version(&stack);
	sp_span_stack_leave(&stack, slot, false);
	cr_assert_neq(sp_span_stack_version(&stack), version);
	cr_assert_eq(top(), SP_SPAN_DEPTH_MAX);
	cr_assert(sp_span_stack_pop(&stack, SP_SPAN_DEPTH_MAX));
	cr_assert_eq(push(99), SP_SPAN_DEPTH_MAX - 1);
}

Test(span_stack, one_that_went_with_its_generation_is_not_counted_off_the_next)
{
	uint32_t slot;

	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		attach(id, id);
	slot = push(99);
	cr_assert(sp_span_stack_pop_token(&stack, 1, true));
	cr_assert_eq(depth(), 0);
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		attach(id, id);
	push(99);
	sp_span_stack_leave(&stack, slot, true);
	cr_assert_eq(top(), SP_SPAN_DEEPER);
}

Test(span_stack, makes_room_when_the_top_was_struck)
{
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		push(id);
	cr_assert(sp_span_stack_strike(&stack, SP_SPAN_DEPTH_MAX - 1, SP_SPAN_DEPTH_MAX));

	cr_assert_eq(push(99), SP_SPAN_DEPTH_MAX - 1);
}

/* The span's record names the slot from then on, and is how another thread finds its frame. */
Test(span_stack, a_frame_goes_where_room_was_though_the_one_below_is_struck_meanwhile)
{
	struct sp_span_entry e = entry_of(2, 0);
	uint32_t slot;

	cr_assert_eq(push(1), 0);
	slot = sp_span_stack_room(&stack);
	cr_assert_eq(slot, 1);
	cr_assert(sp_span_stack_strike(&stack, 0, 1));
	sp_span_stack_put(&stack, slot, &e);

	cr_assert_eq(top(), 2);
	cr_assert(sp_span_stack_strike(&stack, slot, 2));
	cr_assert_eq(top(), 0);
	cr_assert_eq(sp_span_stack_room(&stack), 0, "nothing is left of both");
}

Test(span_stack, of_one_id_pushed_twice_pops_the_upper_first)
{
	push(1);
	push(2);
	push(1);

	cr_assert(sp_span_stack_pop(&stack, 1));
	cr_assert_eq(top(), 2);
	cr_assert(sp_span_stack_pop(&stack, 2));
	cr_assert_eq(top(), 1);
}

Test(span_stack, a_blank_frame_hides_what_is_below)
{
	push(1);
	attach(SP_SPAN_BLANK, 5);
	cr_assert_eq(top(), 0);

	cr_assert(sp_span_stack_pop_token(&stack, 5, false));
	cr_assert_eq(top(), 1);
}

Test(span_stack, detaches_one_scope_wherever_it_lies)
{
	attach(1, 10);
	attach(2, 20);
	attach(3, 30);

	cr_assert(sp_span_stack_pop_token(&stack, 20, false));
	cr_assert_eq(top(), 3);
	cr_assert_not(sp_span_stack_pop_token(&stack, 20, false));
	cr_assert(sp_span_stack_pop_token(&stack, 30, false));
	cr_assert_eq(top(), 1);
}

Test(span_stack, detaches_through_what_was_attached_after)
{
	attach(1, 10);
	attach(2, 20);
	attach(3, 30);

	cr_assert(sp_span_stack_pop_token(&stack, 20, true));
	cr_assert_eq(top(), 1);
	cr_assert_eq(depth(), 1);
}

Test(span_stack, changes_nothing_for_an_unknown_token)
{
	attach(1, 10);
	push(2);

	cr_assert_not(sp_span_stack_pop_token(&stack, 99, true));
	cr_assert_not(sp_span_stack_pop_token(&stack, 0, true), "0 is no scope's token");
	cr_assert_eq(top(), 2);
	cr_assert_eq(depth(), 2);
}

Test(span_stack, an_ended_span_keeps_the_place_of_its_scope)
{
	attach(1, 10);
	attach(2, 20);

	cr_assert(sp_span_stack_pop(&stack, 1));
	cr_assert_eq(top(), 2);
	cr_assert(sp_span_stack_pop_token(&stack, 10, true), "the detach still finds its scope");
	cr_assert_eq(top(), 0, "and takes what was attached after it along");
}
