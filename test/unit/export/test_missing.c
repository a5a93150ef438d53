/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose functions have no names or no lines, and their CPU time: sums of intervals that the test makes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core_double.h"
#include "export/profile/encode.h"
#include "export/profile/missing.h"

#define PLACES_MAX 4096U

static struct sp_interval interval;
static struct sp_named_place place[PLACES_MAX];
static struct sp_named named[2 * PLACES_MAX];
static struct sp_missing missing;
static uint64_t period_ns;

/* Makes a place with two functions: the first has a name, the second has none. */
static void put_place(const char *file, uint8_t id, enum sp_lack lack)
{
	struct sp_named_place *p = &place[interval.place_n];

	*p = (struct sp_named_place){.place = {.lack = lack, .build_id_len = id != 0}};
	p->build_id[0] = id;
	cr_assert_eq(sp_strtab_put(&interval.text, file, strlen(file), &p->file), 0);
	for (unsigned k = 0; k < 2; k++)
		named[interval.named_n++] = (struct sp_named){.place = (uint32_t)interval.place_n,
							      .is_unnamed = k != 0};
	interval.place_n++;
}

static uint64_t function_of(unsigned nth_place, bool is_unnamed)
{
	return 2 * nth_place + is_unnamed;
}

/* Adds samples with that leaf and, if it differs, that caller. */
static void put_samples(uint32_t n, uint64_t leaf, uint64_t caller)
{
	struct sp_sample s = {.weight = n, .depth = leaf != caller ? 2 : 1, .pc = {leaf, caller}};

	(void)sp_stack_map_put(interval.map[SP_MAP_SAMPLES], &s, 0, 0);
}

static void begin(void)
{
	interval = (struct sp_interval){.ops = &core.ops, .place = place, .named = named};
	interval.map[SP_MAP_SAMPLES] = sp_stack_map_new(&sp_stack_limits_default);
	cr_assert_eq(sp_strtab_init(&interval.text), 0);
}

static void end(void)
{
	sp_stack_map_free(interval.map[SP_MAP_SAMPLES]);
	sp_strtab_fini(&interval.text);
}

static void set_up(void)
{
	core_reset();
	period_ns = sp_encode_cpu_ns(&core.config, &(struct sp_stack_entry){.weight = 1});
	cr_assert_neq(period_ns, 0);
	begin();
}

static void tear_down(void)
{
	end();
	sp_missing_fini(&missing);
}

TestSuite(missing, .init = set_up, .fini = tear_down, .timeout = 60);

Test(missing, lists_each_reason_with_its_time)
{
	for (unsigned lack = 0; lack < SP_LACKS; lack++) {
		char file[32];

		(void)snprintf(file, sizeof(file), "/lib/%u.so", lack);
		put_place(file, 0, (enum sp_lack)lack);
		put_samples(SP_LACKS + 1 - lack, function_of(lack, false), 0);
	}
	sp_missing_add(&missing, &interval);

	/* An object that lacks nothing is left out. The object with the most time comes first. */
	cr_assert_eq(missing.n, SP_LACKS - 1);
	for (unsigned lack = 1; lack < SP_LACKS; lack++) {
		const struct sp_missing_object *o = &missing.object[lack - 1];

		cr_expect_eq(o->lack, lack);
		cr_expect_eq(o->ns, (SP_LACKS + 1 - lack) * period_ns);
		cr_expect_eq(o->unnamed_ns, 0);
		cr_expect(!o->has_unnamed);
	}
	cr_expect_eq(missing.ns, (SP_LACKS + 1) * (SP_LACKS + 2) / 2 * period_ns - period_ns);
	cr_expect_eq(missing.changes, 1);
}

Test(missing, counts_time_for_the_innermost_function_alone)
{
	put_place("/lib/leaf.so", 0, SP_LACK_DEBUG_FILE);
	put_place("/lib/caller.so", 0, SP_LACK_DEBUG_INFO);
	put_place("/lib/named.so", 0, SP_LACK_DEBUG_INFO);
	put_samples(5, function_of(0, true), function_of(1, true));
	put_samples(2, function_of(0, false), function_of(2, false));
	sp_missing_add(&missing, &interval);

	/* A caller without a name is listed, a caller that only lacks lines is not. */
	cr_assert_eq(missing.n, 2);
	cr_expect_str_eq(missing.object[0].file, "/lib/leaf.so");
	cr_expect_eq(missing.object[0].ns, 7 * period_ns);
	cr_expect_eq(missing.object[0].unnamed_ns, 5 * period_ns);
	cr_expect(missing.object[0].has_unnamed);
	cr_expect_str_eq(missing.object[1].file, "/lib/caller.so");
	cr_expect_eq(missing.object[1].ns, 0);
	cr_expect(missing.object[1].has_unnamed);
}

