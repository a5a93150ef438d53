/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its retries, with a clock and a server that the test controls. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push, .fini = push_finish);

Test(push, each_try_is_told_at_debug_alone, .timeout = 20)
{
	push_start(8, 3);
	push_status(200);
	push_put('a', 56);
	sp_push_run(u.push);
	cr_expect_str_eq(core.log, "");
	core.config.log_level = SP_LOG_DEBUG;
	push_unreachable();
	u.hangs = true;
	push_put('b', 7);
	sp_push_run(u.push);
	u.now += 7800000;
	u.hangs = false;
	sp_push_run(u.push);

	cr_expect(core_logged("push of a profile (cpu) of 4711: 2 bytes, 7 samples, no answer "
			      "after 7.8 ms\n"),
		  "%s", core.log);
	u.now += 60 * SP_NS_PER_S;
	u.answer[1].kind = SP_REPLY_STATUS;
	u.answer[1].status = 200;
	sp_push_run(u.push);
	cr_expect(core_logged("push of a profile (cpu) of 4711: 2 bytes, 7 samples, status 200 "
			      "after 0.0 ms\n"),
		  "%s", core.log);
}

Test(push, drops_the_oldest_when_full, .timeout = 20)
{
	push_start(2, 3);
	push_status(200);
	push_put('a', 5);
	push_put('b', 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0, "full is not too full");
	push_put('c', 1);
	sp_push_run(u.push);

	cr_expect_str_eq(u.sent, "bc");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 5);
	push_tell();
	cr_expect_str_eq(core.log, "1 profile lost: the push queue was full, 5 samples\n");
}

Test(push, knows_how_the_last_tries_went, .timeout = 20)
{
	const struct sp_push_results *news;

	push_start(8, 0);
	push_status(503);
	push_status(200);
	u.answer[1].answered_ms = 1234;
	u.answer[1].has_skew = true;
	u.answer[1].skew_ms = -2500;
	push_put('a', 1);
	news = sp_push_results(u.push, 0);
	cr_expect_eq(news->attempts, 0);
	sp_push_run(u.push);
	cr_expect_eq(news->attempts, 1);
	cr_expect_eq(news->last_status, 503);
	cr_expect_str_eq(news->last_error, "status 503: no because 503");
	cr_expect_eq(news->last_success_ms, 0);
	cr_expect_not(news->has_skew);
	u.now += 60 * SP_NS_PER_S;
	sp_push_run(u.push);

	cr_expect_eq(news->attempts, 2);
	cr_expect_eq(news->last_status, 200);
	cr_expect_str_eq(news->last_error, "");
	cr_expect_eq(news->last_success_ms, 1234);
	cr_expect_eq(news->skew_ms, -2500);
	cr_expect_not(core_logged("clock"), "%s", core.log);
}

static void push_with_skew(int64_t skew_ms)
{
	u.answer[0].skew_ms = skew_ms;
	push_put('a', 1);
	sp_push_run(u.push);
}

/*
 * The server refuses profiles that began more than an hour ago, or more than ten minutes in its
 * future.
 */
Test(push, says_once_that_the_clocks_differ_by_more_than_the_server_takes, .timeout = 20)
{
	static const struct {
		int64_t least_ms;
		const char *words;
	} rule[] = {{3600000, "the server's clock is 3600 s ahead of this machine's"},
		    {-600000, "the server's clock is 600 s behind this machine's"}};

	for (size_t i = 0; i < SP_ARRAY_LEN(rule); i++) {
		push_start(8, 0);
		u.answers = u.posts = 0;
		push_status(200);
		u.answer[0].has_skew = true;
		push_with_skew(rule[i].least_ms - rule[i].least_ms / 100);
		cr_expect_str_eq(core.log, "");
		push_with_skew(rule[i].least_ms);
		push_with_skew(rule[i].least_ms);
		cr_expect(core_logged(rule[i].words), "%s", core.log);
		cr_expect_eq(push_lines_with("the server's clock is"), 1, "%s", core.log);
		/*
		 * A clock that is set to local time is off by about an hour; the measured
		 * difference varies with the time that each answer takes.
		 */
		push_with_skew(rule[i].least_ms / 2 + rule[i].least_ms / 100);
		push_with_skew(rule[i].least_ms);
		cr_expect_eq(push_lines_with("the server's clock is"), 1, "%s", core.log);
		push_with_skew(rule[i].least_ms / 2);
		push_with_skew(rule[i].least_ms);
		cr_expect_eq(push_lines_with("the server's clock is"), 2, "%s", core.log);
		push_finish();
	}
	push_start(1, 0);
}

