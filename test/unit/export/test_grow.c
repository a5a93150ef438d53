/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#include "export/util/containers.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t *array;
static size_t cap;

static void end(void)
{
	free(array);
}

TestSuite(grow, .fini = end, .timeout = 20);

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
#ifndef __SANITIZE_ADDRESS__ /* which ends the program where malloc would say no */
	cr_expect_not(SP_GROW(array, cap, SIZE_MAX / 2 / sizeof(*array) - 1, SIZE_MAX));
#endif

	cr_expect_eq(array, before);
	cr_expect_eq(array[0], 7);
}
