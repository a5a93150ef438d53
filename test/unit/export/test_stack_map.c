/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregation and its limits. */
#include <criterion/criterion.h>
#include <string.h>

#include "export/profile/stack_map.h"

static const struct sp_stack_limits roomy = {.stacks = 1000, .entries = 1000, .pc_words = 10000};

static struct sp_sample sample(uint64_t pc, uint16_t depth, uint64_t span_id)
{
	struct sp_sample s = {.span_id = span_id, .weight = 1, .depth = depth};

	for (unsigned i = 0; i < depth; i++)
		s.pc[i] = pc + i;
	return s;
}

static unsigned put(struct sp_stack_map *m, uint64_t pc, uint16_t depth, uint64_t span_id)
{
	struct sp_sample s = sample(pc, depth, span_id);

	return sp_stack_map_put(m, &s, 0, 0);
}

Test(stack_map, keeps_threads_of_different_names_apart, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_sample s = sample(100, 3, 7);

	cr_expect_eq(sp_stack_map_put(m, &s, 0, 3), SP_STACK_KEPT);
	cr_expect_eq(sp_stack_map_put(m, &s, 0, 4), SP_STACK_KEPT);
	cr_expect_eq(sp_stack_map_put(m, &s, 0, 3), SP_STACK_KEPT);

	/* the first is "(other)" */
	cr_assert_eq(sp_stack_map_entries(m), 3);
	cr_expect_eq(sp_stack_map_entry(m, 1)->labels.thread, 3);
	cr_expect_eq(sp_stack_map_entry(m, 1)->count, 2);
	cr_expect_eq(sp_stack_map_entry(m, 2)->labels.thread, 4);
	cr_expect_eq(sp_stack_map_entry(m, 1)->stack, sp_stack_map_entry(m, 2)->stack);
	sp_stack_map_free(m);
}

static uint64_t ns_of_all(const struct sp_stack_map *m, uint64_t period_ns)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(m); i++)
		ns += sp_stack_entry_ns(sp_stack_map_entry(m, i), period_ns);
	return ns;
}

Test(stack_map, gives_time_away_in_proportion_and_leaves_none_empty, .timeout = 20)
{
	const struct sp_cpu_time little = {.ns = 1};
	struct sp_stack_map *m = sp_stack_map_new(&roomy);

	(void)sp_stack_map_put_cpu_time(m, &little, 0, 0);
	for (unsigned i = 0; i < 3; i++)
		(void)put(m, 100, 1, 0);
	(void)put(m, 200, 1, 0);

	cr_expect_not(sp_stack_map_take_ns(m, 1000, 4001), "there would be nothing left");
	cr_expect_eq(ns_of_all(m, 1000), 4001);
	cr_assert(sp_stack_map_take_ns(m, 1000, 2001));

	cr_expect_eq(ns_of_all(m, 1000), 2000);
	cr_assert_eq(sp_stack_map_entries(m), 4);
	cr_expect_eq(sp_stack_map_entry(m, 1)->unsampled_ns, 1);
	cr_expect(sp_stack_map_entry(m, 2)->unsampled_ns - 1498 <= 2);
	cr_expect(sp_stack_map_entry(m, 3)->unsampled_ns - 499 <= 2);
	cr_expect_eq(sp_stack_map_count(m), 4, "the samples stay");
	sp_stack_map_free(m);
}

static bool put_time(struct sp_stack_map *m, uint64_t pc, uint64_t span_id, uint64_t at)
{
	(void)put(m, pc, 1, span_id);
	return sp_stack_map_put_time(m, &(struct sp_stack_time){.monotonic_ns = at, .weight = 1});
}

Test(stack_map, keeps_the_times_of_samples_in_spans, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	const struct sp_stack_time *time;

	cr_expect(put_time(m, 100, 7, 5));
	cr_expect(put_time(m, 100, 0, 6), "a sample outside of spans has no time, and loses none");
	cr_expect(put_time(m, 200, 7, 8));
	cr_expect(put_time(m, 100, 7, 9));

	cr_assert_eq(sp_stack_map_times(m, &time), 3);
	cr_expect_eq(time[0].entry, time[2].entry);
	cr_expect_neq(time[0].entry, time[1].entry);
	cr_expect_eq(time[2].monotonic_ns, 9);
	cr_expect_eq(sp_stack_map_entry(m, time[1].entry)->labels.span_id, 7);
	sp_stack_map_clear(m);
	cr_expect_eq(sp_stack_map_times(m, &time), 0);
	cr_expect_eq(sp_stack_map_times(NULL, &time), 0);
	sp_stack_map_free(m);
}