/* The server refuses with Pyroscope's sentence; its clock is behind_s seconds behind ours. */
static void refuse_for_its_time(int64_t behind_s)
{
	u.answers = u.posts = 0;
	push_answer(&u.answer[u.answers++], 400,
		    "{\"code\":\"invalid_argument\",\"message\":\"profile with labels "
		    "'{__name__=\"process_cpu\", service_name=\"checkout\"}' is outside of "
		    "ingestion window (profile timestamp: 2026-11-28 10:20:00 +0000 UTC, the "
		    "ingestion window "
		    "starts at 2026-11-28 09:05:00 +0000 UTC and ends at 2026-11-28 10:15:00 +0000 "
		    "UTC)\"}");
	u.answer[0].has_skew = true;
	u.answer[0].skew_ms = -behind_s * 1000;
	memset(u.sent, 0, sizeof(u.sent));
}

Test(push, a_profile_from_the_future_is_tried_again_when_its_time_has_come, .timeout = 20)
{
	push_start(2, 0);
	refuse_for_its_time(900);
	for (unsigned i = 0; i < 10; i++) {
		push_put('a', 1);
		sp_push_run(u.push);
		u.now += 15 * SP_NS_PER_S;
	}
	cr_expect_eq(sp_push_queued(u.push), 10, "it has room for them though the queue is full");
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	cr_expect(core_logged("profile with labels '{...}' is outside of"), "%s", core.log);
	cr_expect(core_logged("and ends at 2026-11-28 10:15:00 +0000 UTC)"), "all of it: %s",
		  core.log);
	cr_expect(core_logged("; set this machine's clock, or the server's"), "%s", core.log);
	cr_expect(core_logged("will try again"), "%s", core.log);
	cr_expect_eq(sp_push_due_ms(u.push), 302000 - 150000);
	u.answers = 0;
	push_status(200);
	for (unsigned i = 0; i < 21; i++) {
		sp_push_run(u.push);
		u.now += 15 * SP_NS_PER_S;
	}
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 10);
}

/*
 * A server that takes no profile from the future gets it when its time has come. A profile that is
 * refused for its age is not sent again.
 */
Test(push, a_profile_waits_for_its_time_twice_at_most, .timeout = 20)
{
	push_start(2, 0);
	refuse_for_its_time(900);
	push_put('a', 1);
	sp_push_run(u.push);
	u.now += 302 * SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "aa");
	cr_expect_eq(sp_push_due_ms(u.push), 600000);
	u.now += 600 * SP_NS_PER_S;
	u.answer[0].skew_ms = -902000;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "aaa");
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 1);
	refuse_for_its_time(-4000);
	push_put('b', 1);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 2);
}

Test(push, the_end_does_not_wait_for_the_time_of_a_profile, .timeout = 20)
{
	push_start(2, 0);
	refuse_for_its_time(900);
	push_put('a', 7);
	sp_push_run(u.push);
	push_flush(true, 2000);
	cr_expect_eq(core.flush_left, 2000);
	cr_expect(core_logged("has taken the last profile (samples: 7)"), "%s", core.log);
	sp_push_abandon(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 7);
}

