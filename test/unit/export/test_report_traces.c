/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-report --traces: files of spans, waterfalls, and what the profiles know of their spans.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "report_unit.h"
#include "test/unit/scratch.h"

#define MS INT64_C(1000000)
/* 2001-09-09T01:46:40Z */
#define AT_S INT64_C(1000000000)
#define OTHER_TRACE "1112131415161718191a1b1c1d1e1f20"
#define SLOW "spanprof-shop-7-20010909T014640Z-0a1b2c3d-000003-slow.otlp.jsonl"

static void set_up(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(report_traces, .init = set_up, .fini = scratch_remove);

/* Files of spans */

static char text[8 << 20];
static size_t text_len;

static void add_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_text(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	text_len += (size_t)vsnprintf(text + text_len, sizeof(text) - text_len, format, ap);
	va_end(ap);
	cr_assert_lt(text_len, sizeof(text));
}

static const char *write_text(const char *name)
{
	const char *path = scratch_write(name, text, text_len);

	text_len = 0;
	return path;
}

/* A span that began so long after AT_S; parent "" = it has none. */
static void add_span_to(const char *trace, const char *id, const char *parent, const char *name,
			int64_t start_ms, int64_t ms, const char *more)
{
	add_text("{\"traceId\":\"%s\",\"spanId\":\"%s\",\"parentSpanId\":\"%s\",\"name\":\"%s\","
		 "\"kind\":2,\"startTimeUnixNano\":\"%" PRId64 "\",\"endTimeUnixNano\":\"%" PRId64
		 "\"%s}",
		 trace, id, parent, name, AT_S * 1000 * MS + start_ms * MS,
		 AT_S * 1000 * MS + (start_ms + ms) * MS, more);
}

/* The begin of a message with spans of a service, and its end. */
static void begin_spans(const char *service)
{
	add_text(
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"%s\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"x\"},"
		"\"spans\":[",
		service);
}

static void end_spans(void)
{
	add_text("]}]}]}\n");
}

static void add_span(const char *service, const char *id, const char *parent, const char *name,
		     int64_t start_ms, int64_t ms, const char *more)
{
	begin_spans(service);
	add_span_to(TRACE, id, parent, name, start_ms, ms, more);
	end_spans();
}

#define ID(x) "00000000000000" x
#define FAILED ",\"status\":{\"code\":2}"
#define ATTRIBUTES(...) ",\"attributes\":[" __VA_ARGS__ "]"
#define NUMBER(key, value) "{\"key\":\"spanprof." key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define TIMES(cpu, off) NUMBER("cpu_time_ns", cpu) "," NUMBER("off_cpu_time_ns", off)

/* A client, the service that it calls, and a store without a profile. */
static void add_usual(void)
{
	add_span("web", ID("a1"), "", "GET /cart", 0, 500, "");
	add_span("shop", ID("b1"), ID("a1"), "checkout", 20, 450,
		 ATTRIBUTES(TIMES("100000000", "350000000")));
	add_span("store", ID("c1"), ID("b1"), "SELECT", 60, 200, FAILED);
	add_span("shop", ID("b2"), ID("b1"), "pay", 300, 100, "");
}

/* What the exporter writes of the root of that service. */
static void write_root(const char *name, const char *id, const char *trace, int64_t ms)
{
	add_text("{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		 "\"value\":{\"stringValue\":\"shop\"}},{\"key\":\"process.pid\",\"value\":{"
		 "\"intValue\":\"7\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"spanprof\"},"
		 "\"spans\":[");
	add_span_to(trace, id, "", "checkout", 20, ms,
		    ATTRIBUTES(TIMES("100000000", "350000000") "," NUMBER(
			    "roots.count", "1000") "," NUMBER("duration.p50_ns", "32000000")));
	end_spans();
	(void)write_text(name);
}

static const char *const handle[] = {"handle@h.c:2", "main"};
static const char *const unpack[] = {"inflate@z.c:7", "shop::unpack@u.c:3", "main"};
static const char *const asks[] = {"recvfrom (socket)", "shop::ask@a.c:9", "main"};

#define SAMPLES(f, id, name, count, ms)                                                            \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, TRACE, count, (ms)*MS, NULL, NULL           \
	}

static void write_type(const char *name, enum sp_profile_type type,
		       const struct report_stack *stack, size_t n)
{
	struct sp_bytes b = report_profile_of_at(type, stack, n, AT_S);

	(void)scratch_write(name, b.data, b.len);
	free(b.data);
}