Test(stack_map, has_a_bound_for_times, .timeout = 60)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	const struct sp_stack_time *time;

	for (uint32_t i = 0; i < SP_STACK_TIMES_MAX; i++)
		cr_assert(put_time(m, 100, 7, i));

	cr_expect_not(put_time(m, 100, 7, 0));
	cr_expect_eq(sp_stack_map_times(m, &time), SP_STACK_TIMES_MAX);
	sp_stack_map_free(m);
}

/* A map without room counts a sample under "(other)", which has no span. */
Test(stack_map, has_no_time_of_a_sample_without_labels, .timeout = 20)
{
	const struct sp_stack_limits tight = {.stacks = 2, .entries = 2, .pc_words = 10};
	struct sp_stack_map *m = sp_stack_map_new(&tight);
	const struct sp_stack_time *time;

	cr_expect(put_time(m, 100, 7, 1));
	cr_expect(put_time(m, 100, 8, 2));

	cr_assert_eq(sp_stack_map_times(m, &time), 1);
	cr_expect_eq(time[0].monotonic_ns, 1);
	sp_stack_map_free(m);
}

/* Sums over all entries. */
static uint64_t total(const struct sp_stack_map *m)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(m); i++)
		sum += sp_stack_map_entry(m, i)->count;
	return sum;
}

/* The number of entries with a value. */
static uint32_t used(const struct sp_stack_map *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(m); i++)
		n += sp_stack_map_entry(m, i)->count != 0;
	return n;
}

Test(stack_map, adds_equal_samples_up, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_sample s = sample(100, 3, 7);
	const struct sp_stack_entry *e;
	struct sp_stack stack;

	s.weight = 2;
	cr_expect_eq(sp_stack_map_put(m, &s, 5, 0), SP_STACK_KEPT);
	s.weight = 5;
	cr_expect_eq(sp_stack_map_put(m, &s, 5, 0), SP_STACK_KEPT);

	cr_assert_eq(used(m), 1);
	e = sp_stack_map_entry(m, sp_stack_map_entries(m) - 1);
	cr_expect_eq(e->count, 2);
	cr_expect_eq(e->weight, 7);
	cr_expect_eq(e->labels.span_id, 7);
	sp_stack_map_stack(m, e->stack, &stack);
	cr_expect_eq(stack.depth, 3);
	cr_expect_eq(stack.epoch, 5);
	cr_expect_eq(stack.pc[0], 100);
	cr_expect_eq(stack.pc[2], 102);
	sp_stack_map_free(m);
}

/* Spans 8 and up lose their ids. */
static void leave_small(void *arg, bool is_unsampled, struct sp_stack_labels *l)
{
	*(unsigned *)arg += is_unsampled;
	if (l->span_id > 7)
		l->span_id = 0;
}

Test(stack_map, adds_up_what_has_the_same_labels_after_a_change, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_cpu_time t = {.span_id = 9, .ns = 5};
	const struct sp_stack_time *time;
	struct sp_stack stack;
	unsigned unsampled = 0;

	for (uint64_t id = 7; id < 100; id++) {
		put(m, 100, 3, id);
		cr_assert(
			sp_stack_map_put_time(m, &(struct sp_stack_time){.monotonic_ns = 2 * id}));
		put(m, 200, 2, id);
		cr_assert(sp_stack_map_put_time(
			m, &(struct sp_stack_time){.monotonic_ns = 2 * id + 1}));
	}
	put(m, 100, 3, 0);
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	t.span_id = 10;
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	cr_expect_eq(sp_stack_map_relabel(m, leave_small, &unsampled), 0);

	/* Both stacks of span 7 and without a span, the time, and "(other)". */
	cr_assert_eq(sp_stack_map_entries(m), 6);
	cr_expect_eq(unsampled, 2);
	cr_expect_eq(total(m), 2 * 93 + 1);
	cr_expect_eq(sp_stack_map_entry(m, 0)->stack, SP_STACK_OTHER);
	cr_expect_eq(sp_stack_map_entry(m, 0)->count, 0);
	cr_expect_eq(sp_stack_map_entry(m, 1)->labels.span_id, 7);
	cr_expect_eq(sp_stack_map_entry(m, 1)->count, 1);
	cr_expect_eq(sp_stack_map_entry(m, 3)->labels.span_id, 0);
	cr_expect_eq(sp_stack_map_entry(m, 3)->count, 93);
	cr_expect_eq(sp_stack_map_entry(m, 3)->weight, 93);
	cr_expect_eq(sp_stack_map_entry(m, 5)->unsampled_ns, 10);
	/* Times stay with the samples of their stack and span. */
	cr_assert_eq(sp_stack_map_times(m, &time), 2 * 93);
	for (unsigned i = 0; i < 2 * 93; i++) {
		const struct sp_stack_entry *e = sp_stack_map_entry(m, time[i].entry);

		sp_stack_map_stack(m, e->stack, &stack);
		cr_expect_eq(stack.pc[0], time[i].monotonic_ns % 2 == 0 ? 100 : 200);
		cr_expect_eq(e->labels.span_id, time[i].monotonic_ns / 2 == 7 ? 7 : 0);
	}
	/* It takes further samples. */
	put(m, 100, 3, 0);
	cr_expect_eq(sp_stack_map_entry(m, 3)->count, 94);
	sp_stack_map_free(m);
}

