/* SPDX-License-Identifier: Apache-2.0 */
/* --focus, --ignore and --hide of spanprof-report. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "report_unit.h"
#include "test/unit/scratch.h"

TestSuite(report_filter, .init = scratch_make, .fini = scratch_remove);

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const render[] = {"render", "handle@h.c:21", "main"};
static const char *const idle[] = {"[unsampled cpu]", "main"};
static const char *const alone[] = {"start"};

/* 8 samples in parse, 2 in render, 1 in start, and 40 ms between samples. */
static void write_stacks(void)
{
	static const struct report_stack stack[] = {
		STACK(parse, "00000000000000aa", "GET", 8),
		STACK(render, "00000000000000bb", "parse", 2),
		STACK(alone, "00000000000000cc", "GET", 1),
		{idle, 2, NULL, NULL, NULL, 0, 40000000, NULL, NULL},
	};

	report_write_stacks("a.pb", stack, sizeof(stack) / sizeof(stack[0]), 1000000000);
}

/* "self/total" samples of a function, "" = it is missing. */
static const char *sums_of(const json_t *j, const char *function)
{
	static char text[64];
	const json_t *f;
	size_t i;

	text[0] = '\0';
	json_array_foreach(json_object_get(j, "functions"), i,
			   f) if (strcmp(text_of(f, "function"), function) == 0)(void)
		snprintf(text, sizeof(text), "%d/%d", (int)number_of(f, "self_samples"),
			 (int)number_of(f, "total_samples"));
	return text;
}

static json_int_t samples_of(const json_t *j, const char *key)
{
	return number_of(json_object_get(j, key), "samples");
}

Test(report_filter, focus_takes_whole_stacks_with_a_match)
{
	json_t *j;

	write_stacks();
	must_report("--json", "--focus", "^pa.se$");
	j = json();

	cr_expect_eq(samples_of(j, "total"), 8);
	cr_expect_eq(samples_of(j, "unfiltered"), 11);
	cr_expect_str_eq(sums_of(j, "parse"), "8/8");
	cr_expect_str_eq(sums_of(j, "main"), "0/8");
	cr_expect_str_eq(sums_of(j, "render"), "", "the name of a span is not compared");
	cr_expect_eq(json_array_size(json_object_get(j, "spans")), 1);
	json_decref(j);
}

Test(report_filter, ignore_leaves_stacks_out_and_hide_functions)
{
	json_t *j;

	write_stacks();
	must_report("--json", "--ignore", "unsampled|^start$", "--hide", "parse|main");
	j = json();

	cr_expect_eq(samples_of(j, "total"), 10);
	cr_expect_eq(number_of(json_object_get(j, "residual"), "ns"), 0);
	cr_expect_str_eq(sums_of(j, "handle"), "8/10", "what it calls is hidden");
	cr_expect_str_eq(sums_of(j, "parse"), "");
	cr_expect_str_eq(sums_of(j, "main"), "");
	json_decref(j);
}

Test(report_filter, a_stack_of_which_all_is_hidden_is_left_out)
{
	json_t *j;

	write_stacks();
	must_report("--json", "--hide", "start");
	j = json();

	cr_expect_eq(samples_of(j, "total"), 10);
	cr_expect_str_eq(sums_of(j, "start"), "");
	json_decref(j);
}

Test(report_filter, says_what_is_left)
{
	write_stacks();

	must_report("--focus", "parse", "--hide", "handle");
	expect_printed("--focus \"parse\", --hide \"handle\": 0.080 of 0.150 s, 8 of 11 samples "
		       "(53.3 %)\n");
	expect_printed("1 profile, 8 samples, 0.08 s CPU;");
	must_report("--hide", "nowhere");
	expect_printed("spanprof-report: --hide: no function matches \"nowhere\"\n");
	must_report("--json");
	expect_not_printed("unfiltered");
}

Test(report_filter, lines_are_compared_where_they_are_shown)
{
	write_stacks();

	cr_expect_eq(run_scratch("--focus", "p\\.c:7"), 1);
	expect_printed("spanprof-report: --focus: no function matches \"p\\.c:7\"\n");
	must_report("--lines", "--focus", "p\\.c:7");
	expect_printed("8 samples");
}

Test(report_filter, all_outputs_have_the_same)
{
	char path[512];
	char *page;

	write_stacks();
	must_report("--folded", "--focus", "parse", "--hide", "main");
	cr_expect_str_eq(output, "handle;parse 80000000\n");
	(void)snprintf(path, sizeof(path), "%s/page.html", scratch);
	must_report("--flamegraph", path, "--focus", "<b>|parse");
	page = report_file(path);
	cr_expect_not_null(
		strstr(page, "--focus \\u0022\\u003cb\\u003e|parse\\u0022: 0.080 of 0.150 s"),
		"%.3000s", page);
	cr_expect_null(strstr(page, "\"render\""));
	free(page);
}

Test(report_filter, both_sides_of_a_comparison_are_filtered)
{
	json_t *j;

	write_stacks();
	must_report("--json", "--baseline", scratch, "--focus", "render");
	j = json();

	cr_expect_eq(samples_of(j, "total"), 2);
	cr_expect_eq(samples_of(j, "baseline"), 2);
	json_decref(j);
}

Test(report_filter, a_wrong_expression_is_told_in_one_line)
{
	static const char *const wrong[] = {"(", "[a", "a{2,1}", "", "\\"};
	static const char *const option[] = {"--focus", "--ignore", "--hide"};

	write_stacks();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *name = option[i % 3];

		cr_expect_eq(run_scratch(name, wrong[i]), 1, "%s", wrong[i]);
		cr_expect_eq(report_count(output, "\n"), 1, "%s", output);
		cr_expect_eq(strncmp(output, "spanprof-report: --", 19), 0, "%s", output);
		cr_expect(printed(name), "%s", output);
	}
	cr_expect_eq(run_scratch("--focus", "render", "--ignore", "main"), 1);
	expect_printed(
		"spanprof-report: --focus, --ignore and --hide leave out all that is selected\n");
}