/* libcurl's messages with the words of OpenSSL 1.1 and 3, BoringSSL and GnuTLS. */
Test(push, knows_an_alert_of_tls, .timeout = 20)
{
	static const char *const alert[] = {
		"OpenSSL SSL_read: OpenSSL/3.0.17: error:0A00045C:SSL routines::tlsv13 alert "
		"certificate required, errno 0",
		"OpenSSL SSL_read: error:14094412:SSL routines:ssl3_read_bytes:sslv3 alert bad "
		"certificate, errno 0",
		("BoringSSL SSL_read: error:1000045c:SSL "
		 "routines:OPENSSL_internal:TLSV1_ALERT_CERTIFICATE_REQUIRED, errno 0"),
		"GnuTLS recv error (-12): A TLS fatal alert has been received.",
	};
	static const char *const other[] = {
		"",
		"Recv failure: Connection reset by peer",
		"Empty reply from server",
		("OpenSSL SSL_read: OpenSSL/3.0.17: error:0A000126:SSL routines::unexpected eof "
		 "while reading, errno 0"),
		"Failed to connect to alertmanager port 4040",
	};

	push_start(1, 0);
	for (size_t i = 0; i < SP_ARRAY_LEN(alert); i++)
		cr_expect(sp_reply_is_alert(alert[i]), "%s", alert[i]);
	for (size_t i = 0; i < SP_ARRAY_LEN(other); i++)
		cr_expect_not(sp_reply_is_alert(other[i]), "%s", other[i]);
}

/* libcurl's words for a server that expects TLS and closes the connection. */
Test(push, without_an_answer_says_what_to_check, .timeout = 20)
{
	static const char *const words[] = {
		"Empty reply from server",
		"Server returned nothing (no headers, no data)",
		"Recv failure: Connection reset by peer",
		"Received HTTP/0.9 when not allowed",
	};
	char text[512];

	push_start(1, 0);
	for (size_t i = 0; i < SP_ARRAY_LEN(words); i++) {
		struct sp_reply r = {.kind = SP_REPLY_UNREACHABLE, .text_len = strlen(words[i])};

		memcpy(r.text, words[i], r.text_len);
		(void)sp_reply_describe(&r, text, sizeof(text));
		cr_expect_not_null(strstr(text, "speaks http there, not https"), "%s", text);
	}
}

Test(push, success_after_failures_is_said_once, .timeout = 20)
{
	push_start(8, 0);
	push_status(200);
	push_put('a', 1);
	sp_push_run(u.push);
	u.answers = 0;
	push_status(503);
	push_put('b', 1);
	sp_push_run(u.push);
	cr_expect_eq(push_lines_with("pushes succeed again"), 0, "%s", core.log);
	u.answers = 0;
	push_status(200);
	u.now += 60 * SP_NS_PER_S;
	for (unsigned i = 0; i < 3; i++) {
		push_put('c', 1);
		sp_push_run(u.push);
	}
	cr_expect_eq(push_lines_with("pushes succeed again"), 1, "%s", core.log);
}

/*
 * A page for signing in, or a foreign web server: the profile was not taken, and may be taken
 * later.
 */
Test(push, an_answer_of_somebody_else_is_no_success, .timeout = 20)
{
	push_start(8, 0);
	push_status(200);
	u.answer[0].is_foreign = true;
	push_answer(&u.answer[0], 200, "<html><title>Sign in</title></html>");
	push_put('a', 3);
	sp_push_run(u.push);
	cr_expect_eq(sp_push_queued(u.push), 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 0);
	cr_expect(core_logged("push failed, will try again: status 200: Sign in; no Pyroscope "
			      "server answers so: check "
			      "SPANPROF_SERVER_ADDRESS\n"),
		  "%s", core.log);
	u.answer[0].is_foreign = false;
	u.now += 60 * SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 3);
}

