/* SPDX-License-Identifier: Apache-2.0 */
/* The page with a flame graph that spanprof-report writes: its data, and that it is safe. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/load.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

#define SPAN "00000000000000aa"

TestSuite(report_flame, .init = scratch_make, .fini = scratch_remove);

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const render[] = {"render", "handle@h.c:21", "main"};
static const char *const idle[] = {"[unsampled cpu]", "main"};

static void write_spans(void)
{
	static const struct report_stack stack[] = {
		STACK(parse, SPAN, "GET", 8),
		STACK(render, SPAN, "GET", 2),
		STACK(parse, "00000000000000bb", "GET", 1),
		STACK(render, "00000000000000cc", "GET", 4),
		STACK(parse, "00000000000000dd", "POST", 50),
		{idle, 2, NULL, NULL, NULL, 0, 4000000, NULL, NULL},
	};

	report_write_stacks("spanprof-my-shop-12-20261122T193000Z-000001-wall.pb", stack,
			    sizeof(stack) / sizeof(stack[0]), 1000000000);
}

/* The data of a page. */
static json_t *data_of(const char *page)
{
	static const char head[] = "<script type=\"application/json\" id=\"profile\">\n";
	const char *from = strstr(page, head);
	const char *to;
	json_t *data;

	cr_assert_not_null(from, "no data");
	from += strlen(head);
	to = strstr(from, "</script>");
	cr_assert_not_null(to);
	data = json_loadb(from, (size_t)(to - from), 0, NULL);
	cr_assert_not_null(data, "%.*s", (int)(to - from), from);
	return data;
}

static const char *text(const json_t *data, const char *key)
{
	return text_of(data, key);
}

/* The number of column `at` of node `i`, from 0. */
static json_int_t column(const json_t *data, size_t i, size_t at)
{
	size_t stride = json_is_true(json_object_get(data, "diff")) ? 7 : 5;

	return json_integer_value(json_array_get(json_object_get(data, "nodes"), i * stride + at));
}

static size_t nodes(const json_t *data)
{
	size_t stride = json_is_true(json_object_get(data, "diff")) ? 7 : 5;

	return json_array_size(json_object_get(data, "nodes")) / stride;
}

static const char *name(const json_t *data, size_t i)
{
	return json_string_value(
		json_array_get(json_object_get(data, "names"), (size_t)column(data, i, 1)));
}

static const char *kind(const json_t *data, size_t i)
{
	return json_string_value(
		json_array_get(json_object_get(data, "kinds"), (size_t)column(data, i, 2)));
}

/* The first node with that name. */
static size_t find(const json_t *data, const char *wanted)
{
	for (size_t i = 0; i < nodes(data); i++)
		if (strcmp(name(data, i), wanted) == 0)
			return i;
	cr_assert_fail("no frame %s", wanted);
	return 0;
}

Test(report_flame, has_the_spans_at_its_root, .timeout = 20)
{
	char *page;
	json_t *data;
	size_t at;

	write_spans();
	must_report("--flamegraph", in_scratch("a.html"));
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	cr_expect_str_eq(text(data, "title"), "my-shop: CPU time");
	cr_expect_str_eq(text(data, "sums"),
			 "2001-09-09 01:46:40 to 01:46:50 UTC; 0.654 s CPU, 65 samples, 4 spans, 1 "
			 "profile");
	cr_expect(json_is_true(json_object_get(data, "bySpan")), "there are two names");
	at = find(data, "POST");
	cr_expect_eq(at, 0, "the largest is the first");
	cr_expect_str_eq(kind(data, at), "span");
	cr_expect_eq(column(data, at, 0), 0, "the root");
	cr_expect_str_eq(name(data, 3), "parse");
	cr_expect_eq(column(data, 3, 0), 3, "its caller has number 3, from 1");
	cr_expect_eq(column(data, 3, 3), 500000000);
	cr_expect_eq(column(data, 3, 4), 50);
	cr_expect_str_eq(kind(data, 3), "own");
	cr_expect_eq(column(data, find(data, "(no span)"), 3), 0, "nothing of its own");
	at = find(data, "[unsampled cpu]");
	cr_expect_str_eq(kind(data, at), "unsampled");
	cr_expect_eq(column(data, at, 3), 4000000);
	json_decref(data);
	free(page);
}

static const char *route_of(const struct report_stack *stack)
{
	return stack->span_id != NULL ? "</script>" : NULL;
}

