/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms and thresholds of local roots, as the host has them. */
#include "sampler/region/root_durations.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/region/names.h"

static struct sp_root_durations *part;

static void start(void)
{
	part = calloc(1, sizeof(*part));
	cr_assert_eq(sp_names_init(2000), 0);
	cr_assert_eq(sp_root_durations_init(), 0);
	sp_root_durations_use(part, sizeof(*part));
}

static void end(void)
{
	sp_root_durations_use(NULL, 0);
	free(part);
}

TestSuite(root_durations, .init = start, .fini = end, .timeout = 30);

static uint32_t name(const char *text)
{
	return sp_names_intern(text, strlen(text));
}

static uint64_t roots_of(const struct sp_root_durations *d, uint32_t place)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++)
		sum += d->histogram[place].count[i];
	return sum;
}

Test(duration, is_in_the_bucket_that_begins_before_it_and_ends_behind_it)
{
	for (uint32_t bit = 0; bit < SP_DURATION_BITS; bit++) {
		for (uint64_t more = 0; more < 64; more++) {
			uint64_t ns = (UINT64_C(1) << bit) + (more << bit) / 64;
			uint32_t bucket = sp_duration_bucket(ns);

			cr_assert_lt(bucket, SP_DURATION_BUCKETS);
			cr_assert_leq(sp_duration_begin(bucket), ns, "%lu", ns);
			cr_assert_gt(sp_duration_begin(bucket + 1), ns, "%lu", ns);
		}
	}
}

Test(duration, has_buckets_in_order_that_are_at_most_a_sixteenth_wide)
{
	cr_expect_eq(sp_duration_begin(0), 0);
	for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++) {
		uint64_t begin = sp_duration_begin(i);
		uint64_t width = sp_duration_begin(i + 1) - begin;

		cr_assert_gt(sp_duration_begin(i + 1), begin);
		cr_assert_eq(sp_duration_bucket(begin), i);
		cr_assert_eq(sp_duration_bucket(begin + width - 1), i);
		cr_assert(width == 64 || width * 16 <= begin, "%lu of %lu", width, begin);
	}
	cr_expect_eq(sp_duration_begin(SP_DURATION_BUCKETS), UINT64_C(1) << SP_DURATION_BITS);
}

Test(duration, of_days_is_in_the_last_bucket)
{
	cr_expect_eq(sp_duration_bucket(UINT64_C(1) << SP_DURATION_BITS), SP_DURATION_BUCKETS - 1);
	cr_expect_eq(sp_duration_bucket(UINT64_MAX), SP_DURATION_BUCKETS - 1);
	cr_expect_eq(sp_duration_bucket((UINT64_C(1) << SP_DURATION_BITS) - 1),
		     SP_DURATION_BUCKETS - 1);
}

Test(root_durations, are_counted_by_name_and_told_by_the_names_threshold)
{
	uint32_t first = 99;
	uint32_t second = 99;

	cr_expect(sp_root_durations_add(name("a"), 1000, &first), "no threshold yet");
	cr_expect(sp_root_durations_add(name("b"), 5000, &second));
	cr_assert_neq(first, second);
	cr_assert_lt(first, SP_ROOT_NAMES);
	cr_assert_lt(second, SP_ROOT_NAMES);
	cr_expect_eq(part->name[first].name_id, name("a"));
	cr_expect_eq(part->name[second].name_id, name("b"));
	part->name[first].threshold_ns = 2000;

	cr_expect_not(sp_root_durations_add(name("a"), 1999, &first));
	cr_expect(sp_root_durations_add(name("a"), 2000, &first));
	cr_expect(sp_root_durations_add(name("b"), 1, &second), "it has its own");
	cr_expect_eq(roots_of(part, first), 3);
	cr_expect_eq(roots_of(part, second), 2);
	cr_expect_eq(part->histogram[first].count[sp_duration_bucket(1000)], 1);
	cr_expect_eq(part->histogram[second].count[0], 1);
}

Test(root_durations, of_a_name_that_is_none_are_nowhere)
{
	uint32_t place = 77;

	cr_expect_not(sp_root_durations_add(0, 1000, &place));
	cr_expect_not(sp_root_durations_add(UINT32_MAX, 1000, &place));
	cr_expect_eq(place, 77);
	for (uint32_t i = 0; i < SP_ROOT_PLACES; i++)
		cr_assert_eq(roots_of(part, i), 0);
}

/* One name more than there are places, and some that share the last one. */
Test(root_durations, of_names_beyond_the_last_place_are_together)
{
	char text[32];
	uint32_t place;

	for (unsigned i = 0; i < SP_ROOT_NAMES; i++) {
		(void)snprintf(text, sizeof(text), "name %u", i);
		cr_assert(sp_root_durations_add(name(text), 1000, &place));
		cr_assert_eq(place, i);
	}
	for (unsigned i = 0; i < 10; i++) {
		(void)snprintf(text, sizeof(text), "more %u", i);
		(void)sp_root_durations_add(name(text), 1000, &place);
		cr_assert_eq(place, SP_ROOT_NAMES);
	}
	(void)sp_root_durations_add(name("more 3"), 1000, &place);

	cr_expect_eq(place, SP_ROOT_NAMES);
	cr_expect_eq(roots_of(part, SP_ROOT_NAMES), 11);
	cr_expect_eq(roots_of(part, SP_ROOT_NAMES - 1), 1);
	cr_expect_neq(part->name[SP_ROOT_NAMES].name_id, 0);
}

