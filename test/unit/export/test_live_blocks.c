/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that were sampled and not freed. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <string.h>

#include "core_double.h"
#include "export/profile/live_blocks.h"
#include "export/util/containers.h"
#include "sampler/base/random.h"

#define MEAN 1024U

static struct sp_live_blocks *live;
static struct sp_stack_map *map;

static void set_up(void)
{
	core_reset();
	core.config.alloc_interval = MEAN;
	live = sp_live_blocks_new(&core.ops);
	map = sp_stack_map_new(&sp_stack_limits_default);
}

static void tear_down(void)
{
	sp_live_blocks_free(live);
	sp_stack_map_free(map);
}

TestSuite(live_blocks, .init = set_up, .fini = tear_down, .timeout = 60);

static void put_deep(uint64_t number, uint64_t span_id, uint32_t name_id, uint16_t depth)
{
	struct sp_sample s = {.span_id = span_id,
			      .trace_id = {1},
			      .root_id = span_id,
			      .name_id = name_id,
			      .depth = depth,
			      .allocated = 1 << 20,
			      .block = number,
			      .pc = {number}};

	sp_live_blocks_put(live, &s, 3, 0);
}

static void put(uint64_t number, uint64_t span_id)
{
	put_deep(number, span_id, 7, 1);
}

static uint64_t without_room(void)
{
	return core.counter[SP_COUNT_BLOCKS_NO_ROOM];
}

/* The number of blocks, as collected now. */
static uint64_t collect(void)
{
	sp_stack_map_clear(map);
	sp_live_blocks_collect(live, map);
	return sp_stack_map_count(map);
}

Test(live_blocks, are_there_until_they_are_freed)
{
	put(1, 5);
	put(2, 5);
	cr_expect(sp_live_blocks_changed(live));
	cr_expect_eq(collect(), 2);
	cr_expect_not(sp_live_blocks_changed(live));
	cr_expect_eq(sp_stack_map_entry(map, 1)->unsampled_ns, 1 << 20);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.root_id, 0);
	cr_expect_eq(sp_live_blocks_epoch(live, 9), 3);
	sp_live_blocks_freed(live, 1);
	cr_expect(sp_live_blocks_changed(live));
	cr_expect_eq(collect(), 1);
	sp_live_blocks_freed(live, 2);
	cr_expect_eq(collect(), 0);
	cr_expect_eq(sp_live_blocks_epoch(live, 9), 9);
	cr_expect_eq(without_room(), 0);
}

/* Unknown blocks, missing blocks and repeated ones are not counted, and never make a number negative. */
Test(live_blocks, bear_what_makes_no_sense)
{
	put(0, 5);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_snapshots_read(live);
	put(1, 5);
	put(1, 6);
	cr_expect_eq(collect(), 1);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_snapshots_read(live);
	sp_live_blocks_snapshots_read(live);
	cr_expect_eq(collect(), 0);
	put(1, 5);
	cr_expect_eq(collect(), 1);
	sp_live_blocks_put(NULL, &(struct sp_sample){.block = 1}, 0, 0);
	sp_live_blocks_freed(NULL, 1);
	sp_live_blocks_snapshots_read(NULL);
	sp_live_blocks_span_ended(NULL, 1);
	cr_expect_eq(sp_live_blocks_count(NULL), 0);
}

/* The stacks of some samples are walked later, when the end of their blocks is known already. */
Test(live_blocks, may_be_freed_before_they_come)
{
	sp_live_blocks_freed(live, 1);
	cr_expect_eq(sp_live_blocks_count(live), 0);
	cr_expect_not(sp_live_blocks_changed(live));
	cr_expect_eq(collect(), 0);
	put(1, 5);
	cr_expect_eq(collect(), 0);
	sp_live_blocks_snapshots_read(live);
	put(1, 5);
	cr_expect_eq(collect(), 1);
}

/* In the same way their span may have ended before, and no other block may be known by then. */
Test(live_blocks, may_come_behind_the_end_of_their_span)
{
	sp_live_blocks_span_ended(live, 5);
	cr_expect_not(sp_live_blocks_changed(live), "nothing came or went");
	put(1, 5);
	cr_expect_eq(collect(), 1);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id, 0);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.name_id, 7);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_span_ended(live, 6);
	sp_live_blocks_snapshots_read(live);
	put(2, 6);
	cr_expect_eq(collect(), 1);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id, 6, "a later span with that id");
}

/* A snapshot that is not complete yet hides the later ones, so those come in a later interval. */
Test(live_blocks, may_come_an_interval_behind_the_end_of_their_span)
{
	sp_live_blocks_span_ended(live, 5);
	cr_expect_eq(collect(), 0);
	put(1, 5);
	sp_live_blocks_snapshots_read(live);
	cr_expect_eq(collect(), 1);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id, 0);
	put(2, 5);
	cr_expect_eq(collect(), 2);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id +
			     sp_stack_map_entry(map, 2)->labels.span_id,
		     5, "a later span with that id");
}

/* The ends of spans must not fill the room of the next interval for ever. */
Test(live_blocks, know_no_ends_without_end)
{
	for (uint64_t i = 1; i <= 4 * (uint64_t)SP_LIVE_SPANS_MAX; i++) {
		sp_live_blocks_span_ended(live, i);
		if (i % (SP_LIVE_SPANS_MAX / 4) == 0)
			cr_expect_eq(collect(), 0);
	}
	cr_expect_eq(core.counter[SP_COUNT_DROP_SPAN_ENDS], 0);
}

