/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of span names, corrected by that of measured roots. The host of these tests counts, or lies. */
#include "export/profile/name_times.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core_double.h"
#include "export/profile/encode.h"
#include "sampler/base/random.h"

#define MS UINT64_C(1000000)
#define PERIOD (10 * MS)
#define INTERVAL (15 * SP_NS_PER_S)

static struct sp_name_times *times;
static struct sp_stack_map *map;
static uint64_t random_state;

static void start(void)
{
	core_reset();
	core.roots = calloc(1, sizeof(*core.roots));
	core.config.sample_rate_hz = 100;
	times = sp_name_times_new(&core.ops);
	map = sp_stack_map_new(&sp_stack_limits_default);
	cr_assert_not_null(times);
	cr_assert_not_null(map);
	random_state = 1;
}

static void end(void)
{
	sp_name_times_free(times);
	sp_stack_map_free(map);
	free(core.roots);
}

TestSuite(name_times, .init = start, .fini = end, .timeout = 60);

static void sample(uint64_t span_id, uint32_t name_id, uint64_t pc, uint64_t weight)
{
	struct sp_sample s = {
		.span_id = span_id, .name_id = name_id, .depth = 1, .weight = (uint32_t)weight};

	s.pc[0] = pc;
	cr_assert_eq(sp_stack_map_put(map, &s, 0, 0), SP_STACK_KEPT);
}

/* n samples of that name, each of a span of its own, in so many stacks. Name 0: of no span. */
static void samples(uint32_t name_id, unsigned n, unsigned stacks)
{
	for (unsigned i = 0; i < n; i++)
		sample(name_id != 0 ? i : 0, name_id, i % stacks, 1);
}

static uint64_t ns_of(uint32_t name_id)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++) {
		const struct sp_stack_entry *e = sp_stack_map_entry(map, i);

		if (e->labels.name_id == name_id)
			ns += sp_encode_cpu_ns(&core.config, e);
	}
	return ns;
}

static uint64_t total(void)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++)
		ns += sp_encode_cpu_ns(&core.config, sp_stack_map_entry(map, i));
	return ns;
}

/* n roots of that name, of that CPU time, of which each k-th one was measured. */
static void roots(uint32_t name_id, uint64_t n, uint64_t ns, uint64_t k)
{
	struct sp_root_cpu *c = &core.roots->cpu[name_id - 1];
	uint64_t units = ns / 1024;

	core.roots->name[name_id - 1].name_id = name_id;
	c->parts += n;
	c->measured += n / k;
	c->weights += n / k * k;
	c->squares += n / k * k * k;
	c->ns += n / k * k * ns;
	c->squared += n / k * k * units * units;
}

static void correct(void)
{
	uint64_t before = total();

	sp_name_times_correct(times, map, INTERVAL);
	cr_assert_eq(total(), before, "%lu of %lu ns", total(), before);
}

static void expect_about(uint32_t name_id, double ns, double share)
{
	cr_expect_lt(fabs((double)ns_of(name_id) - ns), share * ns,
		     "name %u: %.1f ms, expected %.1f", name_id, (double)ns_of(name_id) / 1e6,
		     ns / 1e6);
}

/* Names of 1 and 5 ms with equal time, of which samples give the one too little and the other too much. */
Test(name_times, are_those_of_the_roots_and_the_total_stays)
{
	samples(1, 60, 7);
	samples(2, 140, 5);
	samples(0, 100, 3);
	roots(1, 1000, 1 * MS, 4);
	roots(2, 200, 5 * MS, 1);
	correct();
	expect_about(1, 1000e6, 0.01);
	expect_about(2, 1000e6, 0.01);
	expect_about(0, 1000e6, 0.01);
	cr_expect_eq(sp_stack_map_count(map), 300, "samples stay");
}