/* The value of an attribute may come from a client. */
Test(report_flame, has_values_of_an_attribute_at_the_root, .timeout = 20)
{
	char *page;
	json_t *data;

	report_route = route_of;
	write_spans();
	must_report("--flamegraph", in_scratch("a.html"), "--by=http.route");
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	cr_expect_str_eq(text(data, "by"), "http.route");
	cr_expect(json_is_true(json_object_get(data, "bySpan")));
	cr_expect_eq(column(data, find(data, "</script>"), 0), 0, "the root");
	cr_expect_str_eq(kind(data, find(data, "</script>")), "span");
	cr_expect_eq(column(data, find(data, "(no value)"), 0), 0);
	json_decref(data);
	free(page);
}

Test(report_flame, of_one_span_name_begins_with_functions, .timeout = 20)
{
	char *page, *again;
	json_t *data;

	write_spans();
	must_report("--flamegraph", in_scratch("a.html"), "--span=" SPAN);
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	cr_expect_str_eq(text(data, "title"), "my-shop: CPU time of span " SPAN " (GET)");
	cr_expect(json_is_false(json_object_get(data, "bySpan")));
	must_report("--flamegraph", in_scratch("b.html"), "--span=" SPAN);
	again = report_file(in_scratch("b.html"));
	cr_expect_str_eq(page, again);
	free(again);
	must_report("--flamegraph", in_scratch("b.html"), "--span=" SPAN, "--by=span");
	again = report_file(in_scratch("b.html"));
	json_decref(data);
	data = data_of(again);
	cr_expect(json_is_true(json_object_get(data, "bySpan")));
	json_decref(data);
	free(page);
	free(again);
}

Test(report_flame, says_in_one_line_what_was_written, .timeout = 20)
{
	write_spans();

	must_report("--flamegraph=/dev/null");
	cr_expect_str_eq(output,
			 "wrote /dev/null: my-shop: CPU time; 2001-09-09 01:46:40 to 01:46:50 "
			 "UTC; 0.654 s CPU, 65 samples, 4 spans, 1 profile\n");
	cr_expect_eq(run_scratch("--flamegraph=a.svg"), 1);
	expect_printed("name the file .html");
}

Test(report_flame, has_the_samples_of_the_baseline, .timeout = 20)
{
	char *page;
	json_t *data;
	size_t at;

	write_spans();
	must_report("--flamegraph", in_scratch("a.html"), "--span=" SPAN, "--diff");
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	at = find(data, "render");
	cr_expect_eq(column(data, at, 3), 20000000);
	cr_expect_eq(column(data, at, 4), 2);
	cr_expect_eq(column(data, at, 5), 40000000);
	cr_expect_eq(column(data, at, 6), 4);
	cr_expect_not_null(strstr(text(data, "sums"), "baseline: 0.050 s of 2 other spans"));
	json_decref(data);
	free(page);
}

Test(report_flame, the_order_of_files_does_not_matter, .timeout = 20)
{
	static const struct report_stack one[] = {STACK(render, NULL, NULL, 2)};
	static const struct report_stack two[] = {STACK(parse, NULL, NULL, 2)};
	char a[200], b[200], first[200], second[200];
	char *x, *y;
	json_t *p, *q;

	report_write_stacks("one", one, 1, 0);
	report_write_stacks("two", two, 1, 0);
	strcpy(a, in_scratch("one"));
	strcpy(b, in_scratch("two"));
	strcpy(first, in_scratch("1.html"));
	strcpy(second, in_scratch("2.html"));
	cr_assert_eq(report_run((const char *const[]){"--flamegraph", first, a, b, NULL}, output,
				sizeof(output)),
		     0);
	cr_assert_eq(report_run((const char *const[]){"--flamegraph", second, b, a, NULL}, output,
				sizeof(output)),
		     0);

	x = report_file(first);
	y = report_file(second);
	p = data_of(x);
	q = data_of(y);
	cr_expect_eq(nodes(p), nodes(q));
	for (size_t i = 0; i < nodes(p); i++) {
		cr_expect_str_eq(name(p, i), name(q, i));
		cr_expect_eq(column(p, i, 3), column(q, i, 3));
	}
	json_decref(p);
	json_decref(q);
	free(x);
	free(y);
}

