/* SPDX-License-Identifier: Apache-2.0 */
#include "export/util/containers.h"

#include <criterion/criterion.h>

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