/* Name 1 begins at each tick and is shorter, so it has hardly a sample; what a bias explains is not told. */
static void in_step(void)
{
	sp_stack_map_free(map);
	map = sp_stack_map_new(&sp_stack_limits_default);
	cr_assert_not_null(map);
	core.log[0] = '\0';
	core.label[0] = "tick";
	samples(1, 5, 7);
	samples(2, 140, 5);
	roots(1, 1000, 1 * MS, 4);
	roots(2, 200, 5 * MS, 1);
	correct();
}

Test(name_times, of_work_in_step_with_the_tick_are_told_once)
{
	in_step();
	cr_expect(core_logged("spans \"tick\" have 1.00 s of CPU time and samples for 0.05 s: "
			      "they run in step with the kernel's timer interrupt"),
		  "%s", core.log);
	in_step();
	cr_expect_str_eq(core.log, "");
}

Test(name_times, of_work_whose_samples_are_missing_are_not_told_as_in_step)
{
	core.facts.threads_refused = 1;
	in_step();
	cr_expect_str_eq(core.log, "");
	core.facts.threads_refused = 0;
	core.counter[SP_COUNT_DROP_RING_FULL] = 1;
	in_step();
	cr_expect_str_eq(core.log, "");
	core.counter[SP_COUNT_DROP_RING_FULL] = 0;
	in_step();
	cr_expect_str_neq(core.log, "");
}

Test(name_times, of_short_roots_are_not_told_as_in_step)
{
	samples(1, 60, 7);
	samples(2, 140, 5);
	roots(1, 1000, 1 * MS, 4);
	roots(2, 200, 5 * MS, 1);
	/* of little time by chance */
	roots(3, 100, 1 * MS, 1);
	correct();
	cr_expect_str_eq(core.log, "");
}

/*
 * Work between roots of 20 ms lasts for microseconds, so samples have a tenth of it, or none. What the roots do not have
 * is its time, and not that of the names.
 */
static void expect_between(unsigned between)
{
	samples(1, 210, 7);
	samples(2, 240, 5);
	samples(0, between, 3);
	/* All of it is 5.0 s, and 0.9 s of that is between roots. */
	sample(1, 1, 1, 500 - 450 - between);
	roots(1, 105, 20 * MS, 1);
	roots(2, 2000, 1 * MS, 4);
	correct();
	expect_about(1, 2100e6, 0.02);
	expect_about(2, 2000e6, 0.02);
	expect_about(0, 900e6, 0.06);
}

Test(name_times, have_nothing_of_work_between_roots_that_samples_miss)
{
	expect_between(8);
}

Test(name_times, have_nothing_of_work_between_roots_without_a_sample)
{
	expect_between(0);
}

/* A server would drop a sample of nothing. */
Test(name_times, leave_no_stack_without_time)
{
	struct sp_cpu_time least = {.ns = 1, .name_id = 2};
	unsigned had = 0;

	samples(1, 60, 7);
	samples(2, 140, 5);
	for (least.span_id = 1000; least.span_id < 1009; least.span_id++)
		cr_assert_eq(sp_stack_map_put_cpu_time(map, &least, 0, 0), 0);
	roots(1, 1000, 1 * MS, 1);
	roots(2, 200, 5 * MS, 1);
	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++)
		had += sp_encode_cpu_ns(&core.config, sp_stack_map_entry(map, i)) != 0;
	correct();
	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++)
		had -= sp_encode_cpu_ns(&core.config, sp_stack_map_entry(map, i)) != 0;
	cr_expect_eq(had, 0, "%u stacks have no time any more", had);
}

Test(name_times, are_those_of_the_interval)
{
	roots(1, 1000, 1 * MS, 4);
	sample(1, 1, 1, 100);
	correct();
	sp_stack_map_clear(map);
	sample(1, 1, 1, 60);
	sample(0, 0, 1, 140);
	roots(1, 1000, 1 * MS, 4);
	correct();
	expect_about(1, 1000e6, 0.02);
}