static void write_profiles(const char *id)
{
	const struct report_stack cpu[] = {SAMPLES(handle, id, "checkout", 2, 20),
					   SAMPLES(unpack, id, "checkout", 8, 80)};
	const struct report_stack waits[] = {SAMPLES(asks, id, "checkout", 17, 340)};

	write_type("c.pb", SP_PROFILE_CPU, cpu, 2);
	write_type("o.pb", SP_PROFILE_OFF_CPU, waits, 1);
}

#define run_traces(...) run_scratch("--traces", __VA_ARGS__)
#define must_trace(...) cr_assert_eq(run_traces(__VA_ARGS__), 0, "%s", output)

/* What is shown */

Test(report_traces, show_the_waterfall_of_a_trace)
{
	const char *spans;

	add_usual();
	spans = write_text("spans.jsonl");
	write_root(SLOW, ID("b1"), TRACE, 450);
	write_profiles(ID("b1"));

	must_trace(spans);
	expect_printed("trace " TRACE
		       ": 4 spans of 3 services, 500 ms from 2001-09-09 01:46:40.000 "
		       "UTC; 1 in profiles\n");
	expect_printed("     0 us    500 ms                      [====================]  "
		       "web: GET /cart\n");
	expect_printed("    20 ms    450 ms    100 ms    350 ms  [==================  ]    "
		       "shop: checkout\n");
	/* 8 of 10 samples of 100 ms, and all 17 looks of 350 ms. */
	expect_printed(
		"      span " ID("b1") ": 350 ms waiting for a socket (recvfrom) in shop::ask, "
				       "80 ms in inflate; slow, 418 ms more than the "
				       "median\n");
	expect_printed("    60 ms    200 ms                      [  ========          ]      "
		       "store: SELECT (error)\n");
	expect_printed("   300 ms    100 ms                      [            ====    ]      "
		       "shop: pay\n");
	expect_not_printed("passed over");
}

Test(report_traces, are_json_with_all_that_the_waterfall_says)
{
	const char *spans;
	json_t *all, *trace, *rows, *row, *profile;

	add_usual();
	add_text("this is no JSON\n");
	spans = write_text("spans.jsonl");
	write_root(SLOW, ID("b1"), TRACE, 450);
	write_profiles(ID("b1"));

	cr_assert_eq(run_traces(spans, "--json"), 2, "%s", output);
	all = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL);
	cr_assert_not_null(all, "%s", output);
	cr_expect_str_eq(text_of(all, "passed_over_text"), "1 line that is no JSON");
	cr_assert_eq(json_array_size(json_object_get(all, "traces")), 1);
	trace = json_array_get(json_object_get(all, "traces"), 0);
	cr_expect_str_eq(text_of(trace, "trace_id"), TRACE);
	cr_expect_eq(number_of(trace, "ns"), 500 * MS);
	cr_expect_eq(number_of(trace, "spans"), 4);
	cr_expect_eq(number_of(trace, "services"), 3);
	cr_expect_eq(number_of(trace, "spans_in_profiles"), 1);
	rows = json_object_get(trace, "rows");
	cr_assert_eq(json_array_size(rows), 4);
	row = json_array_get(rows, 0);
	cr_expect(json_is_null(json_object_get(row, "parent_id")));
	cr_expect(json_is_null(json_object_get(row, "profile")));
	cr_expect(json_is_null(json_object_get(row, "where")));
	row = json_array_get(rows, 1);
	cr_expect_str_eq(text_of(row, "span_id"), ID("b1"));
	cr_expect_str_eq(text_of(row, "parent_id"), ID("a1"));
	cr_expect_str_eq(text_of(row, "service"), "shop");
	cr_expect_str_eq(text_of(row, "span_name"), "checkout");
	cr_expect_eq(number_of(row, "depth"), 1);
	cr_expect_eq(number_of(row, "start_ns"), AT_S * 1000 * MS + 20 * MS);
	cr_expect_eq(number_of(row, "ns"), 450 * MS);
	cr_expect_str_eq(text_of(row, "where"), "350 ms waiting for a socket (recvfrom) in "
						"shop::ask, 80 ms in inflate");
	profile = json_object_get(row, "profile");
	cr_expect_eq(number_of(profile, "slower_by_ns"), 418 * MS);
	cr_expect_eq(number_of(json_object_get(profile, "cpu"), "ns"), 100 * MS);
	cr_expect_eq(number_of(json_object_get(profile, "off_cpu"), "ns"), 350 * MS);
	row = json_array_get(rows, 2);
	cr_expect(json_is_true(json_object_get(row, "error")));
	cr_expect(json_is_false(json_object_get(row, "lacks_parent")));
	json_decref(all);
}

