/* SPDX-License-Identifier: Apache-2.0 */
/* The queries: what was pushed comes back, filtered by span, labels, time and tenant. */
#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/tests/fixture.h"

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define RANGE "\"start\":1699999999000,\"end\":\"1700000001000\""
#define OTHER_SPAN "00000000000000ab"

static struct fixture f;

static void setup(void)
{
	static const uint64_t shallow[] = {2, 1};
	static const int64_t value[] = {4, 40000000};

	fixture_init(&f, (struct pd_options){0});
	pb_span(&f.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	pb_span(&f.p, 2, OTHER_SPAN, "GET /b", FIXTURE_TRACE);
	pb_sample(&f.p, shallow, 2, value, 2, NULL);
	fixture_accepted(&f);
}

static void teardown(void)
{
	fixture_fini(&f);
}

TestSuite(query, .init = setup, .fini = teardown, .timeout = 20);

static void expect(const char *call, const char *request, const char *answer)
{
	cr_expect_eq(fixture_query(&f, call, request), 200, "%s", f.r.body.at);
	cr_expect_str_eq(f.r.body.at, answer, "%s %s: %s", call, request, f.r.body.at);
}

static void expect_error(const char *call, const char *request, const char *message)
{
	cr_expect_eq(fixture_query(&f, call, request), 400, "%s", f.r.body.at);
	cr_expect_not_null(strstr(f.r.body.at, message), "%s", f.r.body.at);
}

Test(query, span_profile_is_the_flame_graph_of_one_span)
{
	static const char one[] =
		"{\"flamegraph\":{\"levels\":["
		"{\"values\":[\"0\",\"10000000\",\"0\",\"0\"]},"
		"{\"values\":[\"0\",\"10000000\",\"0\",\"1\"]},"
		"{\"values\":[\"0\",\"10000000\",\"0\",\"2\"]},"
		"{\"values\":[\"0\",\"10000000\",\"10000000\",\"3\"]}],"
		"\"maxSelf\":\"10000000\",\"names\":[\"total\",\"main\",\"work\",\"leaf\"],"
		"\"total\":\"10000000\"}}";

	expect("SelectMergeSpanProfile",
	       "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{service_name=\\\"svc\\\"}\","
	       "\"spanSelector\":[\"" FIXTURE_SPAN "\"]," RANGE "}",
	       one);
	expect("SelectMergeSpanProfile",
	       "{\"profileTypeID\":\"" CPU "\",\"spanSelector\":[\"9A517183F26A089D\"]," RANGE "}",
	       one);
}

Test(query, flame_graph_levels_hold_offsets_and_self)
{
	expect("SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\"," RANGE "}",
	       "{\"flamegraph\":{\"levels\":["
	       "{\"values\":[\"0\",\"70000000\",\"0\",\"0\"]},"
	       "{\"values\":[\"0\",\"70000000\",\"0\",\"1\"]},"
	       "{\"values\":[\"0\",\"70000000\",\"40000000\",\"2\"]},"
	       "{\"values\":[\"40000000\",\"30000000\",\"30000000\",\"3\"]}],"
	       "\"maxSelf\":\"40000000\",\"names\":[\"total\",\"main\",\"work\",\"leaf\"],"
	       "\"total\":\"70000000\"}}");
}

Test(query, flame_graph_sorts_and_separates_siblings)
{
	static const uint64_t left[] = {2};
	static const uint64_t right[] = {1};
	static const int64_t one[] = {1, 1};
	static const int64_t two[] = {2, 2};

	f.d.options.now_ns += INT64_C(300000000000);
	pb_sample(&f.p, left, 1, one, 2, NULL);
	pb_sample(&f.p, right, 1, two, 2, NULL);
	fixture_accepted(&f);
	f.d.first->profile.time_nanos = 1;
	expect("SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\"," RANGE "}",
	       "{\"flamegraph\":{\"levels\":["
	       "{\"values\":[\"0\",\"3\",\"0\",\"0\"]},"
	       "{\"values\":[\"0\",\"2\",\"2\",\"1\",\"0\",\"1\",\"1\",\"2\"]}],"
	       "\"maxSelf\":\"2\",\"names\":[\"total\",\"main\",\"work\"],\"total\":\"3\"}}");
}

Test(query, what_does_not_match_is_empty)
{
	static const char empty[] = "{\"flamegraph\":{\"levels\":[],\"names\":[]}}";
	static const char *const requests[] = {
		"{\"profileTypeID\":\"" CPU "\",\"spanSelector\":[\"ffffffffffffffff\"]," RANGE "}",
		"{\"profileTypeID\":\"" CPU "\",\"spanSelector\":[\"" FIXTURE_SPAN "\"],"
		"\"labelSelector\":\"{service_name=\\\"other\\\"}\"," RANGE "}",
		"{\"profileTypeID\":\"" CPU "\",\"spanSelector\":[\"" FIXTURE_SPAN "\"],"
		"\"start\":1699999990000,\"end\":1699999999999}",
		"{\"profileTypeID\":\"wall:cpu:nanoseconds:cpu:nanoseconds\",\"spanSelector\":"
		"[\"" FIXTURE_SPAN "\"]," RANGE "}",
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		expect("SelectMergeSpanProfile", requests[i], empty);
}

Test(query, traces_and_span_names_select_too)
{
	cr_expect_eq(fixture_query(&f, "SelectMergeStacktraces",
				   "{\"profileTypeID\":\"" CPU "\",\"traceIdSelector\":"
				   "[\"" FIXTURE_TRACE "\"]," RANGE "}"),
		     200);
	cr_expect_not_null(strstr(f.r.body.at, "\"total\":\"30000000\""), "%s", f.r.body.at);
	cr_expect_eq(fixture_query(&f, "SelectMergeStacktraces",
				   "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":"
				   "\"{span_name=\\\"GET /b\\\"}\"," RANGE "}"),
		     200);
	cr_expect_not_null(strstr(f.r.body.at, "\"total\":\"20000000\""), "%s", f.r.body.at);
}

Test(query, refuses_bad_requests)
{
	cr_expect_eq(fixture_query(&f, "SelectMergeSpanProfile",
				   "{\"profileTypeID\":\"" CPU "\",\"spanSelector\":[\"9a\"]," RANGE
				   "}"),
		     500);
	cr_expect_str_eq(
		f.r.body.at,
		"{\"code\":\"unknown\",\"message\":\"invalid span id length: \\\"9a\\\"\"}");
	expect_error("SelectMergeSpanProfile", "{\"profileTypeID\":\"" CPU "\"," RANGE "}",
		     "wants a spanSelector");
	expect_error("SelectMergeStacktraces", "{\"profileTypeID\":\"cpu\"," RANGE "}",
		     "profile-type selection must be of the form");
	expect_error("SelectMergeStacktraces", "{\"profileTypeID\":\"" CPU "\"}",
		     "missing time range in the query");
	expect_error("SelectMergeStacktraces",
		     "{\"profileTypeID\":\"" CPU "\",\"start\":2,\"end\":1}",
		     "query start time is after end time");
	expect_error("SelectMergeStacktraces",
		     "{\"profileTypeID\":\"" CPU "\",\"start\":1,\"end\":86400002}",
		     "exceeds the limit");
	expect_error("SelectMergeStacktraces",
		     "{\"profileTypeID\":\"" CPU "\",\"labelSelector\":\"{a=~\\\"b\\\"}\"," RANGE
		     "}",
		     "no regular expressions");
	expect_error("Series", "[]", "not a JSON object");
	cr_expect_eq(fixture_query(&f, "Unknown", "{}"), 501);
}

Test(query, lists_series_values_names_and_types)
{
	expect("Series",
	       "{\"matchers\":[\"{service_name=\\\"svc\\\"}\"],"
	       "\"labelNames\":[\"service_name\",\"span_name\"]," RANGE "}",
	       "{\"labelsSet\":[{\"labels\":[{\"name\":\"service_name\",\"value\":\"svc\"},"
	       "{\"name\":\"span_name\",\"value\":\"GET /\"}]},"
	       "{\"labels\":[{\"name\":\"service_name\",\"value\":\"svc\"},"
	       "{\"name\":\"span_name\",\"value\":\"GET /b\"}]},"
	       "{\"labels\":[{\"name\":\"service_name\",\"value\":\"svc\"}]}]}");
	expect("LabelValues", "{\"name\":\"span_name\"," RANGE "}",
	       "{\"names\":[\"GET /\",\"GET /b\"]}");
	expect("LabelValues", "{\"name\":\"span_id\"," RANGE "}", "{}");
	expect("LabelNames", "{" RANGE "}",
	       "{\"names\":[\"__name__\",\"__period_type__\",\"__period_unit__\","
	       "\"__profile_type__\",\"__service_name__\",\"__type__\",\"__unit__\",\"service_"
	       "name\",\"span_name\"]}");
	expect("ProfileTypes", "{" RANGE "}",
	       "{\"profileTypes\":[{\"ID\":\"" CPU "\",\"name\":\"process_cpu\",\"periodType\":"
	       "\"cpu\",\"periodUnit\":\"nanoseconds\",\"sampleType\":\"cpu\",\"sampleUnit\":"
	       "\"nanoseconds\"},{\"ID\":\"process_cpu:samples:count:cpu:nanoseconds\",\"name\":"
	       "\"process_cpu\",\"periodType\":\"cpu\",\"periodUnit\":\"nanoseconds\","
	       "\"sampleType\":\"samples\",\"sampleUnit\":\"count\"}]}");
	expect("ProfileTypes", "{\"start\":1,\"end\":2}", "{}");
}

Test(query, sees_its_own_tenant_only)
{
	f.d.options.multitenancy = true;
	cr_expect_eq(fixture_call(&f, "POST", "/querier.v1.QuerierService/ProfileTypes",
				  "content-type: application/json\nx-scope-orgid: team",
				  pd_bytes_of("{}")),
		     200);
	cr_expect_str_eq(f.r.body.at, "{}");
	cr_expect_eq(fixture_query(&f, "ProfileTypes", "{}"), 401);
}

Test(query, spans_adds_up_everything)
{
	static const char *const parts[] = {
		"\"9a517183f26a089d\":{\"ns\":10000000,\"rows\":1,\"samples\":1,\"service\":"
		"\"svc\","
		"\"span_name\":\"GET /\",\"trace_id\":\"" FIXTURE_TRACE "\"}",
		"\"00000000000000ab\":{\"ns\":20000000,\"rows\":1,\"samples\":2,",
		"\"with_span\":{\"ns\":30000000,\"rows\":2,\"samples\":3}",
		"\"without_span\":{\"ns\":40000000,\"rows\":1,\"samples\":4}",
		"\"total\":{\"ns\":70000000,\"rows\":3,\"samples\":7}",
		"\"services\":{\"svc\":{\"ns\":70000000,\"rows\":3,\"samples\":7}}",
		"\"span_names\":{\"GET /\":{\"ns\":10000000,",
	};

	cr_expect_eq(fixture_call(&f, "GET", "/double/spans", "", pd_bytes_of("")), 200);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		cr_expect_not_null(strstr(f.r.body.at, parts[i]), "%s not in %s", parts[i],
				   f.r.body.at);
}

Test(query, spans_shows_pids_and_conflicting_names)
{
	static const uint64_t stack[] = {1};
	static const int64_t value[] = {1, 1};
	struct pd_text labels = {0};

	pb_label(&labels, pb_string(&f.p, "pid"), pb_string(&f.p, "42"), 0);
	pb_label(&labels, pb_string(&f.p, "span_id"), pb_string(&f.p, FIXTURE_SPAN), 0);
	pb_label(&labels, pb_string(&f.p, "span_name"), pb_string(&f.p, "other"), 0);
	pb_sample(&f.p, stack, 1, value, 2, &labels);
	fixture_accepted(&f);
	fixture_call(&f, "GET", "/double/spans", "", pd_bytes_of(""));
	cr_expect_not_null(strstr(f.r.body.at, "\"pids\":{\"42\":{\"ns\":1,"), "%s", f.r.body.at);
	cr_expect_not_null(strstr(f.r.body.at, "{\"conflicts\":2,\"ns\":10000001,"), "%s",
			   f.r.body.at);
}
