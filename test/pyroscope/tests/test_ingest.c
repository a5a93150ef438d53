/* SPDX-License-Identifier: Apache-2.0 */
/* /ingest as a client sees it. */
#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/tests/fixture.h"

static struct fixture f;

static void teardown(void)
{
	fixture_fini(&f);
}

static void start(struct pd_options options)
{
	fixture_init(&f, options);
}

TestSuite(ingest, .fini = teardown, .timeout = 20);

static struct pd_text good_pprof(void)
{
	struct pd_text raw;

	pb_span(&f.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	raw = pb_finish(&f.p);
	pb_start(&f.p, FIXTURE_NOW);
	return raw;
}

static void expect_body(const char *text)
{
	cr_expect_not_null(strstr(f.r.body.at, text), "%s", f.r.body.at);
}

static unsigned ingest(const char *target, const char *headers, struct pd_bytes body)
{
	return fixture_call(&f, "POST", target, headers, body);
}

Test(ingest, takes_a_raw_pprof)
{
	struct pd_text raw;
	struct pd_labels stored;

	start((struct pd_options){0});
	raw = good_pprof();
	cr_expect_eq(
		ingest("/ingest?format=pprof&name=app{a=b}&spyName=c", "", pd_text_bytes(&raw)),
		200);
	cr_expect_eq(f.r.body.len, 0);
	stored = f.d.first->series[0].labels;
	cr_expect(pd_bytes_is(pd_labels_get(stored, "__name__"), "process_cpu"));
	cr_expect_not(pd_labels_has(stored, pd_bytes_of("__delta__")));
	cr_expect(pd_bytes_is(pd_labels_get(stored, "pyroscope_spy"), "c"));
	cr_expect(pd_bytes_is(pd_labels_get(stored, "service_name"), "app"));
	cr_expect(pd_bytes_is(pd_labels_get(stored, "a"), "b"));
	cr_expect_eq(ingest("/pyroscope/ingest?format=pprof&name=app{service_name=s}", "",
			    pd_text_bytes(&raw)),
		     200);
	cr_expect(pd_bytes_is(pd_labels_get(f.d.last->labels, "service_name"), "s"));
	pd_text_fini(&raw);
}

Test(ingest, has_codes_of_its_own)
{
	struct pd_text raw;

	start((struct pd_options){0});
	raw = good_pprof();
	cr_expect_eq(ingest("/ingest?format=pprof&name=a{b=c,d,e=f}", "", pd_text_bytes(&raw)),
		     400);
	expect_body("{\"code\":\"invalid_argument\",\"message\":\"name: invalid label name: d,e");
	cr_expect_eq(ingest("/ingest?format=pprof", "", pd_text_bytes(&raw)), 400);
	expect_body("service name is required");
	cr_expect_eq(ingest("/ingest?format=pprof&name=a", "", pd_bytes_of("no pprof")), 422);
	pd_text_add(&raw, "\x32\x01\xff", 3);
	cr_expect_eq(ingest("/ingest?format=pprof&name=a", "", pd_text_bytes(&raw)), 422);
	expect_body("invalid utf8 string hex: ff");
	expect_body(
		"{\"code\":\"unknown\",\"message\":\"pushing IngestInput-pprof failed push series "
		"with index 0 and id  failed: invalid_argument: ");
	cr_expect_eq(fixture_call(&f, "GET", "/ingest", "", pd_bytes_of("")), 405);
	cr_expect_eq(ingest("/ingest?format=jfr&name=a", "", pd_text_bytes(&raw)), 422);
	expect_body("{\"code\":\"unknown\",");
	cr_expect_eq(ingest("/ingest?format=any&name=a", "", pd_text_bytes(&raw)), 422);
	cr_expect_eq(
		ingest("/ingest?format=pprof&name=app{service_name=}", "", pd_text_bytes(&raw)),
		422);
	f.d.limits.burst_bytes = 10;
	cr_expect_eq(ingest("/ingest?format=pprof&name=a", "", pd_text_bytes(&raw)), 429);
	cr_expect_eq(f.d.stats.profiles, 0);
	pd_text_fini(&raw);
}

static unsigned ingest_form(const char *part)
{
	struct pd_text raw = good_pprof();
	struct pd_text body = {0};
	unsigned status;

	pd_text_addf(&body, "--B\r\nContent-Disposition: form-data; %s\r\n\r\n", part);
	pd_text_add(&body, raw.at, raw.len);
	pd_text_adds(&body, "\r\n--B--\r\n");
	status = ingest("/ingest?name=a", "content-type: multipart/form-data; boundary=B",
			pd_text_bytes(&body));
	pd_text_fini(&raw);
	pd_text_fini(&body);
	return status;
}

/* One type, and a sample of it. */
static const char *metric_of(const char *type)
{
	struct pd_text raw, labels_of_none = {0};
	const uint64_t location = 1;
	const int64_t value = 1;
	struct pb_profile p;
	char *name;

	fixture_fini(&f);
	start((struct pd_options){0});
	pb_start_type(&p, FIXTURE_NOW, type, "count");
	pb_sample(&p, &location, 1, &value, 1, &labels_of_none);
	raw = pb_finish(&p);
	cr_expect_eq(ingest("/ingest?format=pprof&name=a", "", pd_text_bytes(&raw)), 200, "%s",
		     f.r.body.at);
	pd_text_fini(&raw);
	name = pd_arena_string(&f.d.first->arena,
			       pd_labels_get(f.d.first->series[0].labels, "__name__"));
	return name;
}

Test(ingest, names_the_metric_by_the_type)
{
	start((struct pd_options){0});
	cr_expect_str_eq(metric_of("samples"), "process_cpu", "which is shown as cpu");
	cr_expect_str_eq(metric_of("cpu"), "process_cpu");
	cr_expect_str_eq(metric_of("wall"), "wall");
	cr_expect_str_eq(metric_of("alloc_space"), "memory");
	cr_expect_str_eq(metric_of("space"), "memory");
	cr_expect_str_eq(metric_of("outer_space"), "outer_space");
}

Test(ingest, takes_a_form_only_with_a_file_name)
{
	start((struct pd_options){0});
	cr_expect_eq(ingest_form("name=\"profile\"; filename=\"profile.pprof\""), 200);
	cr_expect_eq(f.d.stats.profiles, 1);
	cr_expect_eq(ingest_form("name=\"profile\""), 200);
	cr_expect_eq(f.d.stats.profiles, 1, "without a file name nothing is stored");
	cr_expect_eq(ingest_form("name=\"profile\"; filename=\"\""), 200);
	cr_expect_eq(f.d.stats.profiles, 1, "nor with an empty one");
	cr_expect_eq(f.d.stats.losses.empty_ingests, 2);
	cr_expect_eq(ingest_form("name=\"prev_profile\"; filename=\"p\""), 422);
	expect_body("unsupported client version");
}
