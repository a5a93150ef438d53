/* SPDX-License-Identifier: Apache-2.0 */
/* How uploads of many processes are spread. */
#include <criterion/criterion.h>

#include "export/util/clock.h"

#define PROCESSES 1000U
#define INTERVAL UINT64_C(15000000001)

Test(clock, first_uploads_are_spread_over_half_an_interval, .timeout = 20)
{
	unsigned in_tenth[10] = {0};

	/* Processes that one script starts have consecutive seeds. */
	for (uint64_t seed = 1; seed <= PROCESSES; seed++) {
		uint64_t wait = sp_clock_first_wait(INTERVAL, seed);

		cr_assert_geq(wait, INTERVAL / 2);
		cr_assert_leq(wait, INTERVAL);
		in_tenth[(wait - INTERVAL / 2) * 10 / (INTERVAL - INTERVAL / 2 + 1)]++;
	}
	/* The numbers are the same in each run, so the result does not depend on chance. */
	for (unsigned i = 0; i < 10; i++) {
		cr_expect_geq(in_tenth[i], PROCESSES / 10 / 2, "tenth %u: %u", i, in_tenth[i]);
		cr_expect_leq(in_tenth[i], PROCESSES / 10 * 2, "tenth %u: %u", i, in_tenth[i]);
	}
}

Test(clock, the_shortest_intervals_are_waited_for_as_well, .timeout = 20)
{
	for (uint64_t seed = 0; seed < 100; seed++) {
		cr_expect_eq(sp_clock_first_wait(0, seed), 0);
		cr_expect_leq(sp_clock_first_wait(1, seed), 1);
	}
}
