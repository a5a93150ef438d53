/* SPDX-License-Identifier: Apache-2.0 */
/* What spanprof-report makes of stacks: comparison, lines, folded stacks, flame graphs. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report_unit.h"
#include "test/unit/scratch.h"

#define SPAN "00000000000000aa"
#define TRACE "0102030405060708090a0b0c0d0e0f10"

static void set_up(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(report_views, .init = set_up, .fini = scratch_remove);

static void write_stacks(const char *name, const struct report_stack *stack, size_t n)
{
	struct sp_bytes b = report_profile(stack, n);

	scratch_write(name, b.data, b.len);
	free(b.data);
}

#define run(...)                                                                                   \
	report_run((const char *const[]){__VA_ARGS__, scratch, NULL}, output, sizeof(output))

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const parse_more[] = {"parse@p.c:9", "handle@h.c:20", "main"};
static const char *const render[] = {"render", "handle@h.c:21", "main"};
static const char *const idle[] = {"[unsampled cpu]", "main"};

#define STACK(f, id, name, count)                                                                  \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, TRACE, count, 0, NULL                       \
	}

/* The span is 80 % parse, the two others of its name are 20 %; POST is none of them. */
static void write_spans(void)
{
	static const struct report_stack stack[] = {
		STACK(parse, SPAN, "GET", 3),
		STACK(parse_more, SPAN, "GET", 5),
		STACK(render, SPAN, "GET", 2),
		STACK(parse, "00000000000000bb", "GET", 1),
		STACK(render, "00000000000000cc", "GET", 4),
		STACK(parse, "00000000000000dd", "POST", 50),
		{idle, 2, NULL, NULL, NULL, 0, 4000000, NULL},
	};

	write_stacks("a.pb", stack, sizeof(stack) / sizeof(stack[0]));
}

static char *read_text(const char *path)
{
	char *text = calloc(1, 4 << 20);
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f, "%s", path);
	(void)!fread(text, 1, (4 << 20) - 1, f);
	fclose(f);
	return text;
}

Test(report_views, prints_a_row_per_span, .timeout = 20)
{
	write_spans();

	cr_assert_eq(run("--top=2"), 0, "%s", output);

	cr_expect_not_null(strstr(output, "0.00 s of it between samples, under [unsampled cpu]\n"));
	cr_expect_not_null(strstr(output,
				  "                 50      0.500   76.9%  00000000000000dd  POST\n"
				  "                 10      0.100   15.4%  " SPAN "  GET\n"
				  "                    2 spans more\n"),
			   "%s", output);
}

/* Two threads, one of them outside of spans, and a sample that says nothing of its thread. */
static void write_threads(void)
{
	static const struct report_stack stack[] = {
		{parse, 3, SPAN, "GET", TRACE, 3, 0, "worker"},
		{render, 3, NULL, NULL, NULL, 5, 0, "worker"},
		{idle, 2, NULL, NULL, NULL, 0, 10000000, "logger"},
		{parse, 3, SPAN, "GET", TRACE, 1, 0, NULL},
	};

	write_stacks("a.pb", stack, sizeof(stack) / sizeof(stack[0]));
}

Test(report_views, prints_a_row_per_name_of_threads_on_request, .timeout = 20)
{
	write_threads();

	cr_assert_eq(run("--threads"), 0, "%s", output);
	cr_expect_not_null(strstr(output, "            samples      CPU s   share  thread_name\n"
					  "                  8      0.080   80.0%  worker\n"
					  "                  0      0.010   10.0%  logger\n"),
			   "%s", output);
	cr_assert_eq(run("--threads", "--top=1"), 0, "%s", output);
	cr_expect_not_null(strstr(output, "worker\n                    1 names more\n"), "%s",
			   output);
	cr_assert_eq(run("--top=1"), 0, "%s", output);
	cr_expect_null(strstr(output, "worker"), "%s", output);
	cr_assert_eq(run("--threads", "--span=" SPAN), 0, "%s", output);
	cr_expect_null(strstr(output, "logger"), "%s", output);
}

