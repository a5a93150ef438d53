/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that never end. */
#include "sampler/span/span.h"

#include <criterion/criterion.h>
#include <time.h>

#include "sampler/base/counters.h"
#include "test/unit/core/span_host.h"

#define SECOND SP_NS_PER_S

static void sweep(uint64_t second)
{
	while (!sp_span_age_sweep(second * SECOND, 10 * SECOND))
		continue;
}

static void expect_counts(uint64_t started, uint64_t ended, uint64_t aged)
{
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), started);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), ended);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_AGED), aged);
	cr_expect_eq(sp_span_table_count(), started - ended - aged);
}

TestSuite(span_age, .init = set_up, .timeout = 20);

TestSuite(span_age_before_init, .timeout = 20);

Test(span_age_before_init, has_nothing_to_sweep)
{
	struct sp_span_record r = {.span_id = 1};

	sweep(1);
	cr_assert_not(sp_span_age_make_room(&r, 1));
}

static uint64_t start_ns_of(uint64_t id)
{
	struct sp_span_record r = {.start_ns = 0};

	cr_assert(sp_span_table_by_id(id, &r));
	return r.start_ns;
}

Test(span_age, a_start_is_as_late_as_the_last_tick)
{
	uint64_t before = sp_span_age_clock_ns();

	sp_span_age_tick(false);
	begin(1);
	uint64_t ticked = start_ns_of(1);
	struct timespec pause = {.tv_nsec = 20 * 1000000};

	(void)nanosleep(&pause, NULL);
	begin(2);
	sp_span_age_tick(true);
	begin(3);

	cr_expect_geq(ticked, before);
	cr_expect_eq(start_ns_of(2), ticked);
	cr_expect_gt(start_ns_of(3), ticked, "each span asks the clock");
}

Test(span_age, without_a_tick_a_start_asks_the_clock)
{
	uint64_t before = sp_span_age_clock_ns();

	begin(1);

	cr_expect_geq(start_ns_of(1), before);
}

static void *sweep_twice(void *arg)
{
	(void)arg;
	sp_thread_excluded = true; /* like a thread that has ended for the profiler */
	sweep(100);
	sweep(110);
	return NULL;
}

Test(span_age, is_swept_from_a_thread_of_its_own)
{
	begin(1);
	begin(2);

	run(sweep_twice);

	cr_assert_eq(active(), 0);
	begin(3);
	cr_assert_eq(atomic_load(&sp_thread_own->spans.depth), 1, "the frames are gone too");
	expect_counts(3, 0, 2);
}

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static uint64_t fill(uint64_t age_ns)
{
	uint64_t n = 0;
	int err = 0;

	while (err == 0) {
		struct sp_span_record r = {.span_id = (n + 1000) * UINT64_C(0x9e3779b97f4a7c15),
					   .handle = 1 + n,
					   .start_ns = wall_ns() - age_ns,
					   .thread = SP_SPAN_NO_THREAD};

		err = sp_span_table_add(&r);
		n += err == 0;
	}
	return n;
}

Test(span_age, of_a_full_table_makes_room_for_new_ones)
{
	uint64_t held = fill(SP_SPAN_AGE_CROWDED_NS + SECOND);

	cr_assert_eq(held, SP_SPANS_MAX);
	cr_assert(begin(1));

	cr_assert_eq(active(), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_AGED), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_TABLE_FULL), 0);
	cr_assert_eq(sp_span_table_count(), SP_SPANS_MAX);
}

/* An object with the same hash in the index as others, as in test_span_table.c. */
static const void *object_hashing_alike(uint64_t n)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t inverse = factor;
	uint64_t key;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	do
		key = (UINT64_C(9) << 40 | (n += UINT64_C(1) << 16)) * inverse;
	while ((key & SP_SPAN_BY_ID) != 0);
	return (const void *)(uintptr_t)key;
}

Test(span_age, of_a_table_without_a_place_for_an_object_makes_room_for_it)
{
	struct sp_span_start s = start_of(1);

	for (uint64_t n = 0; n < SP_SPAN_WINDOW; n++) {
		struct sp_span_record r = {.span_id = (n + 1000) * UINT64_C(0x9e3779b97f4a7c15),
					   .handle = (uintptr_t)object_hashing_alike(n),
					   .start_ns = wall_ns() - 2 * SP_SPAN_AGE_CROWDED_NS,
					   .thread = SP_SPAN_NO_THREAD};

		cr_assert_eq(sp_span_table_add(&r), 0);
	}
	s.handle = object_hashing_alike(SP_SPAN_WINDOW);

	cr_assert(sp_span_started(&s));
	cr_assert_eq(active(), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_TABLE_FULL), 0);
}

Test(span_age, of_a_full_table_spares_what_is_young)
{
	(void)fill(SP_SPAN_AGE_CROWDED_NS - 20 * SECOND);

	cr_assert_not(begin(1));

	cr_assert_eq(sp_count_read(SP_COUNT_SPANS_AGED), 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_TABLE_FULL), 1);
}
