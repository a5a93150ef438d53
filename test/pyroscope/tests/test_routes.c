/* SPDX-License-Identifier: Apache-2.0 */
/* Push as a client sees it: status, body, credentials, encodings. */
#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/tests/fixture.h"

#define PUSH "/push.v1.PusherService/Push"
#define PROTO "content-type: application/proto"
#define JSON "content-type: application/json"

static const char *const labels[] = {"__name__", "process_cpu", "service_name", "svc", NULL};

static struct fixture f;

static void teardown(void)
{
	fixture_fini(&f);
}

static void start(struct pd_options options)
{
	fixture_init(&f, options);
}

TestSuite(routes, .fini = teardown, .timeout = 20);

static struct pd_text good_pprof(void)
{
	struct pd_text raw;

	pb_span(&f.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	raw = pb_finish(&f.p);
	pb_start(&f.p, FIXTURE_NOW);
	return raw;
}

static struct pd_text good_request(const char *const *names)
{
	struct pd_text raw = good_pprof();
	struct pd_text request = pb_request(names, pd_text_bytes(&raw));

	pd_text_fini(&raw);
	return request;
}

static unsigned push(const char *headers)
{
	struct pd_text request = good_request(labels);
	unsigned status = fixture_call(&f, "POST", PUSH, headers, pd_text_bytes(&request));

	pd_text_fini(&request);
	return status;
}

static void expect_body(const char *text)
{
	cr_expect_not_null(strstr(f.r.body.at, text), "%s", f.r.body.at);
}

Test(routes, push_takes_protobuf_plain_and_gzipped)
{
	struct pd_text request;
	struct pd_text zipped;

	start((struct pd_options){0});
	cr_expect_eq(push(PROTO), 200);
	cr_expect_str_eq(f.r.type, "application/proto");
	cr_expect_eq(f.r.body.len, 0);
	cr_expect_eq(push(PROTO "\nconnect-protocol-version: 1"), 200);
	request = good_request(labels);
	zipped = pb_gzip(&request);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO "\ncontent-encoding: gzip",
				  pd_text_bytes(&zipped)),
		     200);
	cr_expect_eq(f.d.stats.profiles, 3);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO "\ncontent-encoding: gzip",
				  pd_text_bytes(&request)),
		     400);
	expect_body("{\"code\":\"invalid_argument\",\"message\":\"decompress: ");
	cr_expect_eq(push(PROTO "\ncontent-encoding: br"), 501);
	cr_expect_eq(push(PROTO "\nconnect-protocol-version: 2"), 400);
	pd_text_fini(&request);
	pd_text_fini(&zipped);
}

/* {"series":[{"labels":[...],"samples":[{"ID":..., field: base64}]}]} */
static unsigned push_json(const char *field)
{
	struct pd_text raw = good_pprof();
	json_t *series;
	struct pd_text body = {0};
	struct pd_text base64 = {0};
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned status;

	for (size_t bit = 0; bit < raw.len * 8; bit += 6) {
		unsigned v = (unsigned)(uint8_t)raw.at[bit / 8] << 8;

		v |= bit / 8 + 1 < raw.len ? (uint8_t)raw.at[bit / 8 + 1] : 0;
		pd_text_add(&base64, &digits[v >> (10 - bit % 8) & 63], 1);
	}
	series = json_pack("{s:[{s:[{s:s,s:s},{s:s,s:s}],s:[{s:s,s:s}]}]}", "series", "labels",
			   "name", "__name__", "value", "process_cpu", "name", "service_name",
			   "value", "svc", "samples", "ID", "x", field, base64.at);
	pd_json_add(&body, series);
	status = fixture_call(&f, "POST", PUSH, JSON, pd_text_bytes(&body));
	json_decref(series);
	pd_text_fini(&raw);
	pd_text_fini(&body);
	pd_text_fini(&base64);
	return status;
}

Test(routes, push_takes_json_by_both_field_names)
{
	start((struct pd_options){0});
	cr_expect_eq(push_json("rawProfile"), 200);
	cr_expect_str_eq(f.r.body.at, "{}");
	cr_expect_eq(push_json("raw_profile"), 200);
	cr_expect_eq(f.d.stats.profiles, 2);
	cr_expect_eq(push_json("profile"), 500, "without bytes it is no pprof");
	cr_expect_eq(fixture_call(&f, "POST", PUSH, JSON, pd_bytes_of("[]")), 400);
	expect_body("unmarshal message");
	cr_expect_eq(fixture_call(&f, "POST", PUSH, JSON, pd_bytes_of("{}")), 400);
	expect_body("{\"code\":\"invalid_argument\",\"message\":\"no profiles received\"}");
}

