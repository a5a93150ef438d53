/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow, search in sorted ones, hash tables, tables of texts. */
#include "export/util/containers.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t *array;
static size_t cap;

static void free_array(void)
{
	free(array);
}

TestSuite(grow, .fini = free_array, .timeout = 20);

Test(grow, keeps_what_was_there)
{
	for (uint64_t i = 0; i < 100000; i++) {
		cr_assert(SP_GROW(array, cap, i + 1, SIZE_MAX));
		cr_assert_gt(cap, i);
		array[i] = i;
	}

	for (uint64_t i = 0; i < 100000; i++)
		cr_assert_eq(array[i], i);
}

Test(grow, moves_seldom)
{
	unsigned changes = 0;

	for (size_t i = 0; i < 1000000; i++) {
		size_t before = cap;

		cr_assert(SP_GROW(array, cap, i + 1, SIZE_MAX));
		changes += cap != before;
	}

	cr_expect_leq(changes, 20);
}

Test(grow, makes_room_for_many_at_once)
{
	cr_expect(SP_GROW(array, cap, 12345, SIZE_MAX));

	cr_assert_geq(cap, 12345);
	array[12344] = 1;
}

Test(grow, never_has_more_than_the_most)
{
	cr_expect(SP_GROW(array, cap, 1, 3));
	cr_expect_eq(cap, 3);
	cr_expect_not(SP_GROW(array, cap, 4, 3));
	cr_expect_eq(cap, 3);

	cr_expect(SP_GROW(array, cap, 4, 5000));
	cr_expect(SP_GROW(array, cap, 5000, 5000));
	cr_expect_eq(cap, 5000);
}

Test(grow, changes_nothing_where_there_is_no_memory)
{
	uint64_t *before;

	cr_assert(SP_GROW(array, cap, 1, SIZE_MAX));
	before = array;
	array[0] = 7;

	cr_expect_not(SP_GROW(array, cap, SIZE_MAX, SIZE_MAX),
		      "the bytes are more than can be said");
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer ends the program where malloc would fail */
	cr_expect_not(SP_GROW(array, cap, SIZE_MAX / 2 / sizeof(*array) - 1, SIZE_MAX));
#endif

	cr_expect_eq(array, before);
	cr_expect_eq(array[0], 7);
}

static const struct {
	char before;
	uint64_t at;
} item[] = {{0, 10}, {0, 20}, {0, 20}, {0, UINT64_MAX}};

static size_t upto(size_t n, uint64_t value)
{
	return SP_SORTED_UPTO(item, n, at, value);
}

Test(sorted, counts_what_begins_at_or_before)
{
	cr_expect_eq(upto(4, 0), 0);
	cr_expect_eq(upto(4, 9), 0);
	cr_expect_eq(upto(4, 10), 1);
	cr_expect_eq(upto(4, 19), 1);
	cr_expect_eq(upto(4, 20), 3, "all that are equal");
	cr_expect_eq(upto(4, UINT64_MAX - 1), 3);
	cr_expect_eq(upto(4, UINT64_MAX), 4);
	cr_expect_eq(upto(1, 10), 1);
}

Test(sorted, of_nothing_is_nothing)
{
	cr_expect_eq(sp_sorted_upto(NULL, 0, 8, 0, 1), 0);
}

/* The table grows five times. Items with neighbouring hashes displace each other, so the work is quadratic. */
#define ITEMS 4000U
#define ABSENT UINT32_MAX

static struct sp_hash_index x;
static uint32_t key[ITEMS];

static void free_index(void)
{
	sp_hash_index_fini(&x);
}

TestSuite(hash_index, .fini = free_index, .timeout = 20);

/* Three keys share one hash, and neighbouring keys have neighbouring hashes. */
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

/* A writer to the shared region may choose the values that we hash. */
Test(hash_index, refuses_items_while_thousands_have_one_hash)
{
	uint32_t in = 0;

	for (uint32_t i = 0; i < 20000; i++)
		in += sp_hash_index_put(&x, 7, in);

	cr_expect_geq(in, 4000);
	cr_expect_leq(in, 5000);
	cr_expect(sp_hash_index_put(&x, 1U << 31 | 1U << 14, in));
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

/* Addresses of functions are multiples of 16, serials are small: no part of a hash may always be the same. */
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

static uint32_t intern(struct sp_strtab *t, const char *s)
{
	uint32_t id = UINT32_MAX;

	cr_assert_eq(sp_strtab_put(t, s, strlen(s), &id), 0);
	return id;
}

Test(strtab, starts_with_the_empty_string, .timeout = 20)
{
	struct sp_strtab t;
	size_t len = 99;

	cr_assert_eq(sp_strtab_init(&t), 0);

	cr_expect_eq(t.n, 1);
	cr_expect_str_eq(sp_strtab_get(&t, 0, &len), "");
	cr_expect_eq(len, 0);
	cr_expect_eq(intern(&t, ""), 0);
	sp_strtab_fini(&t);
}

Test(strtab, gives_equal_texts_equal_ids_while_it_grows, .timeout = 20)
{
	struct sp_strtab t;
	char text[32];
	size_t len;

	cr_assert_eq(sp_strtab_init(&t), 0);
	for (uint32_t i = 1; i <= 5000; i++) {
		(void)snprintf(text, sizeof(text), "function_%u", i);
		cr_assert_eq(intern(&t, text), i);
	}

	for (uint32_t i = 1; i <= 5000; i++) {
		(void)snprintf(text, sizeof(text), "function_%u", i);
		cr_assert_eq(intern(&t, text), i);
		cr_assert_str_eq(sp_strtab_get(&t, i, &len), text);
		cr_assert_eq(len, strlen(text));
	}
	cr_expect_eq(t.n, 5001);
	sp_strtab_fini(&t);
}

Test(strtab, cut_forgets_the_newest, .timeout = 20)
{
	struct sp_strtab t;
	size_t len;

	cr_assert_eq(sp_strtab_init(&t), 0);
	intern(&t, "kept");
	intern(&t, "forgotten");

	sp_strtab_cut(&t, 2);

	cr_expect_eq(t.n, 2);
	cr_expect_eq(t.used, strlen("kept") + 2);
	cr_expect_str_eq(sp_strtab_get(&t, 1, &len), "kept");
	sp_strtab_fini(&t);
}