Test(push, each_kind_of_refusal_is_said, .timeout = 20)
{
	push_start(8, 0);
	push_status(400);
	push_status(413);
	for (unsigned i = 0; i < 3; i++)
		push_put('a', 1);
	sp_push_run(u.push);

	push_tell();
	cr_expect(core_logged("1 profile lost: the server refused it (400), 1 sample; status 400: "
			      "no because 400\n"),
		  "%s", core.log);
	cr_expect(core_logged("2 profiles lost: the server refused them (413), 2 samples; status "
			      "413: no because 413\n"),
		  "%s", core.log);
}

Test(push, doubles_the_bound_up_to_30_s, .timeout = 20)
{
	static const uint32_t bound_ms[] = {2000, 4000, 8000, 16000, 30000, 30000, 30000};

	push_start(8, 100);
	push_unreachable();
	push_put('a', 1);
	for (size_t i = 0; i < sizeof(bound_ms) / sizeof(bound_ms[0]); i++) {
		/*
		 * The wait is 0 to the bound: the number "twice the bound plus one" makes it the
		 * bound.
		 */
		u.dice = (uint64_t)bound_ms[i] * 2 + 1;
		sp_push_run(u.push);
		cr_expect_eq(sp_push_due_ms(u.push), bound_ms[i], "try %zu", i);
		u.now += (uint64_t)bound_ms[i] * SP_NS_PER_MS;
	}
}

Test(push, treats_every_status_as_it_should_be, .timeout = 20)
{
	static const struct {
		int status;
		bool retried;
	} rule[] = {{301, false}, {400, false}, {401, true},  {403, true},  {404, true},
		    {405, false}, {408, true},  {413, false}, {422, false}, {429, true},
		    {500, true},  {502, true},  {599, true}};

	push_start(8, 100);
	for (size_t i = 0; i < sizeof(rule) / sizeof(rule[0]); i++) {
		u.answers = 0;
		u.posts = 0;
		push_status(rule[i].status);
		u.now += 100 * SP_NS_PER_S;
		push_put('a', 1);
		sp_push_run(u.push);
		cr_expect_eq(sp_push_queued(u.push), rule[i].retried, "%d", rule[i].status);
		push_status(200);
		u.posts = 1;
		u.now += 100 * SP_NS_PER_S;
		sp_push_run(u.push);
		cr_assert_eq(sp_push_queued(u.push), 0);
	}
}

/*
 * OTLP/HTTP says after which statuses a request may be sent again. If a server takes a request and
 * rejects profiles of it, these are lost.
 */
Test(push, obeys_the_rules_of_otlp, .timeout = 20)
{
	static const int never[] = {301, 400, 401, 403, 404, 408, 413, 500, 501, 505};
	static const int again[] = {429, 502, 503, 504};

	push_start(8, 0);
	for (size_t i = 0; i < SP_ARRAY_LEN(never) + SP_ARRAY_LEN(again); i++) {
		bool is_again = i >= SP_ARRAY_LEN(never);

		u.answers = 0;
		u.posts = 0;
		push_status(is_again ? again[i - SP_ARRAY_LEN(never)] : never[i]);
		u.answer[0].is_otlp = true;
		push_put('a', 1);
		u.now += 100 * SP_NS_PER_S;
		sp_push_run(u.push);
		cr_expect_eq(sp_push_queued(u.push), is_again, "%d", u.answer[0].status);
		push_status(200);
		u.posts = 1;
		u.now += 400 * SP_NS_PER_S;
		sp_push_run(u.push);
		cr_assert_eq(sp_push_queued(u.push), 0);
	}
	push_tell();
	core.log[0] = '\0';
	u.answers = u.posts = 0;
	push_status(200);
	u.answer[0].is_otlp = true;
	u.answer[0].rejected = 1;
	push_put('a', 3);
	sp_push_run(u.push);
	push_tell();
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect(core_logged("the server refused it (200), 3 samples"), "%s", core.log);
}

