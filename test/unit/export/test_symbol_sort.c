/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols by address, and what has the same address as it was. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "export/symbols/symbol_sort.h"

#define N 5000U

static struct sp_symbol_entry entry[N];

/* Numbers that look random and are the same each time. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
	x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
	return x ^ x >> 33;
}

static void fill(unsigned n, uint64_t mask)
{
	for (unsigned i = 0; i < n; i++)
		entry[i] = (struct sp_symbol_entry){mix(i) & mask, ~i, i};
}

static void expect_order(unsigned n)
{
	bool seen[N] = {false};

	for (unsigned i = 0; i < n; i++) {
		const struct sp_symbol_entry *e = &entry[i];

		cr_assert_lt(e->name, n);
		cr_assert_not(seen[e->name], "twice");
		seen[e->name] = true;
		cr_assert_eq(e->size, ~e->name);
		if (i == 0)
			continue;
		cr_assert(entry[i - 1].start < e->start ||
				  (entry[i - 1].start == e->start && entry[i - 1].name < e->name),
			  "%u", i);
	}
}

Test(symbol_sort, orders_addresses_that_differ_in_any_byte, .timeout = 20)
{
	static const uint64_t mask[] = {0, 0xff, 0xffff, 0xffffff, 0xff00ff00, UINT64_MAX};

	for (unsigned i = 0; i < sizeof(mask) / sizeof(mask[0]); i++) {
		fill(N, mask[i]);
		sp_symbol_sort(entry, N);
		expect_order(N);
	}
}

Test(symbol_sort, takes_none_one_and_two, .timeout = 20)
{
	for (unsigned n = 0; n <= 2; n++) {
		fill(n, UINT64_MAX);
		sp_symbol_sort(entry, n);
		expect_order(n);
	}
}

/* A table that was sorted before and has got more symbols behind. */
Test(symbol_sort, keeps_old_ones_before_new_ones, .timeout = 20)
{
	fill(N, 0xfff);
	sp_symbol_sort(entry, N / 2);
	sp_symbol_sort(entry, N);
	expect_order(N);
}