/* Names of every kind stay text. */
Test(report_flame, names_are_never_markup, .timeout = 20)
{
	static const char *const odd[] = {"</title></script><script>alert(1)</script>",
					  "operator<<\"&\"",
					  "<!--<script>",
					  "\xef\xbf\xbf\xff\x01\xed\xa0\x80\\",
					  "<img src=http://x/ onerror=alert(1)>",
					  "main"};
	static const struct report_stack stack[] = {STACK(odd, SPAN, "<b>&\"'", 1)};
	char *page;
	json_t *data;

	report_write_stacks("spanprof-<i>-1-20261122T193000Z-000001.pb", stack, 1, 0);
	must_report("--flamegraph", in_scratch("a.html"), "--span-name=<b>&\"'");
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	cr_expect_null(strstr(page, "<script>alert"));
	cr_expect_null(strstr(page, "<img"));
	cr_expect_null(strstr(page, "<!--"));
	cr_expect_null(strstr(page, "<i>:"));
	cr_expect_eq(report_count(page, "<script"), report_count(page, "</script>"));
	cr_expect_eq(report_count(page, "<title>"), 1);
	cr_expect_not_null(strstr(page, "<title>&#60;i&#62;: CPU time of spans named "
					"&#60;b&#62;&#38;&#34;&#39;</title>"));
	(void)find(data, odd[0]);
	(void)find(data, odd[1]);
	(void)find(data, odd[2]);
	(void)find(data, odd[4]);
	(void)find(data, "<b>&\"'");
	json_decref(data);
	free(page);
}

/* The page is opened from a disk, and on machines without a network. */
Test(report_flame, needs_nothing_from_outside, .timeout = 20)
{
	static const char *const ways[] = {"href=",     "src=",     "url(",   "@import",
					   "http://",   "https://", "fetch(", "XMLHttpRequest",
					   "innerHTML", "eval("};
	char *page;

	write_spans();
	must_report("--flamegraph", in_scratch("a.html"));
	page = report_file(in_scratch("a.html"));

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		cr_expect_null(strstr(page, ways[i]), "%s", ways[i]);
	cr_expect_not_null(strstr(page, "Content-Security-Policy\" content=\"default-src 'none';"));
	free(page);
}

Test(report_flame, cuts_deep_stacks_and_adds_narrow_ones_up, .timeout = 20)
{
	static const char *deep[1500], *wide[1], *thin[1];
	static char text_of[1500][16];
	static struct report_stack stack[3] = {
		{deep, 1500, NULL, NULL, NULL, 1, 30000000, NULL, NULL},
		{wide, 1, NULL, NULL, NULL, 1, 1000, NULL, NULL},
		{thin, 1, NULL, NULL, NULL, 2, 400, NULL, NULL},
	};
	char *page;
	json_t *data;
	size_t at;

	for (unsigned i = 0; i < 1500; i++) {
		(void)snprintf(text_of[i], sizeof(text_of[i]), "f%u", i);
		deep[i] = text_of[i];
	}
	wide[0] = "narrow";
	thin[0] = "narrower";
	report_write_stacks("a.pb", stack, 3, 0);
	must_report("--flamegraph", in_scratch("a.html"));
	page = report_file(in_scratch("a.html"));
	data = data_of(page);

	cr_expect_eq(nodes(data), 1024 + 1, "the name of the span is one of them");
	cr_expect_eq(column(data, find(data, "f477"), 3), 30000000);
	at = find(data, "[too narrow to draw]");
	cr_expect_eq(column(data, at, 3), 1400);
	cr_expect_eq(column(data, at, 4), 3);
	cr_expect_eq(column(data, at, 0), 1, "in no span");
	cr_expect_null(strstr(page, "\"narrower\""), "a name that no frame has");
	json_decref(data);
	free(page);
}

#define HOSTILE_STACKS 200U
#define HOSTILE_FRAMES 500U

/*
 * The data of a page of many stacks, of which the first one has most of the time; each frame has a name of that
 * length.
 */
static json_t *many_stacks(unsigned stacks, unsigned frames, int length)
{
	static const char *frame[HOSTILE_STACKS][HOSTILE_FRAMES];
	static struct report_stack stack[HOSTILE_STACKS];
	char *page;
	json_t *data;

	for (unsigned i = 0; i < stacks; i++) {
		for (unsigned k = 0; k < frames; k++)
			cr_assert_gt(asprintf((char **)(uintptr_t)&frame[i][k], "f%u_%u_%0*u", i, k,
					      length, 0U),
				     0);
		stack[i] = (struct report_stack){
			.frame = frame[i], .frames = frames, .samples = i == 0 ? 1000 : 1};
	}
	/* The files are no larger than those of the exporter. */
	for (unsigned i = 0; i < stacks; i += 10) {
		char file[16];

		(void)snprintf(file, sizeof(file), "%u.pb", i);
		report_write_stacks(file, stack + i, 10, 0);
	}
	must_report("--flamegraph", in_scratch("a.html"));
	page = report_file(in_scratch("a.html"));
	data = data_of(page);
	free(page);
	for (unsigned i = 0; i < stacks; i++)
		for (unsigned k = 0; k < frames; k++)
			free((void *)(uintptr_t)frame[i][k]);
	return data;
}

