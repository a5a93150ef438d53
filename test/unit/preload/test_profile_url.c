/* SPDX-License-Identifier: Apache-2.0 */
/* Profile URLs: placeholders, presets, encoding, limits. */
#include "preload/sdk/profile_url.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct sp_profile_url sample = {
	.form = "",
	.service = "shop",
	.profile_type = "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
	.span_name = "GET /cart",
	.span_name_len = 9,
	.name_is_label = true,
	.span_id = "00f067aa0ba902b7",
	.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
	.from_ns = UINT64_C(1700000000123456789),
	.until_ns = UINT64_C(1700000010999999999),
	.start_ns = UINT64_C(1700000001222222222),
	.end_ns = UINT64_C(1700000009999999999),
};

static char url[SP_PROFILE_URL_MAX + 1];

static size_t format(const char *form)
{
	sample.form = form;
	memset(url, '!', sizeof(url));
	size_t n = sp_profile_url_format(&sample, url);

	cr_assert_eq(url[SP_PROFILE_URL_MAX], '!', "wrote past the end");
	cr_assert_eq(strlen(url), n);
	return n;
}

TestSuite(profile_url, .timeout = 20);

struct row {
	const char *form;
	const char *url;
};

Test(profile_url, fills_in_placeholders)
{
	const struct row rows[] = {
		{"", ""},
		{"http://host/path", "http://host/path"},
		{"{span_id}", "00f067aa0ba902b7"},
		{"{trace_id}", "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"{service}", "shop"},
		{"{profile_type}", "process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds"},
		{"{span_name}", "GET%20%2Fcart"},
		{"{from_ns}/{until_ns}", "1700000000123456789/1700000010999999999"},
		{"{from_ms}/{until_ms}", "1700000000123/1700000010999"},
		{"{from_s}/{until_s}", "1700000000/1700000010"},
		{"{start_ns}/{start_ms}/{start_s}", "1700000001222222222/1700000001222/1700000001"},
		{"{end_ns}/{end_ms}/{end_s}", "1700000009999999999/1700000009999/1700000009"},
		{"a{service}b{service}c", "ashopbshopc"},
		{"{service}{service}", "shopshop"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(format(rows[i].form), strlen(rows[i].url));
		cr_assert_str_eq(url, rows[i].url);
	}
}

Test(profile_url, keeps_what_is_no_placeholder_as_written)
{
	const char *const forms[] = {
		"{",          "}",          "{}",        "{unknown}",     "{span_id",
		"span_id}",   "{ span_id}", "{SPAN_ID}", "{span_idx}",    "{span_i}",
		"{from_mss}", "{from}",     "{froms}",   "%7Bspan_id%7D", "{{}}{",
		"a{b{c",      "{service\n"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		format(forms[i]);
		cr_assert_str_eq(url, forms[i]);
	}
}

Test(profile_url, finds_a_placeholder_inside_other_braces)
{
	format("{{span_id}}");
	cr_assert_str_eq(url, "{00f067aa0ba902b7}");
	format("{x{service}");
	cr_assert_str_eq(url, "{xshop");
}

Test(profile_url, encodes_every_byte_but_the_unreserved)
{
	char name[256];
	size_t at = 0;

	for (int c = 1; c < 256; c++)
		name[c - 1] = (char)c;
	sample.span_name = name;
	sample.span_name_len = 255;
	cr_assert_gt(format("{span_name}"), 255);

	for (int c = 1; c < 256; c++) {
		char want[4];

		if (c < 128 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789-._~",
				      c) != NULL)
			snprintf(want, sizeof(want), "%c", c);
		else
			snprintf(want, sizeof(want), "%%%02X", c);
		cr_assert_eq(strncmp(url + at, want, strlen(want)), 0, "byte %d", c);
		at += strlen(want);
	}
	cr_assert_eq(url[at], '\0');
}

Test(profile_url, a_name_may_hold_any_byte_and_be_empty)
{
	sample.span_name = "a\0b";
	sample.span_name_len = 3;
	format("{span_name}");
	cr_assert_str_eq(url, "a%00b");

	sample.span_name = NULL;
	sample.span_name_len = 0;
	cr_assert_eq(format("{span_name}"), 0);
}

Test(profile_url, a_value_is_not_read_as_a_template)
{
	sample.service = "{span_id}";
	format("{service}");
	cr_assert_str_eq(url, "%7Bspan_id%7D");
}

Test(profile_url, without_a_service_leaves_it_empty)
{
	sample.service = NULL;
	format("[{service}]");
	cr_assert_str_eq(url, "[]");
}

Test(profile_url, formats_the_smallest_and_the_largest_number)
{
	sample.from_ns = 0;
	sample.until_ns = UINT64_MAX;
	format("{from_ns} {from_ms} {from_s} {until_ns}");
	cr_assert_str_eq(url, "0 0 0 18446744073709551615");
}

Test(profile_url, knows_drilldown_by_its_name_in_any_case)
{
	cr_assert_gt(format("grafana-drilldown"), 0);
	cr_assert_str_eq(url, "http://localhost:3000/a/grafana-pyroscope-app/explore"
			      "?var-serviceName=shop&var-profileMetricId=process_cpu%3Acpu%3A"
			      "nanoseconds%3Acpu%3Ananoseconds&explorationType=flame-graph"
			      "&from=1700000000123&to=1700000010999"
			      "&var-spanSelector=00f067aa0ba902b7");
	char first[SP_PROFILE_URL_MAX];

	memcpy(first, url, sizeof(first));
	cr_assert_gt(format("Grafana-DrillDown"), 0);
	cr_assert_str_eq(url, first);
}

Test(profile_url, a_preset_starts_with_the_given_base)
{
	sample.base = "https://grafana.example/sub/";
	format("grafana-explore");
	cr_assert_eq(strncmp(url, "https://grafana.example/sub/explore?left=%7B", 44), 0, "%s",
		     url);
	sample.base = "https://grafana.example";
	format("grafana-explore");
	cr_assert_eq(strncmp(url, "https://grafana.example/explore?left=%7B", 40), 0, "%s", url);
}

/* The byte before an empty base is not its last character. */
Test(profile_url, an_empty_base_is_nothing)
{
	static const char slash[] = "/";

	sample.base = &slash[1];
	format("{base}/a");
	cr_assert_str_eq(url, "/a");
}

static int hex(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Decodes as a browser does. */
static void decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++) {
		if (*from == '%') {
			*to++ = (char)(hex(from[1]) << 4 | hex(from[2]));
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

Test(profile_url, explore_decodes_to_the_panes_json)
{
	format("grafana-explore");
	decode(url);

	cr_assert_str_eq(
		url, "http://localhost:3000/explore?left={\"range\":{\"from\":\"1700000000123\","
		     "\"to\":\"1700000010999\"},\"queries\":[{\"refId\":\"profile\","
		     "\"queryType\":\"profile\",\"profileTypeId\":\"process_cpu:cpu:nanoseconds:"
		     "cpu:nanoseconds\",\"groupBy\":[],\"labelSelector\":"
		     "\"{service_name=\\\"shop\\\"}\",\"spanSelector\":[\"00f067aa0ba902b7\"]}]}");
}

/* A JSON parser and then a parser of label selectors must get the same name. */
Test(profile_url, explore_stays_json_whatever_the_names_hold)
{
	sample.service = "a\"b\\c";
	sample.span_name = "\"\\\n\t{x}\xc3\xa4";
	sample.span_name_len = strlen(sample.span_name);
	format("grafana-explore");
	decode(url);
	cr_assert_not_null(strstr(
		url, "\"labelSelector\":\"{service_name=\\\"a\\\\\\\"b\\\\\\\\c\\\"}\",\"spanSel"));

	sample.kind = SP_URL_BASELINE;
	format("grafana-explore");
	decode(url);
	cr_assert_not_null(strstr(url, "span_name=\\\"\\\\\\\"\\\\\\\\\\\\x0a\\\\x09{x}\xc3\xa4"
				       "\\\"}\"}]}"));
}

/* Grafana's scenes split a filter at commas, and each part into three. */
Test(profile_url, drilldown_reads_the_whole_name_of_the_baseline)
{
	const struct row rows[] = {
		{"GET /a,b", "GET%20%2Fa__gfc__b"},       {"a|b", "a__gfp__b"}, {"#1", "__gfh__1"},
		{",|#,", "__gfc____gfp____gfh____gfc__"}, {"a_b", "a_b"},
	};
	const char *filter = "&var-filters=span_name%7C%3D%7C";

	sample.kind = SP_URL_BASELINE;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sample.span_name = rows[i].form;
		sample.span_name_len = strlen(rows[i].form);
		format("grafana-drilldown");
		cr_assert_not_null(strstr(url, filter));
		cr_assert_str_eq(strstr(url, filter) + strlen(filter), rows[i].url);
	}
}

/* Without a data source Grafana chooses one, which may have another server's profiles. */
Test(profile_url, the_presets_of_grafana_name_the_data_source)
{
	for (unsigned kind = SP_URL_PROFILE; kind <= SP_URL_BASELINE; kind++) {
		sample.kind = (enum sp_profile_url_kind)kind;
		sample.datasource = "a b&c";
		format("grafana-drilldown");
		cr_assert_not_null(
			strstr(url, "/explore?var-dataSource=a%20b%26c&var-serviceName="));
		sample.datasource = "a\"b\\";
		format("grafana-explore");
		decode(url);
		cr_assert_not_null(strstr(url, "},\"datasource\":\"a\\\"b\\\\\",\"queries\":["));
		format("{datasource}");
		cr_assert_str_eq(url, "a%22b%5C");
		sample.datasource = "";
		format("grafana-drilldown");
		cr_assert_null(strstr(url, "dataSource"));
		format("grafana-explore");
		cr_assert_null(strstr(url, "datasource"));
	}
}

Test(profile_url, the_baseline_is_found_by_name)
{
	sample.kind = SP_URL_BASELINE;
	format("grafana-drilldown");
	cr_assert_str_eq(url, "http://localhost:3000/a/grafana-pyroscope-app/explore"
			      "?var-serviceName=shop&var-profileMetricId=process_cpu%3Acpu%3A"
			      "nanoseconds%3Acpu%3Ananoseconds&explorationType=flame-graph"
			      "&from=1700000000123&to=1700000010999"
			      "&var-filters=span_name%7C%3D%7CGET%20%2Fcart");
	format("grafana-explore");
	decode(url);
	cr_assert_not_null(strstr(url, "\"labelSelector\":\"{service_name=\\\"shop\\\","
				       "span_name=\\\"GET /cart\\\"}\"}]}"));
	cr_assert_null(strstr(url, "spanSelector"));
	format("http://host/{span_name}");
	cr_assert_str_eq(url, "http://host/GET%20%2Fcart");

	sample.name_is_label = false;
	cr_assert_eq(format("grafana-drilldown"), 0);
	cr_assert_eq(format("grafana-explore"), 0);
	cr_assert_gt(format("pyroscope-legacy"), 0);
}

Test(profile_url, only_the_legacy_preset_links_to_a_difference)
{
	sample.kind = SP_URL_DIFF;
	cr_assert_eq(format("grafana-drilldown"), 0);
	cr_assert_eq(format("grafana-explore"), 0);
	cr_assert_eq(format("http://host/{span_id}"), 0);
	cr_assert_gt(format("pyroscope-legacy"), 0);
}

/* Written by hand after otel-profiling-go 0.4.0: url.Values.Encode() sorts, and a space becomes a plus. */
Test(profile_url, legacy_is_what_the_go_library_wrote)
{
	const char *comparison = "from=1700000000&leftFrom=1700000000"
				 "&leftQuery=my+shop.cpu%7Bspan_name%3D%22GET+%2Fcart%22%7D"
				 "&leftUntil=1700000009"
				 "&query=my+shop.cpu%7Bspan_name%3D%22GET+%2Fcart%22%7D"
				 "&rightFrom=1700000000"
				 "&rightQuery=my+shop.cpu%7Bprofile_id%3D%2200f067aa0ba902b7%22%7D"
				 "&rightUntil=1700000009&until=1700000009";
	char want[SP_PROFILE_URL_MAX];

	sample.service = "my shop";
	format("pyroscope-legacy");
	cr_assert_str_eq(url, "http://localhost:4040/?from=1700000001"
			      "&query=my+shop.cpu%7Bprofile_id%3D%2200f067aa0ba902b7%22%7D"
			      "&until=1700000009");
	sample.base = "https://pyroscope.example";
	sample.kind = SP_URL_BASELINE;
	format("pyroscope-legacy");
	snprintf(want, sizeof(want), "https://pyroscope.example/comparison?%s", comparison);
	cr_assert_str_eq(url, want);
	sample.kind = SP_URL_DIFF;
	format("pyroscope-legacy");
	snprintf(want, sizeof(want), "https://pyroscope.example/comparison-diff?%s", comparison);
	cr_assert_str_eq(url, want);
}

static const char *legacy_query(const char *labels)
{
	static char query[SP_PROFILE_URL_MAX];
	char *at;

	sample.kind = SP_URL_BASELINE;
	sample.baseline_labels = labels;
	format("pyroscope-legacy");
	decode(url);
	at = strstr(url, "&query=shop.cpu");
	cr_assert_not_null(at);
	snprintf(query, sizeof(query), "%s", at + strlen("&query=shop.cpu"));
	*strchr(query, '&') = '\0';
	return query;
}

Test(profile_url, legacy_takes_the_labels_of_the_baseline)
{
	const struct {
		const char *labels;
		const char *query;
	} rows[] = {
		{NULL, "{span_name=\"GET+/cart\"}"},
		{"", "{span_name=\"GET+/cart\"}"},
		{"region=eu", "{span_name=\"GET+/cart\",region=\"eu\"}"},
		{" region=eu , zone:1 ,,", "{span_name=\"GET+/cart\",region=\"eu\",zone=\"1\"}"},
		{"span_name=,region=eu", "{region=\"eu\"}"},
		{"span_name=all", "{span_name=\"all\"}"},
		{"region=", "{span_name=\"GET+/cart\"}"},
		{"a=b=c:d", "{span_name=\"GET+/cart\",a=\"b=c:d\"}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_assert_str_eq(legacy_query(rows[i].labels), rows[i].query);
	sample.name_is_label = false;
	cr_assert_str_eq(legacy_query(NULL), "{}");
}

static void fill(char *form, size_t n, const char *end)
{
	memset(form, 'x', n);
	strcpy(form + n, end);
}

/* Every kind of value at the limit: a value that just fits, and a value that is a byte longer. */
Test(profile_url, is_whole_or_nothing_whatever_comes_last)
{
	const struct row rows[] = {{"{span_id}", "00f067aa0ba902b7"},
				   {"{span_name}", "GET%20%2Fcart"},
				   {"{from_ms}", "1700000000123"},
				   {"{unknown}", "{unknown}"},
				   {"{service}/", "shop/"}};
	char form[SP_PROFILE_URL_MAX + 32];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len = strlen(rows[i].url);

		fill(form, SP_PROFILE_URL_MAX - 1 - len, rows[i].form);
		cr_assert_eq(format(form), SP_PROFILE_URL_MAX - 1, "%s", rows[i].form);
		cr_assert_str_eq(url + SP_PROFILE_URL_MAX - 1 - len, rows[i].url);
		for (size_t over = 1; over <= len; over++) {
			fill(form, SP_PROFILE_URL_MAX - 1 - len + over, rows[i].form);
			cr_assert_eq(format(form), 0, "%s", rows[i].form);
		}
	}
}
