/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: that nobody waits for one, when it ends, and what is known of it then. */
#define _GNU_SOURCE
#include <time.h>

#include "http_unit.h"
#include "test/unit/descriptors.h"

TestSuite(http_transfer, .init = set_up);

#define SLOT 3U
static unsigned slot;

/* Begins a transfer and goes on with it until the server has the request, and some more. */
static void start(const char *answer, uint32_t timeout_ms)
{
	static uint8_t body[] = "the body";
	static const struct sp_message m = {.body = {body, 8}};

	response = answer;
	cr_assert_eq(sp_http_new(&core.config, "1.2.3", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_start(http, SLOT, &m, timeout_ms);
}

Test(http_transfer, stops_when_the_time_is_up, .timeout = 20)
{
	post(NULL, 200);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not_null(strcasestr(reply.text, "timed out"), "%s", reply.text);
	cr_expect(reply.sent);
}

Test(http_transfer, nobody_waits_for_a_transfer, .timeout = 20)
{
	struct timespec from, to;
	unsigned polls = 0;

	clock_gettime(CLOCK_MONOTONIC, &from);
	start(NULL, 200);
	while (!sp_http_poll(http, 0, &slot, &reply))
		polls++;
	clock_gettime(CLOCK_MONOTONIC, &to);
	pthread_join(thread, NULL);

	cr_expect_gt(polls, 100, "a poll slept");
	cr_expect_geq((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000,
		      199);
	sp_http_free(http);
}

Test(http_transfer, stops_at_once_when_asked_to, .timeout = 20)
{
	start(NULL, 60000);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	sp_http_stop(http, SLOT, &reply);
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_ABORTED);
	cr_expect(reply.sent, "the server has it");
	sp_http_free(http);
}

Test(http_transfer, an_answer_that_came_in_time_is_one_however_late_it_is_looked_at, .timeout = 20)
{
	const struct timespec late = {.tv_nsec = 300000000};

	answer_ms = 100;
	start(ok, 250);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	nanosleep(&late, NULL);
	while (!sp_http_poll(http, 0, &slot, &reply))
		;
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "%s", reply.text);
	sp_http_free(http);
}

/* Nobody accepts the second one: it hangs, and the first one is answered all the same. */
Test(http_transfer, transfers_go_side_by_side, .timeout = 20)
{
	static uint8_t body[] = "the other body";
	static const struct sp_message other = {.body = {body, 14}};

	answer_ms = 100;
	start(ok, 5000);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	sp_http_start(http, 0, &other, 300);
	while (!sp_http_poll(http, 10, &slot, &reply))
		;
	cr_expect_eq(slot, SLOT);
	cr_expect_eq(reply.status, 200);
	pthread_join(thread, NULL);
	while (!sp_http_poll(http, 10, &slot, &reply))
		;
	cr_expect_eq(slot, 0);
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent);
	sp_http_free(http);
}

/* What the kernel takes off our hands without a reader is far less. */
Test(http_transfer, knows_that_a_request_was_not_sent_whole, .timeout = 20)
{
	static uint8_t body[16 << 20];
	const struct sp_message m = {.body = {body, sizeof(body)}};

	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	sp_http_post(http, &m, 300, &reply);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not(reply.sent);
	sp_http_free(http);
}

Test(http_transfer, knows_that_a_request_was_sent_and_not_answered, .timeout = 20)
{
	post("", 5000);
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent, "the connection ended after the request: %s", reply.text);
}

Test(http_transfer, holds_no_descriptor_between_requests, .timeout = 20)
{
	unsigned before = open_descriptors();

	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	for (unsigned i = 0; i < 3; i++) {
		post_small();
		cr_expect_eq(reply.status, 200);
		cr_expect_eq(open_descriptors(), before);
	}
	sp_http_free(http);
}
