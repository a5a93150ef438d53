/* SPDX-License-Identifier: Apache-2.0 */
/* Time lines, made from samples of threads whose activity is known. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "export/report/time_line.h"

#define MS UINT64_C(1000000)
#define AT (1700000000 * UINT64_C(1000000000))
#define PERIOD (10 * MS)

/* One phase of a thread's true activity. */
struct doing {
	uint64_t ns;
	uint32_t node;
	enum sp_part part;
};

static struct sp_moment moment[10000];
static struct sp_segment segment[sizeof(moment) / sizeof(moment[0]) * 2 + 1];
static unsigned seed;

static uint64_t random_below(uint64_t n)
{
	return (uint64_t)rand_r(&seed) * (uint64_t)RAND_MAX % n;
}

/* Samples as the timer and the exporter take them: one for each period of CPU time, and looks at random moments. */
static size_t sample(const struct doing *d, size_t n, bool looks)
{
	uint64_t cpu_left = 1 + random_below(PERIOD), at = AT;
	size_t moments = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t left = d[i].ns;
		bool is_cpu = d[i].part == SP_PART_CPU;

		while (left != 0) {
			uint64_t next = is_cpu ? cpu_left : 1 + random_below(40 * MS);
			uint64_t step = next < left ? next : left;

			at += step;
			left -= step;
			if (is_cpu)
				cpu_left -= step;
			if ((is_cpu && cpu_left != 0) || (!is_cpu && (step != next || !looks)))
				continue;
			moment[moments++] = (struct sp_moment){.node = d[i].node,
							       .part = d[i].part,
							       .at_ns = at,
							       .ns = is_cpu ? PERIOD : 20 * MS};
			if (is_cpu)
				cpu_left = PERIOD;
		}
	}
	return moments;
}

static uint64_t sum(const struct doing *d, size_t n)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < n; i++)
		ns += d[i].ns;
	return ns;
}

/* Makes a time line, and checks that its segments follow each other from beginning to end. */
static size_t make(const struct doing *d, size_t n, bool looks)
{
	size_t moments = sample(d, n, looks);
	size_t made = sp_time_line_make(moment, moments, AT, AT + sum(d, n), true, segment);

	cr_assert_leq(made, sp_segments_max(moments));
	for (size_t i = 0; i < made; i++) {
		cr_assert_eq(segment[i].from_ns, i == 0 ? AT : segment[i - 1].to_ns);
		cr_assert_lt(segment[i].from_ns, segment[i].to_ns);
	}
	if (made != 0)
		cr_assert_eq(segment[made - 1].to_ns, AT + sum(d, n));
	return made;
}

static const struct sp_segment *find(size_t made, uint32_t node)
{
	for (size_t i = 0; i < made; i++)
		if (segment[i].node == node)
			return &segment[i];
	return NULL;
}

static bool is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= PERIOD;
}

/* Finds a wait between two phases of computing, at any offset in the timer's period. */
Test(time_line, finds_three_phases_within_a_period, .timeout = 60)
{
	unsigned without_look = 0;

	for (seed = 1; seed < 2000; seed++) {
		const struct doing d[] = {{50 * MS, 1, SP_PART_CPU},
					  {50 * MS, 2, SP_PART_SLEEP},
					  {50 * MS, 3, SP_PART_CPU}};
		size_t made = make(d, 3, true);
		const struct sp_segment *wait = find(made, 2);

		cr_assert(is_near(find(made, 1)->to_ns, AT + 50 * MS));
		cr_assert(is_near(find(made, 3)->from_ns, AT + 100 * MS));
		without_look += wait == NULL;
		if (wait == NULL)
			wait = find(made, 0);
		cr_assert(is_near(wait->from_ns, AT + 50 * MS) &&
			  is_near(wait->to_ns, AT + 100 * MS));
	}
	cr_expect_eq(without_look, 0, "a wait of 50 ms always has a look here");
}

