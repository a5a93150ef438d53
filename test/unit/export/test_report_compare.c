/* SPDX-License-Identifier: Apache-2.0 */
/* The comparisons of spanprof-report, the options for time, and its suggestions for unknown spans. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/report/options.h"
#include "export/report/reading.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

/* 2001-09-09T01:46:40Z */
#define THEN 1000000000

static void set_up(void)
{
	scratch_make();
	setenv("TZ", "UTC", 1);
}

TestSuite(report_compare, .init = set_up, .fini = scratch_remove);

static const char *const parse[] = {"parse", "main"};
static const char *const render[] = {"render", "main"};

/* The first profile is 80 % parse, the second, a minute later, 20 %. */
static void write_two(const char *first, const char *second)
{
	static const struct report_stack before[] = {STACK(parse, "00000000000000aa", "GET", 8),
						     STACK(render, "00000000000000ab", "PUT", 2)};
	static const struct report_stack after[] = {STACK(parse, "00000000000000ac", "GET", 1),
						    STACK(render, "00000000000000ac", "GET", 4)};

	report_write_stacks(first, before, 2, THEN);
	report_write_stacks(second, after, 2, THEN + 60);
}

Test(report_compare, profiles_with_those_of_another_folder, .timeout = 20)
{
	char other[300], file[320];

	(void)snprintf(other, sizeof(other), "%s-other", scratch);
	cr_assert_eq(mkdir(other, 0700), 0);
	(void)snprintf(file, sizeof(file), "../%s/b.pb", strrchr(other, '/') + 1);
	write_two("a.pb", file);

	must_report("--baseline", other);
	expect_printed("1 profile, 10 samples");
	expect_printed("baseline: 5 samples, 0.05 s CPU in 1 profile\n");
	expect_printed("  80.0%    20.0%   +60.0    80.0%    20.0%   +60.0  parse\n");
	must_report("--baseline", other, "--span-name=GET");
	expect_printed(" 100.0%    20.0%   +80.0");
	cr_expect_eq(run_scratch("--baseline", other, "--span-name=PUT"), 1);
	expect_printed("have no such samples");
	cr_expect_eq(run_scratch("--baseline=/nonexistent"), 2);
	cr_expect_eq(run_scratch("--baseline", other, "--diff", "--span=00000000000000aa"), 1);
	expect_printed("choose one");
	(void)snprintf(file, sizeof(file), "%s/b.pb", other);
	(void)remove(file);
	(void)remove(other);
}

/* The row of that function, counted from the head of the table. */
static const char *row_of(const char *function)
{
	const char *head = strstr(output, "self baseline");
	char end[64];

	(void)snprintf(end, sizeof(end), "  %s\n", function);
	return head != NULL ? strstr(head, end) : NULL;
}

/*
 * Self shares that changed most come first, in either direction, then total shares; functions without a change are in
 * the order of the table without a comparison.
 */