Test(missing, passes_over_frames_that_are_not_shown)
{
	put_place("/lib/libspanprof.so", 0, SP_LACK_DEBUG_FILE);
	place[0].place.own = true;
	put_place("/lib/x.so", 0, SP_LACK_DAMAGED);
	put_samples(3, function_of(0, true), function_of(1, false));
	sp_missing_add(&missing, &interval);

	cr_assert_eq(missing.n, 1);
	cr_expect_str_eq(missing.object[0].file, "/lib/x.so");
	cr_expect_eq(missing.object[0].ns, 3 * period_ns);
}

Test(missing, adds_up_over_intervals_and_keeps_the_last_reason)
{
	static const enum sp_lack lacks[] = {SP_LACK_DEBUG_FILE, SP_LACK_FILE, SP_LACK_NOTHING};

	for (unsigned k = 0; k < 3; k++) {
		/* Each interval numbers its places anew. */
		for (unsigned other = 0; other < k; other++)
			put_place("/lib/other.so", 0, SP_LACK_NOTHING);
		put_place("/lib/x.so", 7, lacks[k]);
		put_samples(10, function_of(k, k == 0), 0);
		sp_missing_add(&missing, &interval);
		cr_assert_eq(missing.n, 1);
		cr_expect_eq(missing.object[0].lack, lacks[k]);
		cr_expect_eq(missing.object[0].ns, (k + 1) * 10 * period_ns);
		cr_expect_eq(missing.object[0].unnamed_ns, 10 * period_ns);
		end();
		begin();
	}
}

Test(missing, tells_builds_and_files_apart)
{
	put_place("/lib/x.so", 1, SP_LACK_FILE);
	put_place("/lib/x.so", 2, SP_LACK_FILE);
	put_place("/lib/x.so", 0, SP_LACK_FILE);
	put_place("/lib/y.so", 1, SP_LACK_FILE);
	/* The same object once more, as if it were mapped twice. */
	put_place("/lib/x.so", 1, SP_LACK_FILE);
	for (unsigned k = 0; k < 5; k++)
		put_samples(1, function_of(k, false), function_of(k, true));
	sp_missing_add(&missing, &interval);

	cr_assert_eq(missing.n, 4);
	cr_expect_eq(missing.object[0].ns, 2 * period_ns);
	cr_expect_eq(missing.object[0].build_id[0], 1);
}

/* If there are too many objects, those with the least time are dropped, and no time is lost. */
Test(missing, forgets_those_with_the_least_time)
{
	uint64_t listed = 0;

	for (unsigned round = 0; round < 2; round++) {
		for (unsigned k = 0; k < 2 * SP_MISSING_MAX; k++) {
			char file[32];

			(void)snprintf(file, sizeof(file), "/lib/%u.so", k);
			put_place(file, 0, SP_LACK_DEBUG_FILE);
			/* Each object is in stacks before and after others have replaced it. */
			put_samples(k + 1, function_of(k, false), 0);
			put_samples(k + 1, function_of(2 * SP_MISSING_MAX - 1 - k, true), 0);
		}
		sp_missing_add(&missing, &interval);
		end();
		begin();
	}
	cr_assert_eq(missing.n, SP_MISSING_MAX);
	for (size_t k = 0; k < missing.n; k++) {
		listed += missing.object[k].ns;
		cr_expect(k == 0 || missing.object[k].ns <= missing.object[k - 1].ns);
		for (size_t other = 0; other < k; other++)
			cr_expect_str_neq(missing.object[k].file, missing.object[other].file);
	}
	cr_expect_eq(listed + missing.other_ns, missing.ns);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	cr_assert_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The time that 40,000 stacks take does not grow with the number of objects that are listed. */
Test(missing, looks_for_a_place_once)
{
	uint64_t took[2] = {UINT64_MAX, UINT64_MAX};

	for (unsigned round = 0; round < 6; round++) {
		unsigned places = round % 2 != 0 ? SP_MISSING_MAX : 2;
		uint64_t began;

		for (unsigned k = 0; k < places; k++) {
			char file[512];

			/* Long names that differ only at their ends. */
			(void)snprintf(file, sizeof(file), "/%0400u.so", k);
			put_place(file, 0, SP_LACK_DEBUG_FILE);
		}
		for (unsigned k = 0; k < 40000; k++) {
			struct sp_sample s = {.weight = 1,
					      .depth = 2,
					      .span_id = k,
					      .pc = {function_of(places - 1, true), 0}};

			(void)sp_stack_map_put(interval.map[SP_MAP_SAMPLES], &s, 0, 0);
		}
		began = cpu_ns();
		sp_missing_add(&missing, &interval);
		began = cpu_ns() - began;
		took[round % 2] = began < took[round % 2] ? began : took[round % 2];
		end();
		begin();
		sp_missing_fini(&missing);
	}
	cr_expect_lt(took[1], 4 * took[0], "%lu ns, %lu ns", took[0], took[1]);
}