/* Without looks it is known when the thread waited, and not for what. */
Test(time_line, shows_waits_without_looks, .timeout = 60)
{
	for (seed = 1; seed < 500; seed++) {
		const struct doing d[] = {{50 * MS, 1, SP_PART_CPU},
					  {80 * MS, 2, SP_PART_LOCK},
					  {50 * MS, 1, SP_PART_CPU}};
		size_t made = make(d, 3, false);
		const struct sp_segment *wait = find(made, 0);

		cr_assert_eq(made, 3);
		cr_assert_eq(wait->part, SP_PART_OFF_CPU);
		cr_assert(is_near(wait->from_ns, AT + 50 * MS) &&
			  is_near(wait->to_ns, AT + 130 * MS));
	}
}

/*
 * Any order of phases: the time on a processor in the line equals the true one, within a period for
 * each wait.
 */
Test(time_line, keeps_the_time_on_a_processor, .timeout = 60)
{
	for (seed = 1; seed < 500; seed++) {
		struct doing d[9];
		uint64_t cpu = 0, is_cpu = 0;
		size_t made;

		for (size_t i = 0; i < 9; i++) {
			d[i] = (struct doing){20 * MS + random_below(100 * MS), (uint32_t)i + 1,
					      i % 2 == 0 ? SP_PART_CPU : SP_PART_SOCKET};
			cpu += i % 2 == 0 ? d[i].ns : 0;
		}
		made = make(d, 9, true);
		for (size_t i = 0; i < made; i++)
			if (segment[i].part == SP_PART_CPU)
				is_cpu += segment[i].to_ns - segment[i].from_ns;
		cr_assert_lt(is_cpu > cpu ? is_cpu - cpu : cpu - is_cpu, 2 * PERIOD);
	}
}

/* Looks distinguish two waits that follow each other. */
Test(time_line, tells_waits_apart)
{
	const struct sp_moment looks[] = {
		{.node = 1, .part = SP_PART_LOCK, .at_ns = AT + 10 * MS, .ns = MS},
		{.node = 1, .part = SP_PART_LOCK, .at_ns = AT + 30 * MS, .ns = MS},
		{.node = 2, .part = SP_PART_FILE, .at_ns = AT + 50 * MS, .ns = MS}};
	size_t made = sp_time_line_make(looks, 3, AT, AT + 60 * MS, true, segment);

	cr_assert_eq(made, 2);
	cr_expect_eq(segment[0].to_ns, AT + 40 * MS);
	cr_expect_eq(segment[1].part, SP_PART_FILE);
	cr_expect_eq(segment[1].to_ns, AT + 60 * MS);
}

/* Another thread worked on the request only from its first sample to its last. */
Test(time_line, begins_another_thread_at_its_first_sample)
{
	const struct sp_moment samples[] = {
		{.node = 1, .part = SP_PART_CPU, .at_ns = AT + 200 * MS, .ns = PERIOD},
		{.node = 1, .part = SP_PART_CPU, .at_ns = AT + 210 * MS, .ns = PERIOD}};

	cr_assert_eq(sp_time_line_make(samples, 2, AT, AT + 900 * MS, false, segment), 1);
	cr_expect_eq(segment[0].from_ns, AT + 190 * MS);
	cr_expect_eq(segment[0].to_ns, AT + 210 * MS);
}

/* Files may have any numbers. */
Test(time_line, is_within_its_memory_for_any_numbers, .timeout = 60)
{
	for (seed = 1; seed < 300; seed++) {
		size_t n = random_below(200);
		size_t made;

		for (size_t i = 0; i < n; i++)
			moment[i] = (struct sp_moment){
				.node = (uint32_t)random_below(5),
				.part = (enum sp_part)random_below(SP_PART_SAMPLED),
				.at_ns = AT + i * random_below(3) * MS,
				.ns = random_below(4) == 0 ? UINT64_MAX / 2
							   : random_below(30 * MS)};
		for (size_t i = 1; i < n; i++)
			if (moment[i].at_ns < moment[i - 1].at_ns)
				moment[i].at_ns = moment[i - 1].at_ns;
		made = sp_time_line_make(moment, n, AT + random_below(300 * MS),
					 AT + random_below(300 * MS), random_below(2) == 0,
					 segment);
		cr_assert_leq(made, sp_segments_max(n));
	}
}