Test(live_blocks, keep_the_name_of_a_span_that_has_ended)
{
	const struct sp_stack_labels *l;

	put(1, 5);
	put(2, 6);
	sp_live_blocks_span_ended(live, 5);
	sp_live_blocks_span_ended(live, 5);
	sp_live_blocks_span_ended(live, 77);
	cr_expect_eq(collect(), 2);
	for (uint32_t i = 1; i <= 2; i++) {
		l = &sp_stack_map_entry(map, i)->labels;
		cr_expect_eq(l->name_id, 7);
		cr_expect(l->span_id == 6 || (l->span_id == 0 && l->trace_id[0] == 0));
	}
	/* A block of an ended span has no span id any more. Now the other span ends. */
	sp_live_blocks_span_ended(live, 6);
	cr_expect(sp_live_blocks_changed(live));
	sp_live_blocks_snapshots_read(live);
	cr_expect_eq(collect(), 2);
	for (uint32_t i = 1; i <= 2; i++)
		cr_expect_eq(sp_stack_map_entry(map, i)->labels.span_id, 0);
	/* A later span that reuses an id is open. */
	put(3, 6);
	cr_expect_eq(collect(), 3);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id +
			     sp_stack_map_entry(map, 2)->labels.span_id +
			     sp_stack_map_entry(map, 3)->labels.span_id,
		     6);
}

/*
 * The objects of these stacks were forgotten, and the same addresses may belong to other objects
 * now.
 */
Test(live_blocks, lose_stacks_that_nobody_understands)
{
	struct sp_stack stack;

	put(1, 5);
	put(2, 5);
	sp_live_blocks_freed(live, 9);
	sp_live_blocks_forget_stacks(live, 3);
	cr_expect_eq(collect(), 2);
	cr_expect_eq(sp_stack_map_stacks(map), 3, "one each, and (other)");
	sp_live_blocks_forget_stacks(live, 4);
	cr_expect_eq(sp_live_blocks_epoch(live, 9), 4);
	cr_expect_eq(collect(), 2);
	cr_assert_eq(sp_stack_map_stacks(map), 2);
	sp_stack_map_stack(map, 1, &stack);
	cr_expect_eq(stack.depth, 0);
	sp_live_blocks_freed(live, 1);
	sp_live_blocks_freed(live, 2);
	cr_expect_eq(collect(), 0);
}

Test(live_blocks, are_bounded_in_number)
{
	for (uint64_t i = 1; i <= SP_LIVE_BLOCKS_MAX + 100; i++)
		put(i, 0);
	cr_expect_eq(sp_live_blocks_count(live), SP_LIVE_BLOCKS_MAX);
	cr_expect_eq(without_room(), 100);
	cr_expect_eq(collect(), SP_LIVE_BLOCKS_MAX);
	for (uint64_t i = 1; i <= SP_LIVE_BLOCKS_MAX + 100; i++)
		sp_live_blocks_freed(live, i);
	cr_expect_eq(collect(), 0);
}

Test(live_blocks, are_bounded_in_bytes)
{
	for (uint64_t i = 1; i <= 10000; i++)
		put_deep(i, 0, 0, SP_FRAMES_MAX);
	cr_expect_lt(sp_live_blocks_count(live), SP_LIVE_BLOCKS_BYTES / SP_FRAMES_MAX / 8);
	cr_expect_eq(without_room() + sp_live_blocks_count(live), 10000);
}

/* A block whose stack was dropped must not keep the stack's memory, which is not counted any more. */
Test(live_blocks, are_bounded_in_bytes_without_their_stacks)
{
	uint64_t number = 1;

	for (uint32_t round = 0; round < 6; round++) {
		for (int i = 0; i < 3000; i++)
			put_deep(number++, 0, 0, SP_FRAMES_MAX);
		sp_live_blocks_forget_stacks(live, 4);
	}
	cr_expect_gt(sp_live_blocks_count(live), 12000);
	cr_expect_leq(mallinfo2().uordblks, SP_LIVE_BLOCKS_BYTES + (4 << 20));
}

/* Numbers that were chosen to have one hash cost no more time than others. */
Test(live_blocks, are_bounded_by_their_hash)
{
	unsigned same = 0;

	for (uint64_t i = 1; same < 1000; i++)
		if (sp_hash_add(0, i) % 16384 == 5) {
			put(i, 0);
			same++;
		}
	cr_expect_eq(sp_live_blocks_count(live) + without_room(), 1000);
	cr_expect_leq(sp_live_blocks_count(live), 64);
}

Test(live_blocks, count_ends_that_have_no_room)
{
	put(1, 5);
	for (uint64_t i = 1; i <= SP_LIVE_SPANS_MAX + 10; i++)
		sp_live_blocks_span_ended(live, i);
	cr_expect_eq(core.counter[SP_COUNT_DROP_SPAN_ENDS], 10);
	cr_expect_eq(collect(), 1);
	cr_expect_eq(sp_stack_map_entry(map, 1)->labels.span_id, 0);
}

/* Compared with a model: an array of the blocks that exist. */
Test(live_blocks, are_what_came_and_did_not_go)
{
	static bool there[2000], early[2000];
	uint64_t state = 42;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t n = sp_random_next(&state) % 2000;
		unsigned what = (unsigned)(sp_random_next(&state) % 100);
		uint64_t expected = 0;

		if (what < 50) {
			put(n, 0);
			there[n] = n != 0 && !early[n];
			early[n] = false;
		} else if (what < 99) {
			sp_live_blocks_freed(live, n);
			early[n] = !there[n];
			there[n] = false;
		} else {
			sp_live_blocks_snapshots_read(live);
			memset(early, 0, sizeof(early));
		}
		if (i % 1000 != 0)
			continue;
		for (unsigned k = 0; k < 2000; k++)
			expected += there[k];
		cr_assert_eq(sp_live_blocks_count(live), expected);
		cr_assert_eq(collect(), expected);
	}
	cr_expect_eq(without_room(), 0);
}
