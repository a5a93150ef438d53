/* SPDX-License-Identifier: Apache-2.0 */
/* How often the background thread looks after the process. */
#include "preload/upkeep.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>

#include "sampler/monotonic.h"

static const struct sp_config config = {.max_span_age_ms = 3600000};

/* From one look to the next. */
static uint64_t pause_ns(void)
{
	uint64_t due = sp_upkeep_due_ns();
	uint64_t before;

	do {
		before = sp_monotonic_ns();
		(void)sp_upkeep_run(&config);
		(void)sched_yield();
	} while (sp_upkeep_due_ns() == due);
	return sp_upkeep_due_ns() - before;
}

TestSuite(upkeep, .timeout = 20);

Test(upkeep, looks_about_once_a_second)
{
	cr_expect_geq(pause_ns(), SP_NS_PER_S);
}

/* Both hold for the time between two looks alone, however long the machine takes for them. */
Test(upkeep, looks_often_once_the_initial_thread_has_ended_and_not_in_children)
{
	uint64_t often = UINT64_MAX;

	sp_upkeep_main_ended();
	for (int i = 0; i < 50 && often >= SP_NS_PER_S; i++)
		often = pause_ns();
	cr_expect_lt(often, SP_NS_PER_S);

	sp_upkeep_forked();
	cr_expect_geq(pause_ns(), SP_NS_PER_S);
}
