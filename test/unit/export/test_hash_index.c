/* SPDX-License-Identifier: Apache-2.0 */
/* Finding items of an array by hash. */
#include "export/util/containers.h"

#include <criterion/criterion.h>

/* It grows five times. Items of neighbouring hashes push each other on, so the work is quadratic. */
#define ITEMS 4000U
#define ABSENT UINT32_MAX

static struct sp_hash_index x;
static uint32_t key[ITEMS];

static void end(void)
{
	sp_hash_index_fini(&x);
}

TestSuite(hash_index, .fini = end, .timeout = 20);

/* One hash for three keys, and neighbours have neighbouring ones. */
static uint32_t hash(uint32_t k)
{
	return k / 3;
}

static uint32_t find(uint32_t k)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&x, hash(k), &step, &i);)
		if (key[i] == k)
			return i;
	return ABSENT;
}

static void put(uint32_t i, uint32_t k)
{
	key[i] = k;
	cr_assert(sp_hash_index_put(&x, hash(k), i));
}

Test(hash_index, holds_nothing_at_first)
{
	cr_expect_eq(find(0), ABSENT);
	cr_expect_eq(sp_hash_index_bytes(&x), 0);
	sp_hash_index_clear(&x);
	cr_expect_eq(find(0), ABSENT);
}

Test(hash_index, finds_every_item_and_no_other_while_it_grows)
{
	for (uint32_t i = 0; i < ITEMS; i++) {
		put(i, 2 * i);
		cr_assert_eq(find(2 * i), i);
		cr_assert_eq(find(2 * i + 1), ABSENT);
	}

	for (uint32_t i = 0; i < ITEMS; i++) {
		cr_assert_eq(find(2 * i), i);
		cr_assert_eq(find(2 * i + 1), ABSENT);
	}
}

Test(hash_index, gives_all_items_of_one_hash_once)
{
	unsigned times[100] = {0};
	uint32_t i;

	for (i = 0; i < 100; i++)
		cr_assert(sp_hash_index_put(&x, UINT32_MAX, i));
	for (uint32_t step = 0; sp_hash_index_next(&x, UINT32_MAX, &step, &i);)
		times[i]++;

	for (i = 0; i < 100; i++)
		cr_expect_eq(times[i], 1);
}

Test(hash_index, forgets_all_items_and_keeps_its_memory)
{
	size_t bytes;

	for (uint32_t i = 0; i < 1000; i++)
		put(i, i);
	bytes = sp_hash_index_bytes(&x);

	sp_hash_index_clear(&x);

	cr_expect_eq(find(7), ABSENT);
	cr_expect_eq(sp_hash_index_bytes(&x), bytes);
	for (uint32_t i = 0; i < 1000; i++)
		put(i, i + 5);
	cr_expect_eq(find(7), 2);
	cr_expect_eq(sp_hash_index_bytes(&x), bytes, "the same number fits without growing");
}

Test(hash_index, takes_no_number_that_it_could_not_give_back)
{
	cr_expect_not(sp_hash_index_put(&x, 1, UINT32_MAX));
	cr_expect(sp_hash_index_put(&x, 1, UINT32_MAX - 1));
}

/* Addresses of functions are multiples of 16, serials small: neither part of a hash may stay the same. */
Test(hash_index, hashes_of_addresses_differ_in_their_low_bits)
{
	static unsigned used[65536];
	unsigned most = 0;

	for (uint64_t i = 0; i < 65536; i++) {
		uint64_t h = sp_hash_add(sp_hash_add(0, i % 8), 0x7f0000001000 + i / 8 * 16);
		unsigned n = ++used[h & 65535];

		most = n > most ? n : most;
	}

	cr_expect_leq(most, 12, "as by chance, not %u", most);
}