Test(name_times, without_measured_roots_are_those_of_the_samples)
{
	sample(1, 1, 1, 60);
	sample(2, 2, 2, 40);
	correct();
	cr_expect_eq(ns_of(1), 60 * PERIOD);
	/* Three are too few, and roots of seconds are as well seen by samples. */
	roots(1, 3, 1 * MS, 1);
	roots(2, 5, 1000 * MS, 1);
	correct();
	cr_expect_eq(ns_of(1), 60 * PERIOD);
	roots(1, 1000, 1 * MS, 1);
	core.roots->cpu[0].unsure = 1;
	correct();
	cr_expect_eq(ns_of(1), 60 * PERIOD);
}

Test(name_times, of_a_name_without_samples_have_no_stack)
{
	bool found = false;

	sample(1, 1, 1, 80);
	sample(0, 0, 1, 20);
	roots(1, 200, 3 * MS, 1);
	roots(2, 2000, 100000, 1);
	correct();
	expect_about(2, 200e6, 0.05);
	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++) {
		const struct sp_stack_entry *e = sp_stack_map_entry(map, i);
		struct sp_stack s;

		sp_stack_map_stack(map, e->stack, &s);
		if (e->labels.name_id != 2)
			continue;
		found = true;
		cr_expect(s.unsampled);
		cr_expect_eq(e->count, 0);
		cr_expect_eq(e->labels.span_id, 0);
	}
	cr_expect(found);
}

/* Of ten that were measured one lasted as long as all others: that proves little against a thousand samples. */
Test(name_times, with_large_errors_move_little)
{
	for (unsigned i = 0; i < 1000; i++)
		sample(i, 1, 1, 1);
	sample(0, 0, 1, 1000);
	roots(1, 9 * 64, 20 * MS, 64);
	roots(1, 64, 400 * MS, 64);
	correct();
	cr_expect_gt(ns_of(1), 900 * PERIOD);
	cr_expect_lt(ns_of(1), 1250 * PERIOD);
}

Test(name_times, give_the_times_of_samples_their_share)
{
	const struct sp_stack_time *time;
	uint64_t of_times = 0, of_spans = 0;
	uint32_t n;

	for (unsigned i = 1; i <= 60; i++) {
		sample(i / 7 + 1, 1, i % 7, i % 3 + 1);
		cr_assert(sp_stack_map_put_time(
			map, &(struct sp_stack_time){.monotonic_ns = i, .weight = i % 3 + 1}));
	}
	sample(0, 0, 1, 100);
	roots(1, 1000, 1500000, 1);
	correct();
	n = sp_stack_map_times(map, &time);
	cr_assert_eq(n, 60);
	for (uint32_t i = 0; i < n; i++) {
		of_times += time[i].weight * PERIOD + time[i].ns;
		cr_expect_lt(time[i].ns, 4 * PERIOD);
	}
	of_spans = ns_of(1);
	expect_about(1, 1500e6, 0.02);
	cr_expect_eq(of_times, of_spans);
}

static uint64_t any(void)
{
	uint64_t r = sp_random_next(&random_state);

	switch (r & 7) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return r;
	default:
		return r >> (8 + (r >> 3) % 56);
	}
}

