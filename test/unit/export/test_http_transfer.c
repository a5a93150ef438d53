/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: the exporter does not wait for one, knows when it ends, and what happened to it. */
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

/* Starts a transfer and continues it until the server has the request, and a little longer. */
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
	post(NULL, 1500); /* long enough to send it on a busy machine */

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
	while (strstr(request, "the body") == NULL)
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
	while (strstr(request, "the body") == NULL)
		cr_assert_not(go_on(&slot));
	nanosleep(&late, NULL);
	while (!sp_http_poll(http, &slot, &reply))
		;
	sp_http_free(http);
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "%s", reply.text);
}

/* No server accepts the second transfer: it hangs, and the first one is answered all the same. */
Test(http_transfer, transfers_go_side_by_side, .timeout = 20)
{
	static uint8_t body[] = "the other body";
	static const struct sp_message other = {.body = {body, 14}};

	answer_ms = 100;
	start(ok, 5000);
	while (strstr(request, "the body") == NULL)
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

/* The kernel takes far fewer bytes without a reader. */
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

static void *accept_and_close(void *arg)
{
	int fd = accept(listener, NULL, NULL);

	while (arg != NULL && request_len == 0)
		request_len = (size_t)recv(fd, request, sizeof(request) - 1, 0);
	close(fd);
	return NULL;
}

/* A forwarder without a server behind it closes at once, or when it has read the bytes that it would forward. */
Test(http_transfer, who_closes_before_the_body_has_taken_nothing, .timeout = 20)
{
	static uint8_t body[] = "the body";
	const struct sp_message m = {.body = {body, 8}};

	for (unsigned reads = 0; reads < 2; reads++) {
		request_len = 0;
		cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
		cr_assert_eq(
			pthread_create(&thread, NULL, accept_and_close, reads != 0 ? http : NULL),
			0);
		send_message(&m, 5000);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
		cr_expect_not(reply.sent, "%u: %s", reads, reply.text);
		cr_expect_null(strstr(request, "the body"));
		sp_http_free(http);
	}
}

static unsigned connections, requests;
static bool hangs_up_on_the_second;

/* Answers everything that arrives over a connection until the client closes it. */
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

/* A server may close an idle connection at any time, and the next request may meet that. */
Test(http_transfer, no_connection_is_open_between_requests, .timeout = 20)
{
	unsigned before;

	start_server();
	send_small(); /* makes libcurl load */
	before = open_descriptors();
	for (unsigned i = 0; i < 3; i++) {
		send_small();
		cr_expect_eq(reply.status, 200, "%s", reply.text);
		/* The server, which is in this process, closes its end when it sees that ours is closed. */
		while (open_descriptors() > before)
			(void)sched_yield();
	}
	stop_server();

	cr_expect_eq(requests, 4);
	cr_expect_eq(connections, 4);
}

/* libcurl may repeat a request whose connection ends without an answer. The server may have taken the first one. */
Test(http_transfer, what_a_server_has_read_is_not_sent_again_when_the_connection_ends,
     .timeout = 20)
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

/* Servers that were joined are waited for together, and each hears only of its own transfers. */
Test(http_transfer, of_several_servers_are_waited_for_together, .timeout = 20)
{
	static uint8_t body[] = "the body";
	static const struct sp_message m = {.body = {body, 8}};
	struct sp_http *other;
	struct timespec from, to;
	unsigned waits = 0;

	response = ok;
	answer_ms = 200;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &other), 0);
	sp_http_join(other, http);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	sp_http_start(other, SLOT, &m, 15000);
	while (!sp_http_poll(other, &slot, &reply)) {
		cr_assert_not(sp_http_poll(http, &slot, &reply), "of another server");
		sp_http_wait(http, -1, 5000);
		waits++;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	cr_expect_eq(slot, SLOT);
	cr_expect_eq(reply.status, 200);
	cr_expect_lt(to.tv_sec - from.tv_sec, 4, "it was not woken");
	cr_expect_lt(waits, 100, "it did not sleep: %u", waits);
	pthread_join(thread, NULL);

	/* A wait for one server ends with the transfer of the other server. */
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_start(other, SLOT, &m, 15000);
	sp_http_start(other, SLOT + 1, &m, 15000);
	while (!sp_http_poll(other, &slot, &reply))
		sp_http_wait(http, -1, 10);
	pthread_join(thread, NULL);
	/* In either order. */
	sp_http_free(http);
	sp_http_wait(other, -1, 1);
	sp_http_free(other);
}

/* A poll of one server may see the end of another server's transfer. */
Test(http_transfer, an_end_is_kept_for_its_server, .timeout = 20)
{
	static uint8_t body[] = "the body";
	static const struct sp_message m = {.body = {body, 8}};
	struct sp_http *other;

	response = ok;
	answer_ms = 300;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &other), 0);
	sp_http_join(other, http);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_start(other, SLOT, &m, 15000);
	while (strstr(request, "the body") == NULL) {
		cr_assert_not(sp_http_poll(other, &slot, &reply));
		sp_http_wait(other, -1, 10);
	}
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_not(sp_http_poll(http, &slot, &reply));
		(void)poll(NULL, 0, 10);
	}
	cr_expect(sp_http_poll(other, &slot, &reply), "its end was lost");
	cr_expect_eq(reply.status, 200);
	pthread_join(thread, NULL);
	sp_http_free(other);
	sp_http_free(http);
}