Test(report_compare, puts_the_largest_changes_first, .timeout = 20)
{
	static const char *const wrapped[] = {"parse", "wrap", "main"};
	static const char *const gone[] = {"gone", "main"};
	static const char *const idle[] = {"idle"};
	static const struct report_stack now[] = {STACK(wrapped, "00000000000000aa", "GET", 8),
						  STACK(render, "00000000000000aa", "GET", 4),
						  STACK(idle, "00000000000000aa", "GET", 4)};
	static const struct report_stack before[] = {STACK(wrapped, "00000000000000ac", "GET", 4),
						     STACK(render, "00000000000000ac", "GET", 6),
						     STACK(gone, "00000000000000ac", "GET", 2),
						     STACK(idle, "00000000000000ac", "GET", 4)};
	static const char *const order[] = {"parse", "render", "gone", "wrap", "idle", "main"};
	const char *last;

	report_write_stacks("a.pb", before, 4, THEN);
	report_write_stacks("b.pb", now, 3, THEN + 60);
	must_report("--from=2001-09-09T01:47", "--baseline-to=2001-09-09T01:47");

	expect_printed("  50.0%    25.0%   +25.0    50.0%    25.0%   +25.0  parse\n");
	expect_printed("  25.0%    37.5%   -12.5    25.0%    37.5%   -12.5  render\n");
	expect_printed("   0.0%    12.5%   -12.5     0.0%    12.5%   -12.5  gone\n");
	expect_printed("   0.0%     0.0%    +0.0    50.0%    25.0%   +25.0  wrap\n");
	expect_printed("  25.0%    25.0%    +0.0    25.0%    25.0%    +0.0  idle\n");
	expect_printed("   0.0%     0.0%    +0.0    75.0%    75.0%    +0.0  main\n");
	last = output;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		const char *at = row_of(order[i]);

		cr_assert_not_null(at, "%s", order[i]);
		cr_expect_gt(at, last, "%s in %s", order[i], output);
		last = at;
	}
	must_report("--from=2001-09-09T01:47", "--baseline-to=2001-09-09T01:47", "--top=2");
	cr_expect_not_null(row_of("render"));
	cr_expect_null(row_of("gone"));
}

/* Too few on either side. */
Test(report_compare, says_when_there_are_too_few_samples_to_compare, .timeout = 20)
{
	static const struct {
		unsigned now;
		unsigned before;
	} samples[] = {{10, 10}, {9, 10}, {10, 9}};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct report_stack now =
			STACK(parse, "00000000000000aa", "GET", samples[i].now);
		const struct report_stack before =
			STACK(parse, "00000000000000ab", "GET", samples[i].before);

		report_write_stacks("a.pb", &before, 1, THEN);
		report_write_stacks("b.pb", &now, 1, THEN + 60);
		must_report("--from=2001-09-09T01:47", "--baseline-to=2001-09-09T01:47");
		cr_expect_eq(printed("too few samples to compare"), i != 0, "%s", output);
	}
}

Test(report_compare, profiles_of_two_times, .timeout = 20)
{
	write_two("a.pb", "b.pb");

	must_report("--to=2001-09-09T01:47:00Z");
	expect_printed("1 profile, 10 samples");
	must_report("--from=2001-09-09T01:47");
	expect_printed("1 profile, 5 samples");
	must_report("--from=2001-09-09T01:47Z", "--baseline-to=2001-09-09 01:47:00");
	expect_printed("  20.0%    80.0%   -60.0");
	cr_expect_eq(run_scratch("--from=2001-09-10T00:00Z"), 1);
	expect_printed("no profiles of that time found");
	cr_expect_eq(run_scratch("--baseline-from=2001-09-10T00:00Z"), 1);
	expect_printed("there are no profiles to compare with");
	cr_expect_eq(run_scratch("--from=yesterday"), 1);
	expect_printed("not a time");
}

Test(report_compare, reads_points_in_time, .timeout = 20)
{
	static const uint64_t s = 1000000000;
	uint64_t ns;

	cr_expect(sp_time_point_read("2001-09-09T01:46:40Z", THEN + 5, &ns));
	cr_expect_eq(ns, THEN * s);
	cr_expect(sp_time_point_read("2001-09-09 01:46", THEN + 5, &ns));
	cr_expect_eq(ns, (THEN - 40) * s);
	cr_expect(sp_time_point_read("01:46:40", THEN + 5, &ns), "today");
	cr_expect_eq(ns, THEN * s);
	cr_expect(sp_time_point_read("-15m", THEN, &ns));
	cr_expect_eq(ns, (THEN - 900) * s);
	cr_expect(sp_time_point_read("-2h", THEN, &ns));
	cr_expect_eq(ns, (THEN - 7200) * s);
	setenv("TZ", "UTC-2", 1);
	tzset();
	cr_expect(sp_time_point_read("2001-09-09T03:46:40", THEN, &ns), "local time");
	cr_expect_eq(ns, THEN * s);
	cr_expect(sp_time_point_read("2001-09-09T01:46:40Z", THEN, &ns));
	cr_expect_eq(ns, THEN * s);
	cr_expect_not(sp_time_point_read("", THEN, &ns));
	cr_expect_not(sp_time_point_read("-15", THEN, &ns));
	cr_expect_not(sp_time_point_read("-15mm", THEN, &ns));
	cr_expect_not(sp_time_point_read("-99999999999999999999d", THEN, &ns));
	cr_expect_not(sp_time_point_read("2001-09-09", THEN, &ns));
	cr_expect_not(sp_time_point_read("2001-09-09T01:46:40X", THEN, &ns));
	cr_expect_not(sp_time_point_read("1901-01-01T00:00Z", THEN, &ns));
}

