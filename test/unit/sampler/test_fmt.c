/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sp_fmt_snprintf(): libc's snprintf is the oracle for the formats that both have. */
#include "sampler/base/text.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SAME(...)                                                                                  \
	do {                                                                                       \
		char want[256];                                                                    \
		char got[256];                                                                     \
		int n = snprintf(want, sizeof(want), __VA_ARGS__);                                 \
		cr_expect_eq(sp_fmt_snprintf(got, sizeof(got), __VA_ARGS__), (size_t)n);           \
		cr_expect_str_eq(got, want);                                                       \
	} while (0)

Test(fmt, prints_numbers_as_libc_does, .timeout = 20)
{
	SAME("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
	SAME("%u %u %%", UINT_MAX, 0U);
	SAME("%ld %lld %lu %llu", LONG_MIN, LLONG_MAX, ULONG_MAX, ULLONG_MAX);
	SAME("%zu %zd", SIZE_MAX, (ssize_t)-5);
	SAME("%" PRIu64 " %" PRId64, UINT64_MAX, INT64_MIN);
}

Test(fmt, prints_texts_as_libc_does, .timeout = 20)
{
	SAME("[%s][%s][%.*s][%.*s][%.*s]", "abc", "", 1, "abc", 8, "abc", -1, "abc");
}

Test(fmt, reads_no_further_than_the_precision, .timeout = 20)
{
	const char unterminated[4] = {'a', 'b', 'c', 'd'};
	char got[16];

	cr_assert_eq(sp_fmt_snprintf(got, sizeof(got), "%.*s", 4, unterminated), 4);

	cr_assert_str_eq(got, "abcd");
}

Test(fmt, cuts_at_the_end_of_the_buffer, .timeout = 20)
{
	char got[8];

	memset(got, '#', sizeof(got));
	cr_expect_eq(sp_fmt_snprintf(got, 5, "%s", "abcdefgh"), 4);
	cr_expect_str_eq(got, "abcd");
	cr_expect_eq(got[5], '#', "wrote behind the buffer");
	cr_expect_eq(sp_fmt_snprintf(got, 1, "%d", 5), 0);
	cr_expect_eq(got[0], '\0');
	got[0] = '#';
	cr_expect_eq(sp_fmt_snprintf(got, 0, "%d", 5), 0);
	cr_expect_eq(got[0], '#', "wrote into no buffer");
}

Test(fmt, prints_a_null_string, .timeout = 20)
{
	const char *volatile none = NULL;
	char got[16];

	sp_fmt_snprintf(got, sizeof(got), "<%s>", none);

	cr_assert_str_eq(got, "<(null)>");
}

Test(fmt, stops_at_a_conversion_it_does_not_know, .timeout = 20)
{
	char got[32];

	sp_fmt_snprintf(got, sizeof(got), "a %f b %d", 1.5, 2);

	cr_assert_str_eq(got, "a %?");
	/* A width is not supported. */
	sp_fmt_snprintf(got, sizeof(got), "%5d", 1);
	cr_expect_str_eq(got, "%?");
}