Test(report_views, json_has_the_names_of_threads, .timeout = 20)
{
	json_t *j, *row;

	write_threads();
	cr_assert_eq(run("--json"), 0, "%s", output);
	j = json();

	cr_expect_eq(json_array_size(json_object_get(j, "threads")), 2);
	row = json_array_get(json_object_get(j, "threads"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(row, "thread_name")), "worker");
	cr_expect_eq(json_integer_value(json_object_get(row, "samples")), 8);
	cr_expect_eq(json_integer_value(json_object_get(row, "ns")), 80000000);
	cr_expect_float_eq(json_real_value(json_object_get(row, "share")), 0.8, 1e-9);
	json_decref(j);
}

Test(report_views, says_when_no_sample_names_its_thread, .timeout = 20)
{
	write_spans();

	cr_assert_eq(run("--threads"), 0, "%s", output);
	cr_expect_not_null(strstr(output, "no sample has the name of its thread"), "%s", output);
}

Test(report_views, compares_a_span_with_others_of_its_name, .timeout = 20)
{
	json_t *j, *row;

	write_spans();
	cr_assert_eq(run("--diff", "--span=" SPAN), 0, "%s", output);
	cr_expect_not_null(strstr(output,
				  "baseline: 5 samples, 0.05 s CPU of 2 other spans of that "
				  "name\n"),
			   "%s", output);
	cr_expect_not_null(
		strstr(output, "  80.0%    20.0%   +60.0    80.0%    20.0%   +60.0  parse\n"), "%s",
		output);
	cr_expect_not_null(
		strstr(output, "  20.0%    80.0%   -60.0    20.0%    80.0%   -60.0  render\n"),
		"%s", output);
	cr_assert_eq(run("--diff", "--json", "--span=" SPAN), 0, "%s", output);
	j = json();
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "total"), "samples")),
		     10);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "baseline"), "spans")),
		     2);
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(row, "function")), "parse");
	row = json_object_get(row, "baseline");
	cr_expect_eq(json_integer_value(json_object_get(row, "self_ns")), 10000000);
	cr_expect_float_eq(json_real_value(json_object_get(row, "self_change")), 0.6, 1e-9);
	json_decref(j);
}

Test(report_views, says_why_there_is_nothing_to_compare, .timeout = 20)
{
	write_spans();

	cr_expect_eq(run("--diff"), 1);
	cr_expect_not_null(strstr(output, "--diff needs --span or --trace"), "%s", output);
	cr_expect_eq(run("--diff", "--span-name=GET"), 1);
	cr_expect_eq(run("--diff", "--span=00000000000000dd"), 1);
	cr_expect_not_null(strstr(output, "there is no other span of that name"), "%s", output);
	cr_expect_eq(run("--diff", "--span=ffffffffffffffff"), 1);
	cr_expect_not_null(strstr(output, "no sample is selected"), "%s", output);
	cr_expect_eq(run("--json", "--folded"), 1);
}

Test(report_views, tells_lines_apart_when_asked_to, .timeout = 20)
{
	json_t *j, *row;

	write_spans();
	cr_assert_eq(run("--span=" SPAN, "--lines"), 0, "%s", output);
	cr_expect_not_null(strstr(output, "0.05   50.0%  parse (p.c:9)\n"), "%s", output);
	cr_expect_not_null(strstr(output, "0.03   30.0%  parse (p.c:7)\n"), "%s", output);
	cr_assert_eq(run("--span=" SPAN, "--lines", "--json"), 0, "%s", output);
	j = json();
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(row, "function")), "parse");
	cr_expect_str_eq(json_string_value(json_object_get(row, "file")), "p.c");
	cr_expect_eq(json_integer_value(json_object_get(row, "line")), 9);
	json_decref(j);
}

Test(report_views, sums_up_what_lies_between_samples, .timeout = 20)
{
	json_t *j;

	write_spans();
	cr_assert_eq(run("--json"), 0, "%s", output);
	j = json();

	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "residual"), "ns")),
		     4000000);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "residual"), "samples")),
		     0);
	json_decref(j);
}

Test(report_views, folds_stacks, .timeout = 20)
{
	write_spans();

	cr_assert_eq(run("--span=" SPAN, "--folded"), 0, "%s", output);
	cr_expect_str_eq(output, "main;handle;parse 80000000\nmain;handle;render 20000000\n");
	cr_assert_eq(run("--span=" SPAN, "--folded", "--diff"), 0, "%s", output);
	cr_expect_str_eq(output, "main;handle;parse 10000000 80000000\n"
				 "main;handle;render 40000000 20000000\n");
}