Test(report_compare, a_profile_belongs_to_the_time_of_its_middle, .timeout = 20)
{
	const struct sp_time_window w = {100, 200};
	const struct sp_time_window from = {100, 0};
	const struct sp_time_window any = {0, 0};

	cr_expect(sp_time_window_has(&w, 95, 10));
	cr_expect_not(sp_time_window_has(&w, 94, 10));
	cr_expect(sp_time_window_has(&w, 194, 10));
	cr_expect_not(sp_time_window_has(&w, 195, 10));
	cr_expect(sp_time_window_has(&from, 1000, 10));
	cr_expect_not(sp_time_window_has(&from, 0, 1000), "its time is unknown");
	cr_expect(sp_time_window_has(&any, 0, 0));
}

#define SCOPE                                                                                      \
	" (child spans count for their local root, unless the program runs with "                  \
	"SPANPROF_SPAN_ID_SCOPE=all)"

Test(report_compare, suggests_what_exists_for_what_does_not, .timeout = 20)
{
	write_two("a.pb", "b.pb");

	cr_expect_eq(run_scratch("--span=00000000000000ad"), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no span \"00000000000000ad\"; the "
				 "nearest: 00000000000000aa (GET), 00000000000000ac (GET), "
				 "00000000000000ab (PUT)" SCOPE "\n");
	cr_expect_eq(run_scratch("--json", "--span-name=get"), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no span name \"get\"; the nearest: "
				 "GET, PUT" SCOPE "\n");
	cr_expect_eq(run_scratch("--folded", "--trace=0102"), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no trace \"0102\"; the nearest: " TRACE
				 " (GET)\n");
	cr_expect_eq(run_scratch("--flamegraph=/dev/null", "--span=\x1b[2J"), 1);
	expect_not_printed("\x1b");
	cr_expect_eq(run_scratch("--span=00000000000000aa", "--span-name=PUT"), 1);
	expect_printed("not of this type, in this time, or under all of these conditions");
	cr_expect_eq(run_scratch("--span=00000000000000aa", "--from=2001-09-09T01:47Z"), 1);
	expect_printed("not of this type, in this time");
}

Test(report_compare, says_that_there_are_no_spans_at_all, .timeout = 20)
{
	static const struct report_stack stack[] = {{parse, 2, NULL, NULL, NULL, 1, 0, NULL, NULL}};

	report_write_stacks("a.pb", stack, 1, 0);

	cr_expect_eq(run_scratch("--span=00000000000000aa"), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no span \"00000000000000aa\"; no "
				 "sample has a span at all\n");
}

Test(report_compare, suggests_what_begins_most_like_it, .timeout = 20)
{
	static const struct report_stack stack[] = {
		STACK(parse, "00000000000000a1", "GET /orders/7", 1),
		STACK(parse, "00000000000000a2", "get /orders", 9),
		STACK(parse, "00000000000000a3", "GET", 3),
		STACK(parse, "00000000000000a4", "PUT /orders/new", 30),
		STACK(parse, "00000000000000a5", "GET /", 2),
		STACK(parse, "00000000000000a6", "POST /", 40),
		STACK(parse, "00000000000000a7", "", 50),
	};

	report_write_stacks("a.pb", stack, 7, 0);

	cr_expect_eq(run_scratch("--span-name=GET /orders/new"), 1);
	cr_expect_str_eq(output,
			 "spanprof-report: there is no span name \"GET /orders/new\"; the nearest: "
			 "GET /orders/7, get /orders, GET /, GET, POST /" SCOPE "\n");
}