Test(stack_map, keeps_apart_what_differs_in_anything, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_sample s = sample(100, 3, 7);

	(void)sp_stack_map_put(m, &s, 0, 0);
	s.span_id = 8;
	(void)sp_stack_map_put(m, &s, 0, 0);
	s.name_id = 1;
	(void)sp_stack_map_put(m, &s, 0, 0);
	s.trace_id[15] = 1;
	(void)sp_stack_map_put(m, &s, 0, 0);
	s.pc[2]++;
	(void)sp_stack_map_put(m, &s, 0, 0);
	s.depth = 2;
	(void)sp_stack_map_put(m, &s, 0, 0);
	s.flags = SP_SAMPLE_TRUNCATED;
	(void)sp_stack_map_put(m, &s, 0, 0);
	(void)sp_stack_map_put(m, &s, 1, 0);

	cr_expect_eq(used(m), 8);
	cr_expect_eq(total(m), 8);
	sp_stack_map_free(m);
}

Test(stack_map, sums_cpu_time_up_apart_from_samples, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_sample s = sample(100, 1, 7);
	struct sp_cpu_time t = {.span_id = 7, .start = 100, .ns = 5000000000};
	const struct sp_stack_entry *e;
	struct sp_stack stack;

	s.flags = SP_SAMPLE_ROOTED;
	(void)sp_stack_map_put(m, &s, 3, 2);
	cr_expect_eq(sp_stack_map_put_cpu_time(m, &t, 3, 2), SP_STACK_KEPT);
	t.ns = 1;
	cr_expect_eq(sp_stack_map_put_cpu_time(m, &t, 3, 2), SP_STACK_KEPT);

	cr_assert_eq(sp_stack_map_entries(m), 3);
	cr_expect_eq(sp_stack_map_samples(m), 3);
	cr_expect_eq(total(m), 1);
	e = sp_stack_map_entry(m, 2);
	cr_expect_eq(e->unsampled_ns, 5000000001);
	cr_expect_eq(e->weight, 0);
	cr_expect_eq(e->labels.span_id, 7);
	cr_expect_eq(e->labels.thread, 2);
	sp_stack_map_stack(m, e->stack, &stack);
	cr_expect(stack.unsampled);
	cr_expect_eq(stack.depth, 1);
	cr_expect_eq(stack.pc[0], 100);
	cr_expect_eq(stack.epoch, 3);
	sp_stack_map_free(m);
}

Test(stack_map, keeps_cpu_time_apart_by_labels_and_start_routine, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_cpu_time t = {.ns = 1};
	struct sp_stack stack;

	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	sp_stack_map_stack(m, sp_stack_map_entry(m, 1)->stack, &stack);
	cr_expect_eq(stack.depth, 0, "nobody knows where the thread began");
	t.start = 200;
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	t.name_id = 1;
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	t.trace_id[15] = 1;
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);
	t.span_id = 1;
	(void)sp_stack_map_put_cpu_time(m, &t, 0, 0);

	cr_expect_eq(sp_stack_map_entries(m), 1 + 5);
	sp_stack_map_free(m);
}

Test(stack_map, finds_every_stack_again_after_growing, .timeout = 20)
{
	static const struct sp_stack_limits limits = {20000, 20000, 100000};
	struct sp_stack_map *m = sp_stack_map_new(&limits);

	for (unsigned round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 10000; i++)
			cr_assert_eq(put(m, i * 1000, 4, i % 10), SP_STACK_KEPT);

	cr_expect_eq(used(m), 10000);
	cr_expect_eq(total(m), 20000);
	sp_stack_map_free(m);
}

