/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of faults and its two notations. */
#include "test/pyroscope/faults.h"

#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/tests/fixture.h"

#define PUSH "/push.v1.PusherService/Push"

static struct fixture f;
static struct pd_faults *faults = &f.d.faults;

static void setup(void)
{
	fixture_init(&f, (struct pd_options){0});
}

static void teardown(void)
{
	fixture_fini(&f);
}

TestSuite(faults, .init = setup, .fini = teardown, .timeout = 20);

Test(faults, are_served_in_order_and_by_count)
{
	struct pd_fault got;

	cr_assert_eq(pd_faults_add_spec(faults, "status=429,retry_after=2,count=2", &f.e), 0);
	cr_assert_eq(pd_faults_add_spec(faults, "reset", &f.e), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert(pd_faults_take(faults, PUSH, &got));
		cr_expect(got.kind == PD_FAULT_STATUS && got.status == 429 && got.retry_after == 2);
	}
	cr_assert(pd_faults_take(faults, "/ingest", &got));
	cr_expect_eq(got.kind, PD_FAULT_RESET);
	cr_expect_not(pd_faults_take(faults, PUSH, &got));
	cr_expect_eq(faults->served, 3);
}

Test(faults, meet_their_path_only)
{
	struct pd_fault got;

	cr_assert_eq(pd_faults_add_spec(faults, "status=503,path=/ready", &f.e), 0);
	cr_expect_not(pd_faults_take(faults, PUSH, &got));
	cr_expect(pd_faults_take(faults, "/ready", &got));
	cr_assert_eq(pd_faults_add_spec(faults, "status=503", &f.e), 0);
	cr_expect_not(pd_faults_take(faults, "/ready", &got));
	cr_expect_not(pd_faults_take(faults, "/double/stats", &got));
}

Test(faults, without_count_zero_end_and_with_it_stay_until_cleared)
{
	struct pd_fault got;

	cr_assert_eq(pd_faults_add_spec(faults, "blackhole,count=0", &f.e), 0);
	for (int i = 0; i < 5; i++)
		cr_expect(pd_faults_take(faults, PUSH, &got));
	pd_faults_fini(faults);
	cr_expect_not(pd_faults_take(faults, PUSH, &got));
	cr_expect_eq(faults->releases, 1);
}

Test(faults, know_every_kind_and_its_defaults)
{
	static const struct {
		const char *spec;
		enum pd_fault_kind kind;
		unsigned status;
		size_t bytes;
	} cases[] = {
		{"status=500", PD_FAULT_STATUS, 500, 32},
		{"close_mid_response", PD_FAULT_CLOSE_MID_RESPONSE, 0, 32},
		{"reset", PD_FAULT_RESET, 0, 32},
		{"slow_drip,bytes=8,interval_ms=5", PD_FAULT_SLOW_DRIP, 0, 8},
		{"blackhole", PD_FAULT_BLACKHOLE, 0, 32},
		{"huge_body", PD_FAULT_HUGE_BODY, 0, 64U << 20},
		{"huge_body,bytes=4294967295", PD_FAULT_HUGE_BODY, 0, UINT32_MAX},
		{"bomb", PD_FAULT_BOMB, 0, 32},
		{"reset_early", PD_FAULT_RESET_EARLY, 0, 32},
		{"stored_reset", PD_FAULT_STORED_RESET, 0, 32},
		{"garbage", PD_FAULT_GARBAGE, 0, 32},
		{"redirect=http://127.0.0.1:1/x", PD_FAULT_REDIRECT, 302, 32},
		{"status=308,redirect=/x", PD_FAULT_REDIRECT, 308, 32},
		{"redirect=/x,status=307", PD_FAULT_REDIRECT, 307, 32},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pd_fault got;

		cr_assert_eq(pd_faults_add_spec(faults, cases[i].spec, &f.e), 0, "%s",
			     cases[i].spec);
		cr_assert(pd_faults_take(faults, PUSH, &got));
		cr_expect(got.kind == cases[i].kind && got.status == cases[i].status &&
				  got.bytes == cases[i].bytes,
			  "%s", cases[i].spec);
	}
}

Test(faults, refuses_nonsense)
{
	static const char *const bad[] = {
		"",
		"count=2",
		"status",
		"status=99",
		"status=x",
		"status=600",
		"reset,garbage",
		"reset,status=500",
		"redirect",
		"slow_drip,bytes=4097",
		"huge_body,bytes=0",
		"teapot",
		"reset,count=-1",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(pd_faults_add_spec(faults, bad[i], &f.e), -1, "%s", bad[i]);
	cr_expect_eq(faults->len, 0);
}

static unsigned post(const char *json)
{
	return fixture_call(&f, "POST", "/double/fault", "", pd_bytes_of(json));
}

Test(faults, come_as_json_too_all_or_none)
{
	struct pd_fault got;

	cr_expect_eq(post("{\"status\":429,\"retry_after\":\"3\",\"count\":2}"), 200);
	cr_expect_str_eq(f.r.body.at, "{\"pending\":1}");
	cr_expect_eq(post("[{\"reset\":true},{\"redirect\":\"/x\"}]"), 200);
	cr_expect_eq(faults->len, 3);
	cr_expect_eq(post("[{\"reset\":true},{\"teapot\":1}]"), 400);
	cr_expect_eq(post("nonsense"), 400);
	cr_expect_eq(post("7"), 400);
	cr_expect_eq(faults->len, 3);
	cr_assert(pd_faults_take(faults, PUSH, &got));
	cr_expect(got.status == 429 && got.retry_after == 3);
	cr_expect_eq(fixture_call(&f, "DELETE", "/double/fault", "", pd_bytes_of("")), 200);
	cr_expect_eq(faults->len, 0);
}

Test(faults, do_not_pile_up)
{
	for (int i = 0; i < PD_FAULTS_MAX; i++)
		cr_assert_eq(pd_faults_add_spec(faults, "reset", &f.e), 0);
	cr_expect_eq(pd_faults_add_spec(faults, "reset", &f.e), -1);
}
