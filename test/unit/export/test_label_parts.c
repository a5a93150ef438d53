/* SPDX-License-Identifier: Apache-2.0 */
/* Time cut by labels: none is lost, none is made, whatever a host says. */
#include "export/off_cpu/label_parts.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct sp_thread_labels_copy copy;
static struct sp_label_parts parts;

static void start(void)
{
	memset(&copy, 0, sizeof(copy));
}

TestSuite(label_parts, .init = start, .timeout = 20);

static void label(uint64_t span_id, uint64_t since_ns)
{
	copy.label[copy.labels++] =
		(struct sp_thread_label){.span_id = span_id, .since_ns = since_ns};
	copy.n = copy.first + copy.labels;
}

static void cut(uint64_t from, uint64_t until, uint32_t known, bool had_label)
{
	const struct sp_label_window w = {from, until, known, had_label};

	sp_label_parts_cut(&copy, &w, &parts);
}

static void expect_part(unsigned i, uint64_t span_id, uint64_t ns)
{
	cr_assert_lt(i, parts.n);
	cr_expect_eq(parts.part[i].label.span_id, span_id);
	cr_expect_eq(parts.part[i].ns, ns, "part %u has %llu ns", i,
		     (unsigned long long)parts.part[i].ns);
}

Test(label_parts, one_label_has_all_of_the_time)
{
	label(7, 50);
	cut(100, 120, 1, true);
	cr_assert_eq(parts.n, 1);
	expect_part(0, 7, 20);
	cr_expect(parts.part[0].is_first);
	cr_expect(parts.part[0].is_now);
}

Test(label_parts, time_without_a_label_is_in_none)
{
	label(7, 50);
	label(0, 105);
	label(8, 111);
	cut(100, 120, 1, true);
	cr_assert_eq(parts.n, 2);
	expect_part(0, 7, 5);
	cr_expect(parts.part[0].is_first);
	cr_expect_not(parts.part[0].is_now);
	expect_part(1, 8, 9);
	cr_expect_not(parts.part[1].is_first);
	cr_expect(parts.part[1].is_now);
}

Test(label_parts, label_that_was_struck_has_ended)
{
	label(7, 50);
	copy.struck_ns = 110;
	cut(100, 120, 1, true);
	cr_assert_eq(parts.n, 1);
	expect_part(0, 7, 10);
	cr_expect_not(parts.part[0].is_now);
	/* one that came later has not */
	label(8, 112);
	cut(100, 120, 1, true);
	expect_part(1, 8, 8);
	cr_expect(parts.part[1].is_now);
}

Test(label_parts, forgotten_labels_have_a_part_of_their_own)
{
	copy.first = 30;
	label(7, 108);
	cut(100, 120, 10, true);
	cr_assert_eq(parts.n, 2);
	expect_part(0, 0, 8);
	expect_part(1, 7, 12);
	cr_expect_not(parts.part[1].is_first);
}

Test(label_parts, numbers_wrap)
{
	copy.first = UINT32_MAX;
	label(7, 50);
	label(8, 110);
	cut(100, 120, 0, true);
	cr_assert_eq(parts.n, 2);
	expect_part(0, 7, 10);
	cr_expect(parts.part[0].is_first);
	expect_part(1, 8, 10);
}

Test(label_parts, hostile_times_neither_overlap_nor_leave_the_window)
{
	unsigned seed = 5;

	for (unsigned round = 0; round < 20000; round++) {
		uint64_t sum = 0;
		struct sp_spent spent;
		struct sp_split split;
		uint64_t off = 0;
		uint64_t delay = 0;

		memset(&copy, 0, sizeof(copy));
		copy.first = (uint32_t)rand_r(&seed) * 3U;
		while (copy.labels < (unsigned)round % (SP_THREAD_LABELS_KEPT + 1))
			label((unsigned)rand_r(&seed) % 3,
			      rand_r(&seed) % 5 == 0 ? UINT64_MAX : (unsigned)rand_r(&seed) % 3000);
		copy.struck_ns =
			rand_r(&seed) % 5 == 0 ? UINT64_MAX : (unsigned)rand_r(&seed) % 3000;
		cut(1000, 2000, (uint32_t)rand_r(&seed) * 3U, rand_r(&seed) % 2);
		cr_assert_leq(parts.n, SP_LABEL_PARTS_MAX);
		for (unsigned i = 0; i < parts.n; i++) {
			parts.part[i].is_quiet = rand_r(&seed) % 2;
			sum += parts.part[i].ns;
			cr_assert(!parts.part[i].is_now || i + 1 == parts.n);
		}
		cr_assert_leq(sum, 1000);
		spent.off_ns = (unsigned)rand_r(&seed) % 1001;
		spent.delay_ns = (unsigned)rand_r(&seed) % (1001 - (unsigned)spent.off_ns);
		sp_label_parts_divide(&parts, &spent, &split);
		for (unsigned i = 0; i < parts.n; i++) {
			struct sp_spent own;

			sp_label_part_share(&parts.part[i], &split, &own);
			cr_assert_leq(own.off_ns + own.delay_ns, parts.part[i].ns + 1);
			off += own.off_ns;
			delay += own.delay_ns;
		}
		cr_assert_leq(off, spent.off_ns);
		cr_assert_leq(delay, spent.delay_ns);
	}
}

/* A span that waited from end to end, of a thread that computed before it. */
Test(label_parts, computing_is_not_put_where_the_thread_waited)
{
	struct sp_split split;
	struct sp_spent own;

	label(0, 50);
	label(8, 110);
	cut(100, 120, 1, false);
	cr_assert_eq(parts.n, 1);
	parts.part[0].is_quiet = true;
	sp_label_parts_divide(&parts, &(struct sp_spent){.off_ns = 12}, &split);
	sp_label_part_share(&parts.part[0], &split, &own);
	cr_expect_eq(own.off_ns, 10);
	/* if there is no room elsewhere, it is */
	sp_label_parts_divide(&parts, &(struct sp_spent){.off_ns = 7}, &split);
	sp_label_part_share(&parts.part[0], &split, &own);
	cr_expect_eq(own.off_ns, 7);
	parts.part[0].is_quiet = false;
	sp_label_parts_divide(&parts, &(struct sp_spent){.off_ns = 12}, &split);
	sp_label_part_share(&parts.part[0], &split, &own);
	cr_expect_eq(own.off_ns, 6, "half of the window");
}
