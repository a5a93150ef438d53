/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about stacks by spanprof-report: comparison, lines, folded stacks. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/report/load.h"
#include "export/report/tally.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

#define SPAN "00000000000000aa"

static void set_up(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(report_views, .init = set_up, .fini = scratch_remove);

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const parse_more[] = {"parse@p.c:9", "handle@h.c:20", "main"};
static const char *const render[] = {"render", "handle@h.c:21", "main"};
static const char *const idle[] = {"[unsampled cpu]", "main"};

/* The span is 80 % parse, the two others of its name are 20 %; POST is another name. */
static void write_spans(void)
{
	static const struct report_stack stack[] = {
		STACK(parse, SPAN, "GET", 3),
		STACK(parse_more, SPAN, "GET", 5),
		STACK(render, SPAN, "GET", 2),
		STACK(parse, "00000000000000bb", "GET", 1),
		STACK(render, "00000000000000cc", "GET", 4),
		STACK(parse, "00000000000000dd", "POST", 50),
		{idle, 2, NULL, NULL, NULL, 0, 4000000, NULL, NULL},
	};

	report_write_stacks("a.pb", stack, sizeof(stack) / sizeof(stack[0]), 0);
}

Test(report_views, prints_a_row_per_span, .timeout = 20)
{
	write_spans();

	must_report("--top=2");

	expect_printed(" 4 spans\n");
	must_report("--span", SPAN);
	expect_printed(", 1 span\n");
	must_report("--top=2");
	expect_printed("0.00 s of it between samples, under [unsampled cpu]\n");
	expect_printed("                 50      0.500       76.9%  00000000000000dd  POST\n"
		       "                 10      0.100       15.4%  " SPAN "  GET\n"
		       "                    2 spans more\n");
}

/* Two threads, one of them outside of spans, and a sample without a thread. */
static void write_threads(void)
{
	static const struct report_stack stack[] = {
		{parse, 3, SPAN, "GET", TRACE, 3, 0, "worker", NULL},
		{render, 3, NULL, NULL, NULL, 5, 0, "worker", NULL},
		{idle, 2, NULL, NULL, NULL, 0, 10000000, "logger", NULL},
		{parse, 3, SPAN, "GET", TRACE, 1, 0, NULL, NULL},
	};

	report_write_stacks("a.pb", stack, sizeof(stack) / sizeof(stack[0]), 0);
}

Test(report_views, prints_a_row_per_name_of_threads_on_request, .timeout = 20)
{
	write_threads();

	must_report("--threads");
	expect_printed("            samples      CPU s  % of all  thread_name\n"
		       "                  8      0.080     80.0%  worker\n"
		       "                  0      0.010     10.0%  logger\n");
	must_report("--threads", "--top=1");
	expect_printed("worker\n                    1 names more\n");
	must_report("--top=1");
	expect_not_printed("worker");
	must_report("--threads", "--span=" SPAN);
	expect_not_printed("logger");
}

Test(report_views, json_has_the_names_of_threads, .timeout = 20)
{
	json_t *j, *row;

	write_threads();
	must_report("--json");
	j = json();

	cr_expect_eq(json_array_size(json_object_get(j, "threads")), 2);
	row = json_array_get(json_object_get(j, "threads"), 0);
	cr_expect_str_eq(text_of(row, "thread_name"), "worker");
	cr_expect_eq(number_of(row, "samples"), 8);
	cr_expect_eq(number_of(row, "ns"), 80000000);
	cr_expect_float_eq(real_of(row, "share"), 0.8, 1e-9);
	json_decref(j);
}

Test(report_views, says_when_no_sample_names_its_thread, .timeout = 20)
{
	write_spans();

	must_report("--threads");
	expect_printed("no sample has the name of its thread");
}

Test(report_views, compares_a_span_with_others_of_its_name, .timeout = 20)
{
	json_t *j, *row;

	write_spans();
	must_report("--diff", "--span=" SPAN);
	expect_printed("baseline: 5 samples, 0.05 s CPU of 2 other spans of that "
		       "name\n");
	expect_printed("  80.0%    20.0%   +60.0    80.0%    20.0%   +60.0  parse\n");
	expect_printed("  20.0%    80.0%   -60.0    20.0%    80.0%   -60.0  render\n");
	must_report("--diff", "--json", "--span=" SPAN);
	j = json();
	cr_expect_eq(number_of(json_object_get(j, "total"), "samples"), 10);
	cr_expect_eq(number_of(json_object_get(j, "baseline"), "spans"), 2);
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(text_of(row, "function"), "parse");
	row = json_object_get(row, "baseline");
	cr_expect_eq(number_of(row, "self_ns"), 10000000);
	cr_expect_float_eq(real_of(row, "self_change"), 0.6, 1e-9);
	json_decref(j);
}

Test(report_views, says_why_there_is_nothing_to_compare, .timeout = 20)
{
	write_spans();

	cr_expect_eq(run_scratch("--diff"), 1);
	expect_printed("--diff needs --span or --trace");
	cr_expect_eq(run_scratch("--diff", "--span-name=GET"), 1);
	cr_expect_eq(run_scratch("--diff", "--span=00000000000000dd"), 1);
	expect_printed("there is no other span of that name");
	cr_expect_eq(run_scratch("--diff", "--span=ffffffffffffffff"), 1);
	expect_printed("there is no span \"ffffffffffffffff\"; the nearest: ");
	cr_expect_eq(run_scratch("--json", "--folded"), 1);
	cr_expect_eq(run_scratch("--flamegraph=a.html", "--json"), 1);
}

Test(report_views, tells_lines_apart_when_asked_to, .timeout = 20)
{
	json_t *j, *row;

	write_spans();
	must_report("--span=" SPAN, "--lines");
	expect_printed("0.05     50.0%  parse (p.c:9)\n");
	expect_printed("0.03     30.0%  parse (p.c:7)\n");
	must_report("--span=" SPAN, "--lines", "--json");
	j = json();
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(text_of(row, "function"), "parse");
	cr_expect_str_eq(text_of(row, "file"), "p.c");
	cr_expect_eq(number_of(row, "line"), 9);
	json_decref(j);
}

Test(report_views, sums_up_what_lies_between_samples, .timeout = 20)
{
	json_t *j;

	write_spans();
	must_report("--json");
	j = json();

	cr_expect_eq(number_of(json_object_get(j, "residual"), "ns"), 4000000);
	cr_expect_eq(number_of(json_object_get(j, "residual"), "samples"), 0);
	json_decref(j);
}

Test(report_views, folds_stacks, .timeout = 20)
{
	write_spans();

	must_report("--span=" SPAN, "--folded");
	cr_expect_str_eq(output, "main;handle;parse 80000000\nmain;handle;render 20000000\n");
	must_report("--span=" SPAN, "--folded", "--diff");
	cr_expect_str_eq(output, "main;handle;parse 10000000 80000000\n"
				 "main;handle;render 40000000 20000000\n");
}

Test(report_views, folds_stacks_per_span_when_asked_to, .timeout = 20)
{
	write_spans();

	must_report("--span=" SPAN, "--folded", "--by=span");
	cr_expect_str_eq(output,
			 "GET;main;handle;parse 80000000\nGET;main;handle;render 20000000\n");
	must_report("--folded", "--by=span");
	expect_printed("(no span);main;[unsampled cpu] 4000000\n");
	cr_expect_eq(run_scratch("--folded", "--by="), 1);
	cr_expect_eq(run_scratch("--by=span"), 1);
}

Test(report_views, folds_names_that_hold_separators_or_nothing, .timeout = 20)
{
	static const char *const odd[] = {"a;b\nc", "", "main"};
	static const struct report_stack stack[] = {STACK(odd, NULL, NULL, 1)};

	report_write_stacks("a.pb", stack, 1, 0);

	must_report("--folded");
	cr_expect_str_eq(output, "main;;a:b c 10000000\n");
}

/* Readers of folded stacks take two numbers at the end of a line for a comparison. */
Test(report_views, folds_no_name_so_that_its_end_looks_like_a_value, .timeout = 20)
{
	static const char *const leaf[] = {"held by job 7", "job 8", "main"};
	static const char *const part[] = {"job 7.5", "main"};
	static const struct report_stack stack[] = {STACK(leaf, NULL, NULL, 1),
						    STACK(part, NULL, NULL, 2)};

	report_write_stacks("a.pb", stack, 2, 0);

	must_report("--folded");
	expect_printed("main;job 8;held by job_7 10000000\n");
	expect_printed("main;job_7.5 20000000\n");
}

Test(report_views, terminals_get_no_control_characters, .timeout = 20)
{
	static const char *const odd[] = {"f\x1b]0;title\a",
					  ("g\xc2\x9b"
					   "31m"),
					  "main"};
	static const struct report_stack stack[] = {STACK(odd, SPAN, "GET\x1b[2J", 1)};

	report_write_stacks("a.pb", stack, 1, 0);

	must_report("--top=9");
	for (const char *s = output; *s != '\0'; s++)
		cr_expect((unsigned char)*s >= ' ' || *s == '\n', "%02x", *s);
	expect_not_printed("\xc2\x9b");
}

Test(report_views, calls_a_renamed_span_by_the_name_it_had_most, .timeout = 20)
{
	const struct report_stack stack[] = {
		{parse, 3, SPAN, "draft", TRACE, 1, 0, NULL, NULL},
		{render, 3, SPAN, "GET /orders", TRACE, 20, 0, NULL, NULL},
		{parse_more, 3, SPAN, "draft", TRACE, 2, 0, NULL, NULL},
	};
	json_t *root, *span;

	report_write_stacks("a.pb", stack, 3, 0);
	must_report("--json");
	root = json_loads(output, 0, NULL);
	cr_assert_not_null(root, "%s", output);

	cr_expect_eq(json_array_size(json_object_get(root, "spans")), 1);
	span = json_array_get(json_object_get(root, "spans"), 0);
	cr_expect_str_eq(text_of(span, "span_name"), "GET /orders");
	cr_expect_eq(number_of(span, "samples"), 23);
	json_decref(root);
}

/* The hint is one line, about the worst such object, and only if functions without names have self time. */
Test(report_views, says_once_how_to_get_names_instead_of_addresses, .timeout = 20)
{
	static const char *const sine[] = {"libm.so.6+0x702c0", "main"};
	static const char *const other[] = {"libm.so.6+0x81230", "main"};
	static const char *const own[] = {"parse", "libfast.so.3+0x1c0", "main"};
	static const char *const fast[] = {"libfast.so.3+0x1c0", "main"};
	static const char *const plus[] = {"operator+", "main"};
	static const struct report_stack of_libc[] = {STACK(sine, "00000000000000aa", "GET", 60),
						      STACK(other, "00000000000000aa", "GET", 30),
						      STACK(plus, "00000000000000aa", "GET", 99)};
	static const struct report_stack of_others[] = {STACK(fast, "00000000000000aa", "GET", 2),
							STACK(own, "00000000000000aa", "GET", 98)};
	static const struct report_stack rare[] = {STACK(fast, "00000000000000aa", "GET", 1),
						   STACK(own, "00000000000000aa", "GET", 199)};
	char *page;

	report_write_stacks("a.pb", of_libc, 3, 0);
	must_report("--top", "2");
	expect_printed("\nlibm.so.6+0x702c0 is a function without a name: install the symbols "
		       "of the "
		       "C library (libc6-dbg), or run the program with DEBUGINFOD_URLS\n");
	cr_expect_eq(report_count(output, "DEBUGINFOD_URLS"), 1);
	must_report("--flamegraph", in_scratch("a.html"));
	page = report_file(in_scratch("a.html"));
	cr_expect_eq(report_count(page, "libc6-dbg"), 1);
	free(page);
	must_report("--json");
	expect_not_printed("DEBUGINFOD_URLS");

	report_write_stacks("a.pb", of_others, 2, 0);
	must_report("--lines");
	expect_printed("install the debug symbols of libfast.so.3, or");
	report_write_stacks("a.pb", rare, 2, 0);
	must_report("--lines");
	expect_not_printed("DEBUGINFOD_URLS");
}

Test(report_views, knows_the_spellings_of_off_cpu, .timeout = 20)
{
	static const char *const lock[] = {"futex (lock)", "main"};
	static const struct report_stack stack[] = {STACK(lock, "00000000000000aa", "GET", 60)};
	struct sp_bytes b = report_profile_of(SP_PROFILE_OFF_CPU, stack, 1);

	scratch_write("a.pb", b.data, b.len);
	free(b.data);
	for (size_t i = 0; i < 3; i++) {
		static const char *const type[] = {"off_cpu", "offcpu", "off-CPU"};

		cr_expect_eq(run_scratch("--type", type[i]), 0, "%s: %s", type[i], output);
		cr_expect(printed("futex (lock)"), "%s: %s", type[i], output);
	}
	cr_expect_eq(run_scratch("--type", "wal\n"), 1);
	expect_printed(": no profiles of type \"wal \" found\n");
	cr_expect_eq(report_count(output, scratch), 1, "which folder: %s", output);
	cr_expect_eq(run_scratch("--type", "wall"), 1);
	expect_printed("found; the program needs SPANPROF_WALL=true\n");
}

static const char *route_of(const struct report_stack *stack)
{
	if (stack->span_id == NULL || stack->span_id[15] == 'b')
		return NULL;
	return stack->span_id[15] == 'a' ? "/orders/{id}" : "/cart";
}

/* Dots of an attribute's name are underscores in a label. */
Test(report_views, prints_a_row_per_value_of_an_attribute, .timeout = 20)
{
	json_t *d;

	report_route = route_of;
	write_spans();
	must_report("--by=http.route");
	expect_printed("            samples      CPU s  % of all  http.route\n"
		       "                 54      0.540     82.6%  /cart\n"
		       "                 10      0.100     15.3%  /orders/{id}\n");
	must_report("--by", "http_route", "--json");
	d = json_loads(output, 0, NULL);
	cr_assert_eq(json_array_size(json_object_get(d, "values")), 2);
	cr_expect_str_eq(text_of(json_array_get(json_object_get(d, "values"), 0), "value"),
			 "/cart");
	json_decref(d);
	must_report("--by", "http.route", "--folded");
	cr_expect(printed("\n/cart;") || strncmp(output, "/cart;", 6) == 0, "%s", output);
	expect_printed("(no value);");
}

Test(report_views, says_when_no_sample_has_the_attribute, .timeout = 20)
{
	write_spans();
	cr_expect_eq(run_scratch("--by", "db.statement"), 1);
	expect_printed("no sample has the label \"db.statement\"; the program needs "
		       "SPANPROF_SPAN_LABELS=db.statement");
}

static void check_labels(void *arg, const struct sp_report_sample *s)
{
	++*(unsigned *)arg;
#define READ_(name) cr_expect_str_eq(s->name, "value of " #name);
	SP_FOR_EACH_SAMPLE_LABEL(READ_)
#undef READ_
}

Test(report_views, reads_each_label_of_a_sample, .timeout = 20)
{
	static const struct sp_pprof_limits limits = {1000, 1 << 20};
	static const struct sp_pprof_mapping m = {0x1000, 0x2000, 0, "/bin/x", "", true, true};
	struct sp_pprof *p = sp_pprof_new(&limits, &(struct sp_pprof_times){.duration_ns = 1});
	unsigned samples = 0;
	const struct sp_report_sink sink = {.sample = check_labels, .arg = &samples};
	struct sp_pprof_line line = {0, 0};
	char why[SP_REPORT_ERROR];
	struct sp_bytes b;
	uint64_t mapping;
	uint64_t id;
	static const struct sp_label label[] = {
#define VALUE_(name) {#name, "value of " #name},
		SP_FOR_EACH_SAMPLE_LABEL(VALUE_)
#undef VALUE_
	};
	const struct sp_pprof_sample s = {.location = &id,
					  .locations = 1,
					  .count = 1,
					  .ns = 1,
					  .label = label,
					  .labels = sizeof(label) / sizeof(label[0])};

	cr_assert_eq(sp_pprof_mapping(p, &m, &mapping), 0);
	cr_assert_eq(sp_pprof_function(p, "work", "work", "", &line.function), 0);
	cr_assert_eq(sp_pprof_location(p, mapping, 0x1234, &line, 1, &id), 0);
	cr_assert_eq(sp_pprof_sample(p, &s), 0);
	cr_assert_eq(sp_pprof_pack(p, &b), 0);
	sp_pprof_free(p);
	cr_assert_eq(sp_report_load(&b, SP_REPORT_MEMORY_MAX, &sink, why), 0, "%s", why);
	cr_expect_eq(samples, 1);
	free(b.data);
}

/* Sorting moves the rows; later values must still reach the right row. */
Test(report_views, adds_to_sums_that_were_sorted, .timeout = 20)
{
	struct sp_report_sample s[] = {{.samples = 1,
					.ns = 1,
					.span_id = "00000000000000aa",
					.span_name = "GET",
					.trace_id = "",
					.thread_name = "one",
					.blocked_by_span_id = "",
					.by = "/a"}};
	struct sp_report_sample more = s[0];
	struct sp_tally t;

	more.ns = 10;
	more.span_id = "00000000000000bb";
	more.span_name = "POST";
	more.thread_name = "two";
	more.by = "/b";
	cr_assert_eq(sp_tally_init(&t), 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct sp_rows *const rows[] = {&t.name, &t.span, &t.thread, &t.by};

		sp_tally_add(&t, s, SP_SIDE_SELECTED);
		sp_tally_add(&t, &more, SP_SIDE_SELECTED);
		sp_tally_sort(&t);
		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			cr_assert_eq(rows[k]->n, 2, "%zu", k);
			cr_expect_eq(rows[k]->row[0].sum.ns, 10 * (i + 1), "%zu", k);
			cr_expect_eq(rows[k]->row[1].sum.ns, i + 1, "%zu", k);
		}
	}
	sp_tally_fini(&t);
}