/*
 * A server's remark on a profile that it takes is logged as one line, without control characters.
 */
Test(push, a_warning_of_otlp_is_one_clean_line, .timeout = 20)
{
	push_start(8, 0);
	push_status(200);
	u.answer[0].is_otlp = true;
	u.answer[0].text_len = (size_t)snprintf(u.answer[0].text, sizeof(u.answer[0].text),
						"a\nspanprof[1]: fake\x1b[31m");
	push_put('a', 1);
	sp_push_run(u.push);

	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_not_null(strstr(core.log, "the server says: a"), "%s", core.log);
	cr_expect_null(strstr(core.log, "a\n"), "%s", core.log);
	cr_expect_null(strchr(core.log, '\x1b'));
}

Test(push, gives_up_after_max_tries, .timeout = 20)
{
	push_start(8, 3);
	push_unreachable();
	push_put('a', 4);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(sp_push_queued(u.push), 1);
		sp_push_run(u.push);
		u.now += 60 * SP_NS_PER_S;
	}

	cr_expect_eq(u.posts, 3);
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 4);
	push_tell();
	cr_expect(core_logged("push failed, will try again: refused\n"), "%s", core.log);
	cr_expect(core_logged("1 profile lost: the server did not answer, 4 samples\n"), "%s",
		  core.log);
}

/* By the clock that was set, the profile lasted two hours, or ended before it began. */
Test(push, a_clock_that_was_set_makes_no_profile_too_old, .timeout = 20)
{
	static const int64_t until_s[] = {7200, -7200};

	push_start(8, 3);
	push_status(200);
	for (size_t i = 0; i < sizeof(until_s) / sizeof(until_s[0]); i++)
		push_put_until('a', until_s[i] * (int64_t)SP_NS_PER_S);
	sp_push_run(u.push);

	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 2);
}

Test(push, nearly_an_hour_old_is_not_too_old, .timeout = 20)
{
	push_start(8, 3);
	push_status(200);
	push_put_aged('a', 0);
	u.now += 3539 * SP_NS_PER_S;
	push_put_aged('b', 3541);
	u.now += SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "a", "it has just the age that may be");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 1, "two seconds more than the limit");
}

Test(push, flush_leaves_what_its_time_was_not_enough_for, .timeout = 20)
{
	push_start(SP_TRANSFERS + 2, 5);
	push_status(200);
	u.answer_ns = 800 * SP_NS_PER_MS;
	for (unsigned i = 0; i < SP_TRANSFERS + 2; i++)
		push_put('a', 10);
	push_flush(true, 1500);

	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], SP_TRANSFERS);
	cr_expect_eq(sp_push_queued(u.push), 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	cr_expect(core_logged("before the server has taken the last profiles (samples: 20)"));
	sp_push_abandon(u.push);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 20);
	core.log[0] = '\0';
	push_tell();
	cr_expect_str_eq(core.log, "2 profiles lost: the process ended before they were sent, 20 "
				   "samples\n");
}

/* A job that takes a second cannot wait until an administrator has renewed a token. */
Test(push, a_flush_that_is_awaited_asks_once_who_does_not_know_us, .timeout = 20)
{
	static const int status[] = {401, 403, 404};

	for (size_t i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		push_start(8, 0);
		u.answers = u.posts = 0;
		push_status(status[i]);
		push_put('a', 1);
		push_flush(true, 2000);
		cr_expect_eq(core.flush_left, 2000, "%d", status[i]);
		cr_expect_eq(sp_push_queued(u.push), 1);
		push_status(200);
		u.posts = 1;
		push_flush(false, 10000);
		cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1);
		push_finish();
	}
	push_start(1, 0);
}