static void read_of(struct sp_reading *r, const struct sp_report_options *o, char *const *path)
{
	static struct sp_strtab told;

	if (r->o == NULL)
		cr_assert_eq(sp_reading_init(r, o, &told), 0);
	r->wants_tree = r->tree.by_span = true;
	cr_assert_eq(sp_reading_run(r, path), 0, "%s", r->why);
}

/*
 * Sums that were sorted can grow further: they equal the sums of all files that are read at once, in the same order.
 */
Test(report_compare, goes_on_reading_where_it_was, .timeout = 20)
{
	char a[4096], b[4096];
	char *const both[] = {a, b, NULL};
	char *const one[] = {a, NULL};
	char *const other[] = {b, NULL};
	const struct sp_report_options o = {.form = SP_FORM_FLAMEGRAPH};
	struct sp_report_options asked = o;
	struct sp_reading whole = {.o = NULL};
	struct sp_reading parts = {.o = NULL};

	write_two("a.pb", "b.pb");
	(void)snprintf(a, sizeof(a), "%s/a.pb", scratch);
	(void)snprintf(b, sizeof(b), "%s/b.pb", scratch);
	read_of(&whole, &o, both);
	read_of(&parts, &o, one);
	cr_expect(sp_reading_may_go_on(&parts, &asked));
	read_of(&parts, &o, other);

	cr_expect_eq(parts.files, 2);
	cr_expect_eq(parts.tally.name.n, whole.tally.name.n);
	cr_expect_eq(parts.tally.span.n, whole.tally.span.n);
	cr_expect_eq(parts.tally.functions, whole.tally.functions);
	for (size_t i = 0; i < whole.tally.name.n; i++) {
		const struct sp_row *x = &parts.tally.name.row[i];
		const struct sp_row *y = &whole.tally.name.row[i];

		cr_expect_str_eq(sp_tally_text(&parts.tally, x->text),
				 sp_tally_text(&whole.tally, y->text));
		cr_expect_eq(x->sum.ns, y->sum.ns);
		cr_expect_eq(x->spans, y->spans);
	}
	for (size_t i = 0; i < whole.tally.functions; i++) {
		const struct sp_function_row *x = &parts.tally.function[i];
		const struct sp_function_row *y = &whole.tally.function[i];

		cr_expect_str_eq(sp_tally_text(&parts.tally, x->key),
				 sp_tally_text(&whole.tally, y->key));
		cr_expect_eq(x->self.ns, y->self.ns);
		cr_expect_eq(x->total.ns, y->total.ns);
	}
	cr_assert_eq(parts.tree.nodes, whole.tree.nodes);
	for (uint32_t x = 0, y = 0;;) {
		x = sp_tree_after(&parts.tree, x, true);
		y = sp_tree_after(&whole.tree, y, true);
		if (x == 0 || y == 0)
			break;
		cr_expect_str_eq(sp_tree_text(&parts.tree, &parts.tree.node[x]),
				 sp_tree_text(&whole.tree, &whole.tree.node[y]));
		cr_expect_eq(parts.tree.node[x].ns, whole.tree.node[y].ns);
	}
	asked.selection.span_id = "00000000000000aa";
	cr_expect_not(sp_reading_may_go_on(&parts, &asked), "of something else");
	asked = o;
	asked.window.from_ns = 1;
	cr_expect_not(sp_reading_may_go_on(&parts, &asked), "what was read may be of another time");
	sp_reading_fini(&whole);
	sp_reading_fini(&parts);
}