Test(report_traces, read_one_document_and_compressed_ones)
{
	const char *path = in_scratch("spans.json.gz");
	gzFile file = gzopen(path, "wb");

	begin_spans("web");
	add_text("\n");
	add_span_to(TRACE, ID("a1"), "", "GET /cart", 0, 500, "");
	add_text(",\n\n");
	add_span_to(TRACE, ID("b1"), ID("a1"), "checkout", 20, 450, "");
	end_spans();
	cr_assert_gt(gzwrite(file, text, (unsigned)text_len), 0);
	cr_assert_eq(gzclose(file), Z_OK);
	text_len = 0;
	write_profiles(ID("b1"));

	must_trace(path);
	expect_printed("2 spans of 1 service");
	/* Without an exact time it is that of the samples. */
	expect_printed("   ~100 ms   ~340 ms  [");
}

Test(report_traces, show_what_slow_roots_choose_first)
{
	const char *spans;

	/* The other trace is longer, but its root is usual. */
	begin_spans("shop");
	add_span_to(OTHER_TRACE, ID("d1"), "", "batch", 0, 2000, "");
	end_spans();
	add_usual();
	spans = write_text("spans.jsonl");
	write_root(SLOW, ID("b1"), TRACE, 450);
	write_profiles(ID("d1"));
	must_trace(spans);
	expect_printed("trace " TRACE);
	expect_not_printed(OTHER_TRACE);
	must_trace(spans, "--trace", OTHER_TRACE);
	expect_printed("trace " OTHER_TRACE ": 1 span of 1 service, 2.00 s");
	expect_printed("span " ID("d1") ": ");
	/* Without slow roots the longest trace with a sample is shown. */
	(void)remove(in_scratch(SLOW));
	must_trace(spans);
	expect_printed("trace " OTHER_TRACE);
	expect_not_printed("trace " TRACE);
	/* The attributes say that spans of the other one were profiled, too. */
	must_trace(spans, "--slowest=5");
	expect_printed("trace " OTHER_TRACE);
	expect_printed("\n\ntrace " TRACE);
}

Test(report_traces, follow_several_slow_roots_by_how_slow_they_were)
{
	const char *spans;

	begin_spans("shop");
	add_span_to(OTHER_TRACE, ID("d1"), "", "checkout", 0, 800, "");
	end_spans();
	add_usual();
	spans = write_text("spans.jsonl");
	write_root(SLOW, ID("b1"), TRACE, 450);
	write_root("other-slow.otlp.jsonl", ID("d1"), OTHER_TRACE, 800);
	write_profiles(ID("b1"));
	must_trace(spans, "--slowest=2");
	cr_expect_lt(strstr(output, "trace " OTHER_TRACE), strstr(output, "trace " TRACE), "%s",
		     output);
	must_trace(spans);
	expect_not_printed("trace " TRACE);
}

Test(report_traces, take_several_files_up_to_the_folder)
{
	const char *web, *shop;

	add_span("web", ID("a1"), "", "GET /cart", 0, 500, "");
	web = write_text("web.json");
	add_span("shop", ID("b1"), ID("a1"), "checkout", 20, 450, "");
	shop = write_text("shop.json");
	write_profiles(ID("b1"));
	must_trace(web, shop);
	expect_printed("2 spans of 2 services");
	must_trace(web, "--traces", shop);
	expect_printed("2 spans of 2 services");
	must_trace(shop);
	expect_printed("1 span of 1 service");
}

/* What is not as it should be */

Test(report_traces, say_that_a_parent_is_missing)
{
	const char *spans;

	add_span("shop", ID("b1"), ID("a1"), "checkout", 20, 450, "");
	add_span("shop", ID("b2"), ID("b1"), "pay", 30, 50, "");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	must_trace(spans);
	expect_printed("]  shop: checkout (its parent is not in these files)\n");
	expect_printed("]    shop: pay\n");
}

