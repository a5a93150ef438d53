/* SPDX-License-Identifier: Apache-2.0 */
/* What spanprof-report compares, of which time it reads, and what it suggests for unknown spans. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/report/suggest.h"
#include "export/report/time_window.h"
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

/* The first is 80 % parse, the second, a minute later, 20 %. */
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

	cr_expect_eq(run_scratch("--baseline", other), 0);
	cr_expect(printed("1 profile, 10 samples"), "%s", output);
	cr_expect(printed("baseline: 5 samples, 0.05 s CPU in 1 profile\n"), "%s", output);
	cr_expect(printed("  80.0%    20.0%   +60.0    80.0%    20.0%   +60.0  parse\n"), "%s",
		  output);
	cr_expect_eq(run_scratch("--baseline", other, "--span-name=GET"), 0);
	cr_expect(printed(" 100.0%    20.0%   +80.0"), "%s", output);
	cr_expect_eq(run_scratch("--baseline", other, "--span-name=PUT"), 1);
	cr_expect(printed("have no such samples"), "%s", output);
	cr_expect_eq(run_scratch("--baseline=/nonexistent"), 2);
	cr_expect_eq(run_scratch("--baseline", other, "--diff", "--span=00000000000000aa"), 1);
	cr_expect(printed("choose one"), "%s", output);
	(void)snprintf(file, sizeof(file), "%s/b.pb", other);
	(void)remove(file);
	(void)remove(other);
}

Test(report_compare, profiles_of_two_times, .timeout = 20)
{
	write_two("a.pb", "b.pb");

	cr_expect_eq(run_scratch("--to=2001-09-09T01:47:00Z"), 0);
	cr_expect(printed("1 profile, 10 samples"), "%s", output);
	cr_expect_eq(run_scratch("--from=2001-09-09T01:47"), 0);
	cr_expect(printed("1 profile, 5 samples"), "%s", output);
	cr_expect_eq(run_scratch("--from=2001-09-09T01:47Z", "--baseline-to=2001-09-09 01:47:00"),
		     0);
	cr_expect(printed("  20.0%    80.0%   -60.0"), "%s", output);
	cr_expect_eq(run_scratch("--from=2001-09-10T00:00Z"), 1);
	cr_expect(printed("no profiles of that time found"), "%s", output);
	cr_expect_eq(run_scratch("--baseline-from=2001-09-10T00:00Z"), 1);
	cr_expect(printed("there are no profiles to compare with"), "%s", output);
	cr_expect_eq(run_scratch("--from=yesterday"), 1);
	cr_expect(printed("not a time"), "%s", output);
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
	cr_expect_not(printed("\x1b"));
	cr_expect_eq(run_scratch("--span=00000000000000aa", "--span-name=PUT"), 1);
	cr_expect(printed("not of this type, in this time, or under all of these conditions"), "%s",
		  output);
	cr_expect_eq(run_scratch("--span=00000000000000aa", "--from=2001-09-09T01:47Z"), 1);
	cr_expect(printed("not of this type, in this time"), "%s", output);
}

Test(report_compare, says_that_there_are_no_spans_at_all, .timeout = 20)
{
	static const struct report_stack stack[] = {{parse, 2, NULL, NULL, NULL, 1, 0, NULL}};

	report_write_stacks("a.pb", stack, 1, 0);

	cr_expect_eq(run_scratch("--span=00000000000000aa"), 1);
	cr_expect_str_eq(output, "spanprof-report: there is no span \"00000000000000aa\"; no "
				 "sample has a span at all\n");
}

Test(report_compare, measures_how_near_texts_are, .timeout = 20)
{
	char a[200], b[200];

	cr_expect_eq(sp_suggest_distance("GET /orders", "get /orders"), 0);
	cr_expect_eq(sp_suggest_distance("GET", "GET /orders"), 0, "its beginning");
	cr_expect_eq(sp_suggest_distance("GET /orders", "PUT /orders"), 2);
	cr_expect_eq(sp_suggest_distance("kitten", "sitting"), 3);
	cr_expect_eq(sp_suggest_distance("", "abc"), 3);
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	a[199] = b[199] = '\0';
	cr_expect_eq(sp_suggest_distance(a, b), 64, "of long ones only the beginning counts");
}