Test(routes, push_refuses_other_types_methods_and_messages)
{
	start((struct pd_options){0});
	cr_expect_eq(push("content-type: application/x-protobuf"), 415);
	cr_expect_eq(push(""), 415);
	cr_expect_eq(fixture_call(&f, "GET", PUSH, PROTO, pd_bytes_of("")), 405);
	cr_expect_str_eq(json_string_value(json_object_get(f.r.headers, "Allow")), "POST");
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_bytes_of("\x0a\x05no")), 400);
	expect_body("unmarshal message: not a push.v1.PushRequest");
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_bytes_of("")), 400);
	expect_body("no profiles received");
	cr_expect_eq(fixture_call(&f, "POST", "/push", PROTO, pd_bytes_of("")), 404);
	cr_expect_eq(f.d.stats.profiles, 0);
}

Test(routes, push_answers_with_the_servers_error)
{
	static const char *const no_name[] = {"service_name", "svc", NULL};
	struct pd_text request;

	start((struct pd_options){0});
	request = good_request(no_name);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 400);
	expect_body("\"code\":\"invalid_argument\"");
	expect_body(
		"invalid labels '{service_name=\\\"svc\\\", span_name=\\\"GET /\\\"}' with error: "
		"invalid metric name");
	pd_text_fini(&request);
	request = pb_request(labels, pd_bytes_of("no pprof"));
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 500);
	expect_body("\"code\":\"unknown\"");
	pd_text_fini(&request);
}

Test(routes, push_gives_a_missing_service_its_default)
{
	static const char *const no_service[] = {"__name__", "process_cpu", NULL};
	struct pd_text request;

	start((struct pd_options){0});
	request = good_request(no_service);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 200);
	cr_expect_eq(f.d.stats.losses.default_service_names, 1);
	cr_expect(pd_bytes_is(pd_labels_get(f.d.first->series[0].labels, "service_name"),
			      "unknown_service"));
	pd_text_fini(&request);
}

/* An empty name is there, and no default takes its place. */
Test(routes, an_empty_service_is_refused)
{
	static const char *const empty[] = {"__name__", "process_cpu", "service_name", "", NULL};
	struct pd_text request;

	start((struct pd_options){0});
	request = good_request(empty);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 400);
	expect_body("service name is not provided");
	cr_expect_eq(f.d.stats.profiles, 0);
	pd_text_fini(&request);
}

Test(routes, a_timeout_is_a_number_of_ten_digits)
{
	static const struct {
		const char *timeout;
		unsigned status;
	} cases[] = {{"10000", 200}, {"9999999999", 200}, {"12345678901", 400},
		     {"10s", 400},   {"1.5", 400},        {"-", 400}};
	char headers[128];

	start((struct pd_options){0});
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)snprintf(headers, sizeof(headers), PROTO "\nconnect-timeout-ms: %s",
			       cases[i].timeout);
		cr_expect_eq(push(headers), cases[i].status, "%s", cases[i].timeout);
		if (cases[i].status == 400)
			expect_body("{\"code\":\"invalid_argument\",\"message\":\"parse timeout: ");
	}
}

/* Where one error has a code, it is answered with, in its own words. */
Test(routes, push_answers_with_the_first_error_that_it_knows)
{
	static const char *const no_name[] = {"service_name", "svc", NULL};
	struct pd_text bad, nameless, both = {0};

	start((struct pd_options){0});
	bad = pb_request(labels, pd_bytes_of("no pprof"));
	nameless = good_request(no_name);
	pd_text_add(&both, bad.at, bad.len);
	pd_text_add(&both, nameless.at, nameless.len);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&both)), 400);
	expect_body("{\"code\":\"invalid_argument\",\"message\":\"invalid labels '");
	pd_text_fini(&bad);
	pd_text_fini(&nameless);
	pd_text_fini(&both);
}

Test(routes, names_may_have_dots_and_dashes)
{
	static const char *const dotted[] = {
		"__name__", "my.own-metric", "service_name", "svc", "cloud.region-1", "eu", NULL};
	struct pd_text request;

	start((struct pd_options){0});
	request = good_request(dotted);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 200);
	pd_text_fini(&request);
}