Test(report_traces, break_circles_of_parents)
{
	const char *spans;

	/* Below b1 hangs one that is in no circle; c1 is its own parent. */
	add_span("shop", ID("a1"), ID("b2"), "before", 0, 450, "");
	add_span("shop", ID("b1"), ID("b2"), "one", 20, 450, "");
	add_span("shop", ID("b2"), ID("b1"), "two", 30, 400, "");
	add_span("shop", ID("b3"), ID("b1"), "leaf", 40, 400, "");
	add_span("shop", ID("c1"), ID("c1"), "self", 50, 50, "");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	must_trace(spans);
	expect_printed("passed over: 2 parents that are below their own children\n");
	expect_printed("]  shop: two (below its own child)\n");
	expect_printed("]    shop: before\n");
	expect_printed("]    shop: one\n");
	expect_printed("]      shop: leaf\n");
	expect_printed("]  shop: self (below its own child)\n");
	cr_expect_eq(report_count(output, "shop: "), 5, "%s", output);
}

Test(report_traces, pass_over_what_is_damaged)
{
	const char *spans;

	add_text("{\"resourceSpans\":[{\"scopeSp\n\n");
	add_usual();
	/* A span twice, one without a time, ones without ids, one that ends before it begins. */
	add_span("shop", ID("b2"), ID("a1"), "again", 0, 1, "");
	add_text("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"" TRACE
		 "\",\"spanId\":\"" ID("e1") "\",\"startTimeUnixNano\":\"1\"},7,{}]}]},3]}\n");
	add_span("shop", "0000000000000000", "", "no id", 0, 1, "");
	add_span("shop", ID("e2"), "", "backwards", 10, -5, "");
	add_text("{\"resourceMetrics\":[]}\n{\"resourceSpans\":{}}\n[1]\n{\"resourceSpans\":[");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	cr_expect_eq(run_traces(spans), 2);
	expect_printed(
		"passed over: 2 lines that are no JSON, 5 spans without ids or times, 1 span "
		"that is there twice\n\ntrace ");
	expect_printed("4 spans of 3 services");
	expect_not_printed("again");
}

Test(report_traces, refuse_files_without_spans)
{
	static const struct {
		const char *text, *why;
	} files[] = {
		{"", "it is empty"},
		{"x", "no JSON: line 1: "},
		{"\n \n{\"a\":\n\n1", "no JSON: line 5: "},
		{"{\"a\":1}\n[2]\n", "it has no traces in OTLP's JSON (resourceSpans)\n"},
		{"{\n\"a\":1}\n", "it has no traces in OTLP's JSON (resourceSpans)\n"},
		{"\xff\xfe{}", "no JSON: line 1: "},
		{"{\"resourceSpans\":[]} {}", "no JSON: line 1: "},
	};
	const char *spans;

	write_profiles(ID("b1"));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		spans = scratch_write("spans.json", files[i].text, strlen(files[i].text));
		cr_expect_eq(run_traces(spans), 2, "%zu: %s", i, output);
		cr_expect(printed(files[i].why), "%zu: %s", i, output);
		cr_expect_eq(report_count(output, "spanprof-report: "), 1, "%zu: %s", i, output);
	}
	/* Another file is shown all the same. */
	add_usual();
	cr_expect_eq(run_traces(spans, write_text("good.json"), "--trace", TRACE), 2);
	expect_printed("passed over: 1 file\n\ntrace ");
	cr_expect_eq(mkfifo(in_scratch("pipe.json"), 0600), 0);
	cr_expect_eq(run_traces(in_scratch("pipe.json")), 2);
	expect_printed("pipe.json: not a regular file\n");
	cr_expect_eq(run_traces(in_scratch("none.json")), 2);
	expect_printed("none.json: No such file or directory\n");
}

Test(report_traces, say_that_nothing_is_to_be_shown)
{
	const char *spans;

	add_span("web", ID("a1"), "", "GET /cart", 0, 500, "");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	cr_expect_eq(run_traces(spans), 1);
	expect_printed("no profile and no slow request has a span of these traces; --trace shows");
	cr_expect_eq(run_traces(spans, "--trace", OTHER_TRACE), 1);
	expect_printed("no span of these files is of that trace\n");
	cr_expect_eq(run_traces(spans, "--trace", "12"), 1);
	expect_printed("--trace needs 32 hexadecimal digits\n");
	/* By its id any trace is shown, also without a profile of it. */
	must_trace(spans, "--trace", TRACE);
	expect_printed("1 span of 1 service, 500 ms");
	expect_printed("; 0 in profiles\n");
	cr_expect_eq(run_traces(spans, "--folded"), 1);
	expect_printed("print tables, or JSON with --json\n");
	cr_expect_eq(run_traces(spans, "--json", "--page", in_scratch("page.html")), 1);
	expect_printed("choose one of --page and --json\n");
	cr_expect_eq(run_traces(spans, "--by", "span"), 1);
	expect_printed("--traces goes with ");
	cr_expect_eq(run_traces(spans, "--span", ID("a1")), 1);
	cr_expect_eq(
		report_run((const char *const[]){"--traces", spans, NULL}, output, sizeof(output)),
		1);
	expect_printed("name a folder or a file");
}

