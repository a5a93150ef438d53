/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/counters.c. */
#include "sampler/counters.h"

#include <criterion/criterion.h>
#include <string.h>

Test(counters, add_up_and_go_back_to_zero, .timeout = 20)
{
	sp_count(SP_COUNT_SIGNALS);
	sp_count_add(SP_COUNT_SIGNALS, 41);
	sp_count(SP_COUNT_EXPORT_NOMEM);
	cr_expect_eq(sp_count_read(SP_COUNT_SIGNALS), 42);
	cr_expect_eq(sp_count_read(SP_COUNT_UPLOADS), 0);

	sp_counters_reset();

	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		cr_expect_eq(sp_count_read((enum sp_counter)c), 0);
}

Test(counters, have_names_of_their_own, .timeout = 20)
{
	for (unsigned a = 0; a < SP_COUNTER_N; a++) {
		cr_expect_gt(strlen(sp_counter_name((enum sp_counter)a)), 0);
		for (unsigned b = 0; b < a; b++)
			cr_expect_str_neq(sp_counter_name((enum sp_counter)a),
					  sp_counter_name((enum sp_counter)b));
	}
	cr_expect_str_eq(sp_counter_name(SP_COUNT_DROP_RING_FULL), "dropped_ring_full");
	cr_expect_str_eq(sp_counter_name((enum sp_counter)SP_COUNTER_N), "");
}

Test(counters, tell_losses_from_totals, .timeout = 20)
{
	cr_expect_eq(sp_counter_is_loss(SP_COUNT_DROP_RING_FULL), 1);
	cr_expect_eq(sp_counter_is_loss(SP_COUNT_SAMPLES_PUT), 0);
	cr_expect_eq(sp_counter_is_loss((enum sp_counter)SP_COUNTER_N), 0);
}
