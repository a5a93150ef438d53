/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's names of threads. */
#include "sampler/thread/thread.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/prctl.h>

/* The calling thread has that name, padded, by both ways to ask. */
static void expect_own(const char *name)
{
	char padded[SP_THREAD_NAME_BYTES] = "";
	char got[SP_THREAD_NAME_BYTES];

	memcpy(padded, name, strlen(name));
	memset(got, 'x', sizeof(got));
	sp_thread_name_own(got);
	cr_expect_arr_eq(got, padded, sizeof(got), "asked: %.16s", got);
}

Test(thread_name, is_what_was_set_last, .timeout = 20)
{
	cr_assert_eq(prctl(PR_SET_NAME, "first"), 0);
	expect_own("first");
	cr_assert_eq(prctl(PR_SET_NAME, "a"), 0);
	expect_own("a");
}

Test(thread_name, may_have_fifteen_bytes_of_any_kind, .timeout = 20)
{
	cr_assert_eq(prctl(PR_SET_NAME, "fifteen-bytes-x and more"), 0);
	expect_own("fifteen-bytes-x");
	cr_assert_eq(prctl(PR_SET_NAME, "\xff\x80 \n) S 1\n\n"), 0);
	expect_own("\xff\x80 \n) S 1\n\n");
	cr_assert_eq(prctl(PR_SET_NAME, ""), 0);
	expect_own("");
}