Test(stack_map, puts_stacks_over_the_limit_under_other_with_their_labels, .timeout = 20)
{
	/* "(other)" counts, so there is room for two. */
	static const struct sp_stack_limits limits = {3, 1000, 1000};
	struct sp_stack_map *m = sp_stack_map_new(&limits);
	const struct sp_stack_entry *e;

	cr_expect_eq(put(m, 100, 1, 7), SP_STACK_KEPT);
	cr_expect_eq(put(m, 200, 1, 7), SP_STACK_KEPT);
	cr_expect_eq(put(m, 300, 1, 7), SP_STACK_LOST);
	cr_expect_eq(put(m, 400, 1, 7), SP_STACK_LOST);
	cr_expect_eq(put(m, 200, 1, 7), SP_STACK_KEPT);

	e = sp_stack_map_entry(m, sp_stack_map_entries(m) - 1);
	cr_expect_eq(e->stack, SP_STACK_OTHER);
	cr_expect_eq(e->labels.span_id, 7);
	cr_expect_eq(e->count, 2);
	cr_expect_eq(total(m), 5);
	sp_stack_map_free(m);
}

Test(stack_map, counts_frames_against_the_limit_exactly, .timeout = 20)
{
	static const struct sp_stack_limits limits = {1000, 1000, 10};
	struct sp_stack_map *m = sp_stack_map_new(&limits);

	cr_expect_eq(put(m, 100, 9, 1), SP_STACK_KEPT);
	cr_expect_eq(put(m, 200, 2, 1), SP_STACK_LOST, "11 words");
	cr_expect_eq(put(m, 300, 1, 1), SP_STACK_KEPT, "10 words");
	cr_expect_eq(put(m, 400, 1, 1), SP_STACK_LOST);
	cr_expect_eq(put(m, 400, 0, 1), SP_STACK_KEPT, "an empty stack needs none");
	sp_stack_map_free(m);
}

Test(stack_map, drops_labels_when_entries_run_out, .timeout = 20)
{
	/* Entry 0 is "(other)" without labels, so there is room for two. */
	static const struct sp_stack_limits limits = {1000, 3, 1000};
	struct sp_stack_map *m = sp_stack_map_new(&limits);
	const struct sp_cpu_time t = {.span_id = 4, .ns = 9};

	cr_expect_eq(put(m, 100, 1, 1), SP_STACK_KEPT);
	cr_expect_eq(put(m, 100, 1, 2), SP_STACK_KEPT);
	cr_expect_eq(put(m, 100, 1, 3), (unsigned)SP_STACK_LOST | SP_LABELS_LOST);
	cr_expect_eq(put(m, 100, 1, 0), SP_STACK_LOST, "it had no labels to lose");
	cr_expect_eq(sp_stack_map_put_cpu_time(m, &t, 0, 0),
		     (unsigned)SP_STACK_LOST | SP_LABELS_LOST);

	cr_expect_eq(sp_stack_map_entry(m, 0)->count, 2);
	cr_expect_eq(sp_stack_map_entry(m, 0)->stack, SP_STACK_OTHER);
	cr_expect_eq(sp_stack_map_entry(m, 0)->labels.span_id, 0);
	cr_expect_eq(sp_stack_map_entry(m, 0)->unsampled_ns, 9);
	cr_expect_eq(total(m), 4);
	sp_stack_map_free(m);
}

Test(stack_map, is_empty_after_clear, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);

	(void)put(m, 100, 3, 7);
	sp_stack_map_clear(m);

	cr_expect_eq(used(m), 0);
	cr_expect_eq(sp_stack_map_samples(m), 0);
	cr_expect_eq(put(m, 100, 3, 7), SP_STACK_KEPT);
	cr_expect_eq(used(m), 1);
	sp_stack_map_free(m);
}

Test(stack_map, survives_a_depth_that_is_too_large, .timeout = 20)
{
	struct sp_stack_map *m = sp_stack_map_new(&roomy);
	struct sp_sample s = sample(100, SP_FRAMES_MAX, 7);
	struct sp_stack stack;

	s.depth = UINT16_MAX;
	cr_expect_eq(sp_stack_map_put(m, &s, 0, 0), SP_STACK_KEPT);

	sp_stack_map_stack(m, 1, &stack);
	cr_expect_eq(stack.depth, SP_FRAMES_MAX);
	sp_stack_map_free(m);
}