/* With leaves at the root each caller of a node is a separate frame: 125 thousand of them for each stack. */
Test(report_flame, has_no_more_frames_than_a_browser_can_hold, .timeout = 60)
{
	json_t *data = many_stacks(10, 500, 1);

	cr_expect_eq(nodes(data), 1 + 10 * 500);
	json_decref(data);
	data = many_stacks(40, 500, 1);
	cr_expect_eq(nodes(data), 1 + 500 + 1);
	cr_expect_eq(column(data, 500, 4), 1000, "the leaf of the stack that is wide");
	cr_expect_str_eq(name(data, 501), "[too narrow to draw]");
	cr_expect_eq(column(data, 501, 4), 39, "all others");
	json_decref(data);
}

Test(report_flame, has_no_more_names_than_a_browser_can_hold, .timeout = 60)
{
	json_t *data = many_stacks(10, 100, 1000);

	cr_expect_eq(nodes(data), 1 + 10 * 100);
	json_decref(data);
	data = many_stacks(200, 100, 1000);
	cr_expect_eq(nodes(data), 1 + 100 + 1);
	cr_expect_eq(json_array_size(json_object_get(data, "names")), 1 + 1 + 100);
	cr_expect_eq(column(data, 101, 4), 199, "all others");
	json_decref(data);
}

Test(report_flame, says_when_it_cannot_be_written, .timeout = 20)
{
	write_spans();

	cr_expect_eq(run_scratch("--flamegraph", "/nonexistent/a.html"), 2);
	cr_expect_str_eq(output,
			 "spanprof-report: /nonexistent/a.html: No such file or directory\n");
	cr_expect_eq(run_scratch("--flamegraph", "/dev/full"), 2);
	cr_expect_str_eq(output, "spanprof-report: /dev/full: cannot be written\n");
}

static enum sp_frame_kind of(const char *frame, const char *object, const char *source, bool waits)
{
	const struct sp_frame_place place = {object, source, waits};

	return sp_frame_kind_of(frame, &place);
}

Test(report_flame, tells_whose_code_a_frame_is, .timeout = 20)
{
	static const char libc[] = "/usr/lib/x86_64-linux-gnu/libc.so.6";

	cr_expect_eq(of("main", "/usr/bin/shopd", "", false), SP_FRAME_OWN);
	cr_expect_eq(of("price", "/srv/shop/libcart.so", "", false), SP_FRAME_OWN);
	cr_expect_eq(of("malloc", libc, "", false), SP_FRAME_LIBRARY);
	cr_expect_eq(of("std::sort", "/srv/shop/shopd", "", false), SP_FRAME_LIBRARY);
	cr_expect_eq(of("push", "/srv/shop/shopd", "/usr/include/c++/12/bits/x.h", false),
		     SP_FRAME_LIBRARY);
	cr_expect_eq(of("__vdso_clock_gettime", "[vdso]", "", false), SP_FRAME_KERNEL);
	cr_expect_eq(of("futex (lock)", "", "", true), SP_FRAME_WAITING);
	cr_expect_eq(of("[waiting for a CPU]", "", "", true), SP_FRAME_WAITING);
	cr_expect_eq(of("futex (lock)", "[spanprof]", "", true), SP_FRAME_WAITING);
	/* below the holder of the lock */
	cr_expect_eq(of("futex (lock)", "[spanprof]", "", false), SP_FRAME_WAITING);
	cr_expect_eq(of("(other)", "[spanprof]", "", false), SP_FRAME_MARKER);
	cr_expect_eq(of("[truncated]", "[spanprof]", "", false), SP_FRAME_MARKER);
	cr_expect_eq(of("read /usr/lib/x.so", "[spanprof]", "", true), SP_FRAME_WAITING);
	cr_expect_eq(of("[waiting for a CPU]", "[spanprof]", "", true), SP_FRAME_WAITING);
	cr_expect_eq(of("[unknown]", "[spanprof]", "", true), SP_FRAME_MARKER);
	cr_expect_eq(of("(other)", "[spanprof]", "", true), SP_FRAME_MARKER);
	cr_expect_eq(of("main", "/usr/bin/shopd", "", true), SP_FRAME_OWN);
	cr_expect_eq(of("[unsampled cpu]", "[spanprof]", "", true), SP_FRAME_UNSAMPLED);
	cr_expect_eq(of("[unsampled cpu]", "", "", false), SP_FRAME_UNSAMPLED);
	cr_expect_eq(of("[truncated]", "", "", false), SP_FRAME_MARKER);
}
