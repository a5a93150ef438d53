/* SPDX-License-Identifier: Apache-2.0 */
/* The number of timers that the kernel's limit leaves us. */
#include "sampler/thread/thread.h"

#include <criterion/criterion.h>
#include <stdio.h>

static uint64_t of(const char *queue, uint32_t ours)
{
	char line[64];
	uint64_t timers = 4711;

	(void)snprintf(line, sizeof(line), "SigQ:\t%s", queue);
	cr_assert(sp_timer_limit_of(line, ours, &timers), "%s", queue);
	return timers;
}

Test(thread_timer_limit, is_half_of_the_limit, .timeout = 20)
{
	cr_expect_eq(of("0/100", 0), 50);
	cr_expect_eq(of("0/1", 0), 0);
	cr_expect_eq(of("0/0", 0), 0);
	cr_expect_eq(of("0/18446744073709551615", 0), UINT64_MAX / 2);
}

Test(thread_timer_limit, is_less_by_what_others_use, .timeout = 20)
{
	cr_expect_eq(of("20/100", 0), 30);
	cr_expect_eq(of("20/100", 20), 50, "all of them ours");
	cr_expect_eq(of("20/100", 25), 50, "some have just gone");
	cr_expect_eq(of("49/100", 0), 1);
	cr_expect_eq(of("50/100", 0), 0);
	cr_expect_eq(of("100/100", 7), 0);
	cr_expect_eq(of("4294967295/100", 0), 50, "less than none");
}

Test(thread_timer_limit, is_not_guessed_at, .timeout = 20)
{
	static const char *const strange[] = {
		"", "xSigQ:\t1/2", "SigQ:\t1", "SigQ:\tx/2", "SigQ:\t1/", "SigQ:", "Sig",
	};
	uint64_t timers = 4711;

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
		cr_expect_not(sp_timer_limit_of(strange[i], 0, &timers), "%s", strange[i]);
	cr_expect_eq(timers, 4711);
}