Test(routes, push_stores_the_good_series_of_a_bad_request)
{
	struct pd_text good;
	struct pd_text bad;
	struct pd_text both = {0};

	start((struct pd_options){0});
	good = good_request(labels);
	bad = pb_request(labels, pd_bytes_of("no pprof"));
	pd_text_add(&both, bad.at, bad.len);
	pd_text_add(&both, good.at, good.len);
	pd_text_add(&both, bad.at, bad.len);
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&both)), 500);
	expect_body("\"message\":\"2 errors: failed to unmarshal profile: ");
	expect_body("; failed to unmarshal profile: ");
	cr_expect_eq(f.d.stats.profiles, 1);
	pd_text_fini(&good);
	pd_text_fini(&bad);
	pd_text_fini(&both);
}

Test(routes, push_takes_a_body_up_to_the_limit)
{
	struct pd_text request;

	start((struct pd_options){0});
	request = good_request(labels);
	f.d.limits.body_bytes = request.len;
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 200);
	f.d.limits.body_bytes--;
	cr_expect_eq(fixture_call(&f, "POST", PUSH, PROTO, pd_text_bytes(&request)), 400);
	expect_body("request body too large");
	cr_expect_eq(fixture_call(&f, "POST", "/ingest?name=a&format=pprof", "",
				  pd_text_bytes(&request)),
		     413);
	pd_text_fini(&request);
}

Test(routes, tenants_are_required_when_there_are_many)
{
	start((struct pd_options){.multitenancy = true});
	cr_expect_eq(push(PROTO), 401);
	cr_expect_str_eq(f.r.body.at, "{\"code\":\"unauthenticated\",\"message\":\"no org id\"}");
	cr_expect_eq(fixture_call(&f, "POST", "/ingest?name=a", "", pd_bytes_of("")), 401);
	cr_expect_eq(push(PROTO "\nx-scope-orgid: team"), 200);
	cr_expect_str_eq(f.d.first->tenant, "team");
}

Test(routes, tenants_are_ignored_when_there_is_one)
{
	start((struct pd_options){0});
	cr_expect_eq(push(PROTO "\nx-scope-orgid: team"), 200);
	cr_expect_str_eq(f.d.first->tenant, "anonymous");
}

Test(routes, credentials_are_checked)
{
	start((struct pd_options){.basic = "user:pass", .token = "secret"});
	cr_expect_eq(push(PROTO), 401);
	cr_expect_str_eq(json_string_value(json_object_get(f.r.headers, "WWW-Authenticate")),
			 "Basic realm=\"pyroscope\"");
	cr_expect_eq(push(PROTO "\nauthorization: Basic dXNlcjpwYXNzeA=="), 401);
	cr_expect_eq(push(PROTO "\nauthorization: Bearer secre"), 401);
	cr_expect_eq(push(PROTO "\nauthorization: Bearer secrets"), 401);
	cr_expect_eq(push(PROTO "\nauthorization: Basic dXNlcjpwYXNz"), 200);
	cr_expect_eq(push(PROTO "\nauthorization: bearer secret"), 200);
	cr_expect_eq(fixture_call(&f, "GET", "/ready", "", pd_bytes_of("")), 200);
	cr_expect_eq(fixture_call(&f, "GET", "/anything", "", pd_bytes_of("")), 401);
}

Test(routes, rate_limit_is_a_bucket_that_fills)
{
	double used;

	start((struct pd_options){.rate_limit = true});
	f.d.limits.rate_bytes = 1000;
	f.d.bucket = 0;
	cr_expect_eq(push(PROTO), 429);
	expect_body("\"code\":\"resource_exhausted\"");
	f.d.options.now_ns += INT64_C(1000000000);
	cr_expect_eq(push(PROTO), 200);
	used = 1000 - f.d.bucket;
	f.d.bucket = 2 * used;
	cr_expect_eq(push(PROTO), 200);
	cr_expect_eq(push(PROTO), 200);
	f.d.bucket = used - 1;
	cr_expect_eq(push(PROTO), 429);
}

Test(routes, stats_count_what_was_refused_and_why)
{
	start((struct pd_options){0});
	push(PROTO);
	fixture_call(&f, "POST", PUSH, PROTO, pd_bytes_of(""));
	cr_expect_eq(fixture_call(&f, "GET", "/double/stats", "", pd_bytes_of("")), 200);
	expect_body("\"accepted\":{\"bytes\":");
	expect_body("\"profiles\":1,\"samples\":1}");
	expect_body("\"rejected\":{\"no_profiles\":1}");
	expect_body("\"total\":0,");
}