Test(report_views, folds_names_that_hold_separators, .timeout = 20)
{
	static const char *const odd[] = {"a;b\nc", "main"};
	static const struct report_stack stack[] = {STACK(odd, NULL, NULL, 1)};

	write_stacks("a.pb", stack, 1);

	cr_assert_eq(run("--folded"), 0, "%s", output);
	cr_expect_str_eq(output, "main;a:b c 10000000\n");
}

Test(report_views, terminals_get_no_control_characters, .timeout = 20)
{
	static const char *const odd[] = {"f\x1b]0;title\a",
					  ("g\xc2\x9b"
					   "31m"),
					  "main"};
	static const struct report_stack stack[] = {STACK(odd, SPAN, "GET\x1b[2J", 1)};

	write_stacks("a.pb", stack, 1);

	cr_assert_eq(run("--top=9"), 0, "%s", output);
	for (const char *s = output; *s != '\0'; s++)
		cr_expect((unsigned char)*s >= ' ' || *s == '\n', "%02x", *s);
	cr_expect_null(strstr(output, "\xc2\x9b"));
}

/* How many times part is in text. */
static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

Test(report_views, draws_a_flame_graph, .timeout = 20)
{
	char *svg, *again;

	write_spans();
	cr_assert_eq(run("--flamegraph", in_scratch("a.svg"), "--span=" SPAN), 0, "%s", output);
	svg = read_text(in_scratch("a.svg"));

	cr_expect_not_null(strstr(svg, ">CPU time of span " SPAN " (GET)</text>"));
	cr_expect_eq(count(svg, "<g class=\"f"), 5, "all, main, handle, parse and render");
	cr_expect_not_null(strstr(svg, "<title>parse\n80.00 %, 0.080 s; itself 0.080 s</title>"
				       "<rect x=\"10.00\" y=\"124.00\" width=\"944.00\""));
	cr_expect_not_null(strstr(svg, "<title>render\n20.00 %, 0.020 s; itself 0.020 s</title>"
				       "<rect x=\"954.00\" y=\"124.00\" width=\"236.00\""));
	cr_expect_null(strstr(svg, "href"), "self-contained");
	cr_assert_eq(run("--flamegraph", in_scratch("b.svg"), "--span=" SPAN), 0, "%s", output);
	again = read_text(in_scratch("b.svg"));
	cr_expect_str_eq(svg, again);
	free(svg);
	free(again);
}

Test(report_views, the_order_of_files_does_not_matter, .timeout = 20)
{
	static const struct report_stack one[] = {STACK(render, NULL, NULL, 2)};
	static const struct report_stack two[] = {STACK(parse, NULL, NULL, 2)};
	char a[200], b[200], first[200], second[200];
	char *x, *y;

	write_stacks("one", one, 1);
	write_stacks("two", two, 1);
	strcpy(a, in_scratch("one"));
	strcpy(b, in_scratch("two"));
	strcpy(first, in_scratch("1.svg"));
	strcpy(second, in_scratch("2.svg"));
	cr_assert_eq(report_run((const char *const[]){"--flamegraph", first, a, b, NULL}, output,
				sizeof(output)),
		     0);
	cr_assert_eq(report_run((const char *const[]){"--flamegraph", second, b, a, NULL}, output,
				sizeof(output)),
		     0);

	x = read_text(first);
	y = read_text(second);
	cr_expect_str_eq(x, y);
	free(x);
	free(y);
}

Test(report_views, draws_the_difference, .timeout = 20)
{
	char *svg;

	write_spans();
	cr_assert_eq(run("--flamegraph", in_scratch("a.svg"), "--span=" SPAN, "--diff"), 0, "%s",
		     output);
	svg = read_text(in_scratch("a.svg"));

	cr_expect_not_null(strstr(svg,
				  "<title>parse\n80.00 % here, 20.00 % in the baseline (+60.00 "
				  "points)</title><rect x=\"10.00\" y=\"124.00\" width=\"590.00\" "
				  "height=\"17\" fill=\"#eb"),
			   "half of 80 and 20 %%, and red");
	cr_expect_not_null(strstr(svg, "(-60.00 points)"));
	free(svg);
}

