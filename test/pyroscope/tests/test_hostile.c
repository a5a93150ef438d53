/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever arrives, the double answers and keeps its bounds. What these tests look for is shown by
 * the sanitizers; without them a crash still fails.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/tests/fixture.h"

#define PUSH "/push.v1.PusherService/Push"

static struct fixture f;
static struct pd_text request;

static void setup(void)
{
	static const char *const labels[] = {"__name__", "process_cpu", "service_name", "svc",
					     NULL};
	struct pd_text raw;

	fixture_init(&f, (struct pd_options){.lenient = true});
	pb_span(&f.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	pb_span(&f.p, 2, NULL, NULL, NULL);
	raw = pb_finish(&f.p);
	request = pb_request(labels, pd_text_bytes(&raw));
	pd_text_fini(&raw);
}

static void teardown(void)
{
	pd_text_fini(&request);
	fixture_fini(&f);
}

TestSuite(hostile, .init = setup, .fini = teardown, .timeout = 120);

static unsigned push(const char *data, size_t len)
{
	struct pd_arena a = {0};
	/* A copy of the exact size, so that reading past it shows. */
	struct pd_bytes copy = pd_arena_copy(&a, (struct pd_bytes){(const uint8_t *)data, len});
	unsigned status = fixture_call(&f, "POST", PUSH, "content-type: application/proto", copy);

	pd_arena_fini(&a);
	return status;
}

static bool is_answer(unsigned status)
{
	return status == 200 || status == 400 || status == 429 || status == 500;
}

static void query_everything(void)
{
	fixture_call(&f, "GET", "/double/spans", "", pd_bytes_of(""));
	fixture_query(&f, "SelectMergeStacktraces",
		      "{\"profileTypeID\":\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\","
		      "\"start\":1699999999000,\"end\":1700000001000}");
	fixture_query(&f, "Series", "{}");
}

Test(hostile, every_cut_is_answered)
{
	for (size_t cut = 0; cut < request.len; cut++) {
		unsigned status = push(request.at, cut);

		cr_expect(status == 400 || status == 500, "cut at %zu: %u", cut, status);
	}
	cr_expect_eq(push(request.at, request.len), 200);
	cr_expect_eq(f.d.stats.profiles, 1);
}

Test(hostile, every_changed_byte_is_answered)
{
	static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x7f};

	for (size_t i = 0; i < request.len; i++)
		for (size_t c = 0; c < sizeof(changes); c++) {
			unsigned status;

			request.at[i] = (char)((uint8_t)request.at[i] ^ changes[c]);
			status = push(request.at, request.len);
			cr_expect(is_answer(status), "byte %zu ^ %02x: %u", i, changes[c], status);
			request.at[i] = (char)((uint8_t)request.at[i] ^ changes[c]);
		}
	cr_expect_gt(f.d.stats.profiles, 0);
	query_everything();
}

Test(hostile, a_bomb_stops_at_the_limit)
{
	struct pd_text zeros = {0};
	struct pd_text bomb;
	struct pd_text body = {0};
	struct pd_text series = {0};
	struct pd_text sample = {0};
	char block[65536] = {0};

	while (zeros.len < 32U << 20)
		pd_text_add(&zeros, block, sizeof(block));
	bomb = pb_gzip(&zeros);
	pb_bytes(&sample, 1, bomb.at, bomb.len);
	pb_message(&series, 2, &sample);
	pb_message(&body, 1, &series);
	cr_assert_lt(body.len, 1U << 20);
	cr_expect_eq(push(body.at, body.len), 400);
	cr_expect_not_null(strstr(f.r.body.at, "payload size exceeds limit of"), "%s", f.r.body.at);
	f.d.limits.body_bytes = 1U << 20;
	cr_expect_eq(fixture_call(&f, "POST", PUSH,
				  "content-type: application/proto\ncontent-encoding: gzip",
				  pd_text_bytes(&bomb)),
		     400);
	pd_text_fini(&zeros);
	pd_text_fini(&bomb);
	pd_text_fini(&body);
}

Test(hostile, a_full_store_says_so)
{
	f.d.limits.stored_bytes = 1;
	cr_expect_eq(push(request.at, request.len), 500);
	cr_expect_not_null(strstr(f.r.body.at, "takes no more"), "%s", f.r.body.at);
	cr_expect_eq(f.d.stats.profiles, 0);
}

Test(hostile, many_tiny_messages_are_bounded)
{
	struct pd_text raw = {0};
	struct pd_text body = {0};
	struct pd_text series = {0};
	struct pd_text sample = {0};

	for (int i = 0; i < 500000; i++)
		pd_text_add(&raw, "\x22\x00", 2);
	pb_bytes(&sample, 1, raw.at, raw.len);
	pb_message(&series, 2, &sample);
	pb_message(&body, 1, &series);
	cr_expect_eq(push(body.at, body.len), 400);
	cr_expect_not_null(strstr(f.r.body.at, "empty profile"), "%s", f.r.body.at);
	pd_text_fini(&raw);
	pd_text_fini(&body);
}