Test(root_durations, without_a_part_are_not_slow)
{
	uint32_t place = 77;

	sp_root_durations_use(part, sizeof(*part) - 1);
	cr_expect_not(sp_root_durations_add(name("a"), 1000, &place));
	sp_root_durations_use(NULL, 0);
	cr_expect_not(sp_root_durations_add(name("a"), 1000, &place));
	cr_expect_eq(place, 77);
}

/* After the exporter was replaced, or in a forked child. */
Test(root_durations, in_another_region_begin_anew_at_the_same_places)
{
	struct sp_root_durations *other = calloc(1, sizeof(*other));
	uint32_t place;
	uint32_t again;

	(void)sp_root_durations_add(name("first"), 1000, &place);
	(void)sp_root_durations_add(name("a"), 1000, &place);
	part->name[place].threshold_ns = 2000;
	sp_root_durations_use(other, sizeof(*other));

	cr_expect(sp_root_durations_add(name("a"), 1000, &again));
	cr_expect_eq(again, place);
	cr_expect_eq(other->name[place].name_id, name("a"));
	cr_expect_eq(other->name[0].name_id, 0);
	cr_expect_eq(roots_of(other, place), 1);
	cr_expect_eq(roots_of(part, place), 1);
	sp_root_durations_use(NULL, 0);
	free(other);
}

/* The next exporter goes on where the last one was. */
Test(root_durations, go_along_into_the_next_region)
{
	struct sp_root_durations *other = calloc(1, sizeof(*other));
	uint32_t place;

	(void)sp_root_durations_add(name("first"), 1000, &place);
	for (unsigned i = 0; i < 5; i++)
		(void)sp_root_durations_add(name("a"), 7000000, &place);
	(void)sp_root_durations_add(name("a"), 70, &place);
	part->name[place].threshold_ns = 2000;
	part->name[place].slow = SP_ROOT_MOVED;

	sp_root_durations_copy(part, other);
	cr_expect_eq(memcmp(part, other, sizeof(*part)), 0);
	free(other);
}

static uint64_t random_of(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

/*
 * No exporter comes: of a million roots few are told, and each of the slowest is, but for those that lasted as long within
 * the width of a bucket.
 */
Test(root_durations, raise_a_threshold_that_nobody_moves)
{
	uint64_t state = 1;
	uint64_t slowest[64] = {0};
	uint32_t told = 0;
	uint32_t place;

	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t ns = 1000000 + random_of(&state) % 10000000;
		bool is_told = sp_root_durations_add(name("a"), ns, &place);
		unsigned least = 0;

		told += is_told;
		for (unsigned k = 1; k < 64; k++)
			if (slowest[k] < slowest[least])
				least = k;
		if (ns <= slowest[least])
			continue;
		cr_assert(is_told || ns * 16 <= slowest[least] * 17,
			  "root %u of %lu ns is among the slowest 64 so far", i, ns);
		slowest[least] = ns;
	}
	cr_expect_lt(told, 2000, "%u", told);
	cr_expect_geq(part->name[place].threshold_ns, 10000000);
}

/* It does so after an interval without roots. */
Test(root_durations, raise_a_threshold_that_the_exporter_has_put_to_nothing)
{
	uint32_t place;

	(void)sp_root_durations_add(name("a"), 5000, &place);
	part->name[place].slow = SP_ROOT_SEEN;
	for (unsigned i = 0; i < 63; i++)
		cr_assert(sp_root_durations_add(name("a"), 5000 + i, &place));
	cr_expect_eq(part->name[place].threshold_ns, 0);
	cr_assert(sp_root_durations_add(name("a"), 5000, &place));
	cr_expect_eq(part->name[place].threshold_ns, sp_duration_begin(sp_duration_bucket(5000)));
	cr_expect_gt(part->name[place].slow, SP_ROOT_SEEN);
}

/* As the roots of a loop do. */
Test(root_durations, raise_a_threshold_beyond_roots_that_last_alike)
{
	uint32_t told = 0;
	uint32_t place;

	for (unsigned i = 0; i < 100000; i++)
		told += sp_root_durations_add(name("a"), 5000, &place);
	cr_expect_eq(told, 3 * 64, "%u", told);
	cr_expect(sp_root_durations_add(name("a"), 5400, &place));
}

Test(root_durations, leave_a_threshold_that_the_exporter_has_moved)
{
	uint32_t place;

	(void)sp_root_durations_add(name("a"), 5000, &place);
	part->name[place].threshold_ns = 1;
	part->name[place].slow = SP_ROOT_MOVED;
	for (unsigned i = 0; i < 1000; i++)
		cr_assert(sp_root_durations_add(name("a"), 5000 + i, &place));
	cr_expect_eq(part->name[place].threshold_ns, 1);
}

#define THREADS 4U
#define EACH 20000U
#define SHARED 700U

static void *add_many(void *arg)
{
	char text[32];
	uint32_t place;

	for (unsigned i = 0; i < EACH; i++) {
		(void)snprintf(text, sizeof(text), "shared %u", (i + *(unsigned *)arg) % SHARED);
		(void)sp_root_durations_add(name(text), i, &place);
	}
	return NULL;
}

/* The same new names on all of them at once: each root is counted once, and a name has one place. */
Test(root_durations, of_several_threads_are_all_counted)
{
	pthread_t thread[THREADS];
	unsigned number[THREADS];
	uint64_t all = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		number[i] = i;
		cr_assert_eq(pthread_create(&thread[i], NULL, add_many, &number[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	for (uint32_t i = 0; i < SP_ROOT_PLACES; i++) {
		all += roots_of(part, i);
		for (uint32_t j = 0; j < i && i < SP_ROOT_NAMES; j++)
			cr_assert(part->name[i].name_id == 0 ||
				  part->name[i].name_id != part->name[j].name_id);
	}
	cr_expect_eq(all, THREADS * EACH);
}
