/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/base/counters.c. */
#include "sampler/base/counters.h"

#include <criterion/criterion.h>

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

#define COUNTER_NAME(id, name, kind) (name),

Test(counters, have_names_of_their_own, .timeout = 20)
{
	static const char *const name[] = {SP_FOR_EACH_COUNTER(COUNTER_NAME)};

	for (unsigned a = 0; a < SP_COUNTER_N; a++) {
		cr_expect_str_not_empty(name[a]);
		for (unsigned b = 0; b < a; b++)
			cr_expect_str_neq(name[a], name[b]);
	}
}