Test(report_traces, print_names_of_others_as_one_line_of_text)
{
	const char *spans;
	char *page;

	add_span("we\\nb\\u001b[31m", ID("a1"), "", "</script><b>\\u0000x", 0, 500, "");
	add_span("", ID("b1"), ID("a1"), "", 20, 450, "");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	must_trace(spans);
	expect_printed("]  we b [31m: </script><b>\n");
	expect_printed("]    (no service): (no name)\n");
	must_trace(spans, "--page", in_scratch("page.html"));
	expect_printed("page.html: 1 trace\n");
	page = report_file(in_scratch("page.html"));
	cr_expect_not_null(strstr(page, "\"\\u003c/script\\u003e\\u003cb\\u003e\""));
	cr_expect_null(strstr(page, "<b>x"));
	cr_expect_null(strchr(page, '\033'));
	free(page);
}

/* The data of slow requests in a page: an object that begins with that key. */
static json_t *data_of(const char *page)
{
	const char *at = strstr(page, "{\"parts\":[");
	json_error_t error;
	json_t *data;

	cr_assert_not_null(at);
	data = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
	cr_assert_not_null(data, "%s", error.text);
	return data;
}

Test(report_traces, have_a_page_with_the_data_of_each_span)
{
	const json_t *request;
	const char *spans;
	json_t *data;
	char *page;
	size_t i;

	add_span("web", ID("a1"), "", "GET /", 0, 500, "");
	add_span("db", ID("b1"), ID("a1"), "query", 20, 450, "");
	spans = write_text("spans.jsonl");
	write_profiles(ID("b1"));
	must_trace(spans, "--page", in_scratch("page.html"));
	page = report_file(in_scratch("page.html"));
	data = data_of(page);
	cr_expect_eq(json_array_size(json_object_get(data, "requests")), 2);
	json_array_foreach(json_object_get(data, "requests"), i, request)
	{
		cr_expect(json_is_null(request) ||
			  json_is_array(json_object_get(request, "waits")));
	}
	json_decref(data);
	free(page);
}

/* A chain of spans, each below the one before. */
static void add_chain(unsigned n)
{
	char id[17], parent[17] = "";

	begin_spans("shop");
	for (unsigned i = 1; i <= n; i++) {
		(void)snprintf(id, sizeof(id), "%016x", i);
		if (i != 1)
			add_text(",");
		add_span_to(TRACE, id, parent, "step", i, 100, "");
		memcpy(parent, id, sizeof(id));
	}
	end_spans();
}

Test(report_traces, show_any_depth)
{
	const char *spans;

	add_chain(3000);
	spans = write_text("spans.jsonl");
	write_profiles("0000000000000001");
	must_trace(spans);
	expect_printed("3000 spans of 1 service");
	cr_expect_eq(report_count(output, "]  "), 3000);
	/* Deeper ones are not indented further. */
	cr_expect_eq(
		report_count(output, "]                                                  shop: "),
		3000 - 24);
}

Test(report_traces, bound_how_deep_a_document_is)
{
	const char *spans;

	memset(text, '[', sizeof(text));
	text_len = sizeof(text);
	spans = write_text("deep.json");
	write_profiles(ID("b1"));
	cr_expect_eq(run_traces(spans), 2);
	expect_printed("no JSON: line 1: maximum parsing depth reached");
}

Test(report_traces, bound_how_many_spans_are_shown)
{
	char *more = malloc((size_t)64 << 20);
	size_t len = 0;
	const char *spans;

	len += (size_t)sprintf(more, "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[");
	for (unsigned i = 1; i <= 100002; i++)
		len += (size_t)sprintf(more + len,
				       "%s{\"traceId\":\"" TRACE "\",\"spanId\":\"%016x\","
				       "\"startTimeUnixNano\":%u,\"endTimeUnixNano\":200000}",
				       i == 1 ? "" : ",", i, i);
	len += (size_t)sprintf(more + len, "]}]}]}");
	spans = scratch_write("many.json", more, len);
	free(more);
	write_profiles("0000000000000001");
	cr_expect_eq(run_traces(spans, "--page", in_scratch("page.html")), 2, "%.300s", output);
	expect_printed("passed over: 2 spans for which there is no room\n");
}