Test(push, one_failed_try_at_the_end_is_no_loss, .timeout = 20)
{
	for (unsigned is_awaited = 0; is_awaited < 2; is_awaited++) {
		push_start(8, 0);
		memset(u.sent, 0, sizeof(u.sent));
		u.answers = u.posts = 0;
		push_status(503);
		push_status(503);
		push_status(200);
		push_put('a', 3);
		push_put('b', 4);
		u.dice = 2000;
		sp_push_run(u.push);
		cr_assert_eq(sp_push_due_ms(u.push), 2000);
		u.dice = 499;
		push_flush(is_awaited, 1500);

		cr_expect_str_eq(u.sent, "aaab");
		cr_expect_null(strstr(core.log, "has taken the last profile"), "nothing is left");
		cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 7);
		cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
		push_finish();
	}
	push_start(1, 0);
}

Test(push, a_flush_does_not_press_a_server_that_refuses_for_now, .timeout = 20)
{
	push_start(8, 0);
	push_status(503);
	push_put('a', 3);
	push_put('b', 4);
	u.dice_step = UINT64_C(0x9e3779b97f4a7c15);
	push_flush(false, 10000);
	cr_expect_leq(u.posts, 30, "%u", u.posts);
	cr_expect_geq(u.posts, 5, "%u", u.posts);
	cr_expect_leq(core.flush_left, 500);
	sp_push_abandon(u.push);

	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 7);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 2);
}

Test(push, a_flush_has_no_time_for_what_the_server_puts_off, .timeout = 20)
{
	push_start(8, 0);
	push_status(503);
	u.answer[0].retry_after_s = 30;
	push_put('a', 3);
	push_flush(true, 2000);

	cr_expect_eq(u.posts, 1, "earlier than the server said");
	cr_expect_eq(core.flush_left, 2000, "waited for nothing");
	cr_expect_eq(sp_push_queued(u.push), 1);
}

/*
 * A profile every 2 s, a queue of eight, and a server that is away for 14 s: the queue has a place
 * for each.
 */
Test(push, what_the_queue_has_room_for_is_not_lost_by_waiting, .timeout = 20)
{
	u.interval_ms = 2000;
	push_start(8, 0);
	push_unreachable();
	u.dice = UINT64_MAX;
	for (unsigned s = 0; s < 60; s++) {
		if (s % 2 == 0)
			push_put('a', 1);
		if (s == 14) {
			u.answers = 0;
			push_status(200);
		}
		sp_push_run(u.push);
		u.now += SP_NS_PER_S;
	}

	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 30);
	cr_expect_eq(sp_push_queued(u.push), 0);
}

Test(push, says_each_kind_of_trouble_once_a_minute, .timeout = 20)
{
	push_start(8, 0);
	push_status(503);
	push_put('a', 1);
	for (unsigned i = 0; i < 5; i++) {
		sp_push_run(u.push);
		u.now += SP_NS_PER_S;
	}
	cr_expect_eq(push_lines_with("push failed"), 1, "%s", core.log);
	u.now += 61 * SP_NS_PER_S;
	sp_push_run(u.push);

	cr_expect_eq(push_lines_with("push failed"), 2, "%s", core.log);
	cr_expect(core_logged("(4 more such messages held back)"), "%s", core.log);
}

/*
 * Messages are limited to one per minute and status. If there are too many statuses, the rest share
 * one limit.
 */
Test(push, trouble_of_many_kinds_is_bounded, .timeout = 20)
{
	push_start(16, 0);
	push_put('a', 1);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < (int)SP_PUSH_KINDS + 3; i++) {
			u.answers = u.posts = 0;
			push_status(500 + i);
			u.now = 5000 * SP_NS_PER_S + (uint64_t)(round * 40 + i) * SP_NS_PER_S;
			sp_push_run(u.push);
		}
	}

	cr_expect_eq(push_lines_with("push failed"), SP_PUSH_KINDS, "%s", core.log);
	cr_expect(core_logged("status 500: "));
	cr_expect(core_logged("status 507: "));
	cr_expect_not(core_logged("status 508: "));
}
