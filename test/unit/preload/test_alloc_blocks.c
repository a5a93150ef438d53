/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sampled blocks that are still allocated. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "preload/alloc/blocks.h"
#include "sampler/base/random.h"

TestSuite(alloc_blocks, .timeout = 60);

static struct sp_blocks blocks;

static const void *at(uint64_t address)
{
	return (const void *)(uintptr_t)address;
}

#define TOLD_MAX 70000U
static _Atomic uint32_t told[TOLD_MAX]; /* reports by number */

/* The block's number, or 0. */
static uint64_t put_at(uint64_t address)
{
	struct sp_block *b = sp_blocks_hold(&blocks, at(address));

	if (b == NULL)
		return 0;
	sp_blocks_give_back(&blocks, b, at(address));
	return sp_block_number(b);
}

static bool free_at(uint64_t address)
{
	struct sp_block *b = sp_blocks_take(&blocks, at(address));

	if (b == NULL)
		return false;
	cr_assert_lt(sp_block_number(b), TOLD_MAX);
	atomic_fetch_add(&told[sp_block_number(b)], 1);
	sp_blocks_free(&blocks, b);
	return true;
}

static unsigned used(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < SP_BLOCKS; i++)
		n += blocks.place[i].key != 0;
	for (size_t i = 0; i < SP_BLOCKS_COUNTS; i++)
		cr_assert_leq(blocks.count[i], n);
	cr_assert_eq(blocks.in, n);
	return n;
}

Test(alloc_blocks, tells_each_block_once)
{
	uint64_t number = put_at(0x1000);

	cr_expect_eq(number, 1);
	cr_expect_eq(put_at(0x2000), 2);
	cr_expect(sp_blocks_may_have(&blocks, at(0x1000)));
	cr_expect(free_at(0x1000));
	cr_expect_eq(told[number], 1);
	cr_expect_not(sp_blocks_may_have(&blocks, at(0x1000)));
	cr_expect_not(free_at(0x1000), "twice");
	cr_expect_not(free_at(0x3000), "of another");
	cr_expect_not(free_at(0), "none");
	for (uint64_t i = 1; i <= 4; i++)
		cr_expect_not(free_at(-i), "of nobody");
	cr_expect_eq(told[number], 1);
	cr_expect_eq(used(), 1);
}

/* A failed realloc leaves the block in place. */
Test(alloc_blocks, has_a_block_that_was_given_back)
{
	uint64_t number = put_at(0x1000);
	struct sp_block *b = sp_blocks_take(&blocks, at(0x1000));

	cr_assert_not_null(b);
	cr_expect_null(sp_blocks_take(&blocks, at(0x1000)));
	sp_blocks_give_back(&blocks, b, at(0x1000));
	cr_expect_eq(told[number], 0);
	cr_expect(free_at(0x1000));
	cr_expect_eq(told[number], 1);
	cr_expect_eq(used(), 0);
}

Test(alloc_blocks, refuses_what_has_no_place)
{
	unsigned in = 0;

	for (uint64_t i = 1; i <= 4 * SP_BLOCKS; i++)
		in += put_at(i * 64) != 0;
	cr_expect_leq(in, SP_BLOCKS);
	cr_expect_geq(in, SP_BLOCKS / 4 * 3);
	cr_expect_eq(used(), in);
	for (uint64_t i = 1; i <= 4 * SP_BLOCKS; i++)
		in -= free_at(i * 64);
	cr_expect_eq(in, 0);
	cr_expect_eq(used(), 0);
}

/* While its sample is taken, the block is not found; if the sample is lost, the block never was in the table. */
Test(alloc_blocks, is_not_there_without_a_sample)
{
	struct sp_block *b = sp_blocks_hold(&blocks, at(0x1000));

	cr_assert_not_null(b);
	cr_expect_not(sp_blocks_may_have(&blocks, at(0x1000)));
	cr_expect_eq(used(), 1, "room is kept for its end");
	sp_blocks_free(&blocks, b);
	cr_expect_not(free_at(0x1000));
	cr_expect_eq(used(), 0);
	cr_expect_eq(put_at(0x1000), 2);
}

#define OWN 64U
#define ROUNDS 1000U

/* Each thread has its own addresses, as an allocator gives them out. */
static void *churn(void *arg)
{
	uint64_t state = (uintptr_t)arg, number[OWN] = {0};

	for (unsigned i = 0; i < ROUNDS * 16; i++) {
		unsigned n = (unsigned)(sp_random_next(&state) % OWN);
		uint64_t address = ((uintptr_t)arg * OWN + n) * 48;

		if (number[n] == 0)
			number[n] = put_at(address);
		else if (!free_at(address) || told[number[n]] != 1)
			return (void *)1;
		else
			number[n] = 0;
	}
	for (unsigned n = 0; n < OWN; n++)
		if (number[n] != 0 && !free_at(((uintptr_t)arg * OWN + n) * 48))
			return (void *)1;
	return NULL;
}

Test(alloc_blocks, keeps_threads_apart)
{
	pthread_t thread[4];
	void *failed;

	for (uintptr_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(pthread_join(thread[i], &failed), 0);
		cr_expect_null(failed);
	}
	cr_expect_eq(used(), 0);
	for (uint64_t i = 1; i <= blocks.numbers; i++)
		cr_expect_eq(told[i], 1);
}
