/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: that nobody waits for one, when it ends, and what is known of it then. */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include "export/util/clock.h"
#include "http_unit.h"
#include "sampler/base/compiler.h"
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
	while (!sp_http_poll(http, &slot, &reply))
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
		cr_assert_not(go_on(&slot));
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
		cr_assert_not(go_on(&slot));
	nanosleep(&late, NULL);
	while (!sp_http_poll(http, &slot, &reply))
		;
	sp_http_free(http);
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "%s", reply.text);
}

/* Nobody accepts the second one: it hangs, and the first one is answered all the same. */
Test(http_transfer, transfers_go_side_by_side, .timeout = 20)
{
	static uint8_t body[] = "the other body";
	static const struct sp_message other = {.body = {body, 14}};

	answer_ms = 100;
	start(ok, 5000);
	while (request_len == 0)
		cr_assert_not(go_on(&slot));
	sp_http_start(http, 0, &other, 300);
	while (!go_on(&slot))
		;
	cr_expect_eq(slot, SLOT);
	cr_expect_eq(reply.status, 200);
	while (!go_on(&slot))
		;
	cr_expect_eq(slot, 0);
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent);
	sp_http_free(http);
	pthread_join(thread, NULL);
}

/* What the kernel takes off our hands without a reader is far less. */
Test(http_transfer, knows_that_a_request_was_not_sent_whole, .timeout = 20)
{
	static uint8_t body[16 << 20];
	const struct sp_message m = {.body = {body, sizeof(body)}};

	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	send_message(&m, 300);

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

static unsigned connections, requests;
static bool hangs_up_on_the_second;

/* Answers whatever comes over a connection until the client closes it. */
static void *serve_on(void *arg)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		connections++;
		for (;;) {
			read_request(fd);
			if (request_len == 0 || strstr(request, "\r\n\r\n") == NULL)
				break;
			requests++;
			if (requests == 2 && hangs_up_on_the_second)
				break;
			(void)send(fd, ok, strlen(ok), MSG_NOSIGNAL);
		}
		close(fd);
	}
	return arg;
}

static void start_server(void)
{
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve_on, NULL), 0);
}

static void stop_server(void)
{
	sp_http_free(http);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
}

Test(http_transfer, requests_that_follow_each_other_have_one_connection, .timeout = 20)
{
	start_server();
	for (unsigned i = 0; i < 3; i++) {
		send_small();
		cr_expect_eq(reply.status, 200, "%s", reply.text);
	}
	stop_server();

	cr_expect_eq(requests, 3);
	cr_expect_eq(connections, 1);
}

Test(http_transfer, a_connection_is_closed_that_is_idle_for_some_seconds, .timeout = 20)
{
	uint64_t now = sp_clock_mono_ns(), until;
	unsigned before;

	start_server();
	cr_expect_eq(sp_http_rest(http, now), UINT64_MAX, "nothing is open");
	send_small(); /* it loads libcurl */
	cr_expect_eq(sp_http_rest(http, UINT64_MAX), UINT64_MAX);
	before = open_descriptors();
	send_small();
	cr_expect_gt(open_descriptors(), before);
	until = sp_http_rest(http, now);
	cr_expect_gt(until, now + 4 * SP_NS_PER_S);
	cr_expect_leq(until, sp_clock_mono_ns() + 4 * SP_NS_PER_S);
	cr_expect_eq(sp_http_rest(http, until - 1), until);
	cr_expect_gt(open_descriptors(), before, "too soon");
	cr_expect_eq(sp_http_rest(http, until), UINT64_MAX);
	/* The server, which is in this process, closes its end when it sees ours closed. */
	while (open_descriptors() > before)
		(void)sched_yield();
	send_small();
	cr_expect_eq(reply.status, 200, "%s", reply.text);
	stop_server();

	cr_expect_eq(connections, 3);
}

/* libcurl would send it again on another connection. The server may have it. */
Test(http_transfer, what_an_open_connection_took_is_not_sent_again_when_it_ends, .timeout = 20)
{
	hangs_up_on_the_second = true;
	start_server();
	send_small();
	cr_expect_eq(reply.status, 200);
	send_small();
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent, "it would be sent again: %s", reply.text);
	send_small();
	cr_expect_eq(reply.status, 200, "%s", reply.text);
	stop_server();

	cr_expect_eq(requests, 3);
}