/* Every name of every kind is text, and stays it. */
Test(report_views, names_are_never_markup, .timeout = 20)
{
	static const char *const odd[] = {"</title><script>alert(1)</script>", "operator<<\"&\"",
					  "]]>", "\xef\xbf\xbf\xff\x01\xed\xa0\x80", "main"};
	static const struct report_stack stack[] = {STACK(odd, SPAN, "<b>&", 1)};
	char *svg;
	char cmd[400];

	write_stacks("a.pb", stack, 1);
	cr_assert_eq(run("--flamegraph", in_scratch("a.svg"), "--span-name=<b>&"), 0, "%s", output);
	svg = read_text(in_scratch("a.svg"));

	cr_expect_null(strstr(svg, "<script>alert"));
	cr_expect_eq(count(svg, "<script>"), 1);
	cr_expect_not_null(strstr(svg, "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;\n"));
	cr_expect_not_null(strstr(svg, "operator&lt;&lt;&quot;&amp;&quot;"));
	cr_expect_not_null(strstr(svg, "spans named &lt;b&gt;&amp;"));
	(void)snprintf(cmd, sizeof(cmd),
		       "python3 -c 'import sys, xml.dom.minidom as m; "
		       "m.parse(sys.argv[1])' '%s'",
		       in_scratch("a.svg"));
	cr_expect_eq(system(cmd), 0, "not well-formed");
	free(svg);
}

Test(report_views, deep_stacks_are_cut_and_narrow_ones_counted, .timeout = 20)
{
	static const char *deep[1500], *wide[1];
	static char name[1500][16];
	static struct report_stack stack[2] = {{deep, 1500, NULL, NULL, NULL, 1, 30000000, NULL},
					       {wide, 1, NULL, NULL, NULL, 1, 1000, NULL}};
	char *svg;

	for (unsigned i = 0; i < 1500; i++) {
		(void)snprintf(name[i], sizeof(name[i]), "f%u", i);
		deep[i] = name[i];
	}
	wide[0] = "narrow";
	write_stacks("a.pb", stack, 2);
	cr_assert_eq(run("--flamegraph", in_scratch("a.svg")), 0, "%s", output);
	svg = read_text(in_scratch("a.svg"));

	cr_expect_not_null(strstr(svg, "<title>f476\n100.00 %, 0.030 s; itself 0.030 s<"));
	cr_expect_null(strstr(svg, "<title>f475\n"));
	cr_expect_not_null(strstr(svg, "with all they call: 1 frames."));
	free(svg);
}

Test(report_views, says_when_the_picture_cannot_be_written, .timeout = 20)
{
	write_spans();

	cr_expect_eq(run("--flamegraph", "/nonexistent/a.svg"), 2);
	cr_expect_str_eq(output,
			 "spanprof-report: /nonexistent/a.svg: No such file or directory\n");
	cr_expect_eq(run("--flamegraph", "/dev/full"), 2);
	cr_expect_str_eq(output, "spanprof-report: /dev/full: cannot be written\n");
}

Test(report_views, calls_a_renamed_span_by_the_name_it_had_most, .timeout = 20)
{
	const struct report_stack stack[] = {
		{parse, 3, SPAN, "draft", TRACE, 1, 0, NULL},
		{render, 3, SPAN, "GET /orders", TRACE, 20, 0, NULL},
		{parse_more, 3, SPAN, "draft", TRACE, 2, 0, NULL},
	};
	json_t *root, *span;

	write_stacks("a.pb", stack, 3);
	cr_assert_eq(run("--json"), 0, "%s", output);
	root = json_loads(output, 0, NULL);
	cr_assert_not_null(root, "%s", output);

	cr_expect_eq(json_array_size(json_object_get(root, "spans")), 1);
	span = json_array_get(json_object_get(root, "spans"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(span, "span_name")), "GET /orders");
	cr_expect_eq(json_integer_value(json_object_get(span, "samples")), 23);
	json_decref(root);
}