/* Whatever the region says, and whatever weights the records had, sums are as before and no time is negative. */
Test(name_times, of_a_hostile_region_change_no_sum)
{
	unsigned changed = 0;

	for (unsigned k = 0; k < 3000; k++) {
		unsigned places = (unsigned)(any() % 9);
		uint64_t before = 0, after = 0, sum;
		bool is_huge = k % 16 == 0;

		for (unsigned i = 0; i < places; i++) {
			unsigned place = k % 7 == 0 ? SP_ROOT_PLACES - 1 - i : i;
			struct sp_root_cpu *c = &core.roots->cpu[place];

			core.roots->name[place].name_id = (uint32_t)(any() % 6);
			c->parts = any();
			c->unsure = k % 3 == 0 ? any() : c->unsure;
			c->measured = any();
			c->weights = any();
			c->squares = any();
			c->ns = any();
			c->squared = any();
			if (i % 2 == 0)
				roots(i + 1, any() % 10000, any() % (20 * MS) + 1, any() % 8 + 1);
		}
		for (unsigned i = (unsigned)(any() % 40); i-- != 0;) {
			sample(any() % 3, (uint32_t)(any() % 7), any() % 5,
			       is_huge ? any() : any() % 100);
			(void)sp_stack_map_put_time(
				map, &(struct sp_stack_time){.monotonic_ns = i, .weight = any()});
		}
		sum = total();
		for (uint32_t i = 0; i < sp_stack_map_entries(map); i++)
			before ^= (i + 1) *
				  sp_encode_cpu_ns(&core.config, sp_stack_map_entry(map, i));
		sp_name_times_correct(times, map, any());
		for (uint32_t i = 0; i < sp_stack_map_entries(map); i++) {
			uint64_t ns = sp_encode_cpu_ns(&core.config, sp_stack_map_entry(map, i));

			cr_assert_leq(ns, (uint64_t)INT64_MAX);
			after ^= (i + 1) * ns;
		}
		cr_assert_eq(total(), sum, "%u: %lu of %lu", k, total(), sum);
		changed += before != after;
		sp_stack_map_clear(map);
	}
	cr_expect_gt(changed, 300, "%u", changed);
}

/*
 * Samples as the kernel's ticks give them: names of seven lengths, equal in time, samples of which are wrong by up to a
 * third, and roots of exponential length, of which one in 16 is measured. Corrected, the errors are less than half.
 */
Test(name_times, are_closer_to_the_truth_than_samples)
{
	static const double wrong[7] = {0.85, 0.9, 0.95, 1.05, 1.3, 1.07, 1.01};
	static const uint64_t length_us[7] = {200, 500, 1000, 2000, 5000, 20000, 200000};
	double sampled = 0, corrected = 0;

	for (unsigned k = 0; k < 60; k++) {
		double truth[7] = {0}, shown[7] = {0}, all = 0, seen = 0;

		for (unsigned i = 0; i < 7; i++) {
			struct sp_root_cpu *c = &core.roots->cpu[i];
			uint64_t hits;

			core.roots->name[i].name_id = i + 1;
			while (truth[i] < 3e9) {
				double u = ((double)(sp_random_next(&random_state) >> 12) + 1) /
					   0x1p52;
				uint64_t ns = (uint64_t)(-log(u) * (double)length_us[i] * 1000);
				uint64_t weight = i < 4 ? 16 : 1;

				truth[i] += (double)ns;
				c->parts++;
				if (sp_random_next(&random_state) % weight != 0)
					continue;
				c->measured++;
				c->weights += weight;
				c->squares += weight * weight;
				c->ns += weight * ns;
				c->squared += weight * (ns / 1024) * (ns / 1024);
			}
			hits = (uint64_t)(truth[i] * wrong[i] / (double)PERIOD +
					  sqrt(300) *
						  (double)(sp_random_next(&random_state) % 1000) /
						  500 -
					  sqrt(300));
			sample(1, i + 1, i, hits);
			shown[i] = (double)(hits * PERIOD);
			all += truth[i];
			seen += shown[i];
		}
		/* The total is exact: what samples have too much is missing elsewhere. */
		if (all > seen)
			sample(0, 0, 1, (uint64_t)((all - seen) / (double)PERIOD));
		correct();
		for (unsigned i = 0; i < 7; i++) {
			sampled += pow(shown[i] / truth[i] - 1, 2);
			corrected += pow((double)ns_of(i + 1) / truth[i] - 1, 2);
		}
		sp_stack_map_clear(map);
	}
	cr_expect_lt(sqrt(corrected), sqrt(sampled) / 2, "%f and %f", sqrt(corrected / 420),
		     sqrt(sampled / 420));
}
