/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its retries, with a clock and a server that the test turns by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/push.h"
#include "sampler/compiler.h"

static struct sp_push *push;
static uint64_t now = 1000 * SP_NS_PER_S;
static uint64_t dice;              /* what random() says */
static struct sp_reply answer[32]; /* in turn; the last one repeats */
static unsigned answers;
static char sent[64]; /* first byte of each request, in order */
static unsigned posts;
static uint32_t timeout_seen;
static uint64_t post_takes_ns;

static void post(void *arg, const struct sp_message *message, uint32_t timeout_ms,
		 struct sp_reply *reply)
{
	(void)arg;
	cr_assert_gt(answers, 0);
	*reply = answer[posts < answers ? posts : answers - 1];
	sent[posts++] = (char)message->body.data[0];
	timeout_seen = timeout_ms;
	now += post_takes_ns;
	core.flush_left -= core.flush_left < post_takes_ns / SP_NS_PER_MS
				   ? core.flush_left
				   : (uint32_t)(post_takes_ns / SP_NS_PER_MS);
}

static uint64_t get_now(void *arg)
{
	(void)arg;
	return now;
}

static uint64_t roll(void *arg)
{
	(void)arg;
	return dice;
}

static void status(int code)
{
	answer[answers].kind = SP_REPLY_STATUS;
	answer[answers].status = code;
	answer[answers].text_len =
		(size_t)snprintf(answer[answers].text, 100, "no\nbecause %d", code);
	answers++;
}

static void unreachable(void)
{
	answer[answers].kind = SP_REPLY_UNREACHABLE;
	answer[answers].text_len = (size_t)snprintf(answer[answers].text, 100, "refused");
	answers++;
}

static void start(uint32_t capacity, uint32_t max_tries)
{
	const struct sp_push_env env = {.post = post, .now_ns = get_now, .random = roll};
	const struct sp_push_limits limits = {capacity, max_tries, 10000};

	core_reset();
	push = sp_push_new(&core.ops, &env, &limits);
	cr_assert_not_null(push);
}

static void put(char name, uint64_t samples)
{
	struct sp_message m = {.body = {malloc(1), 1}};

	m.body.data[0] = (uint8_t)name;
	sp_push_put(push, &m, samples);
}

static void finish(void)
{
	sp_push_free(push);
}

TestSuite(push, .fini = finish);

Test(push, sends_in_order_until_empty, .timeout = 20)
{
	start(8, 3);
	status(200);
	put('a', 1);
	put('b', 1);
	cr_expect_eq(sp_push_due_ms(push), 0);
	sp_push_run(push);

	cr_expect_str_eq(sent, "ab");
	cr_expect_eq(sp_push_queued(push), 0);
	cr_expect_eq(sp_push_due_ms(push), UINT32_MAX);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 2);
	cr_expect_eq(core.counter[SP_COUNT_PUSH_RETRIED], 0);
	cr_expect_eq(timeout_seen, 10000);
	cr_expect_str_eq(core.log, "");
}

Test(push, drops_the_oldest_when_full, .timeout = 20)
{
	start(2, 3);
	status(200);
	put('a', 5);
	put('b', 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0, "full is not too full");
	put('c', 1);
	sp_push_run(push);

	cr_expect_str_eq(sent, "bc");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 5);
}

Test(push, waits_before_it_tries_again, .timeout = 20)
{
	start(8, 3);
	status(503);
	status(200);
	dice = 700;
	put('a', 1);
	put('b', 1);
	sp_push_run(push);

	cr_expect_str_eq(sent, "a", "a busy server was asked again at once");
	cr_expect_eq(sp_push_due_ms(push), 700);
	now += 699 * SP_NS_PER_MS;
	sp_push_run(push);
	cr_expect_str_eq(sent, "a", "too early");
	now += SP_NS_PER_MS;
	sp_push_run(push);

	cr_expect_str_eq(sent, "aab");
	cr_expect_eq(core.counter[SP_COUNT_PUSH_RETRIED], 1);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 2);
	cr_expect(core_logged("upload failed, will try again: status 503: no because 503"));
}

Test(push, without_a_limit_of_tries_500_eight_times_is_no_loss, .timeout = 20)
{
	start(8, 0);
	for (unsigned i = 0; i < 8; i++)
		status(500);
	status(200);
	put('a', 3);
	put('b', 4);
	for (unsigned i = 0; i < 20; i++) {
		sp_push_run(push);
		now += 30 * SP_NS_PER_S;
	}

	cr_expect_str_eq(sent, "aaaaaaaaab");
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 2);
	cr_expect_eq(core.counter[SP_COUNT_PUSH_RETRIED], 8);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
}

Test(push, a_server_that_is_back_after_ten_minutes_gets_what_the_queue_promised, .timeout = 20)
{
	char queued[9] = "";

	start(8, 0);
	unreachable();
	/* A batch each 15 s, the upload whenever it is due. */
	for (unsigned i = 0; i < 40; i++) {
		put((char)('a' + i % 26), 1);
		for (unsigned s = 0; s < 15; s++) {
			dice += 7919;
			sp_push_run(push);
			now += SP_NS_PER_S;
		}
		posts = 0;
	}
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 32);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 0);
	answers = 0;
	status(200);
	memset(sent, 0, sizeof(sent));
	now += 30 * SP_NS_PER_S;
	sp_push_run(push);

	for (unsigned i = 0; i < 8; i++)
		queued[i] = (char)('a' + (32 + i) % 26);
	cr_expect_str_eq(sent, queued, "the newest eight, oldest first");
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 8);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 32);
	cr_expect_eq(sp_push_queued(push), 0);
}

Test(push, a_batch_that_was_displaced_does_not_shorten_the_wait, .timeout = 20)
{
	start(1, 0);
	unreachable();
	for (unsigned i = 0; i < 6; i++) {
		put('a', 1);
		dice = 60001;
		sp_push_run(push);
		now += 60 * SP_NS_PER_S;
	}
	now -= 60 * SP_NS_PER_S;

	cr_expect_eq(sp_push_due_ms(push), 30000, "%u", sp_push_due_ms(push));
}

Test(push, knows_how_the_last_tries_went, .timeout = 20)
{
	const struct sp_push_news *news;

	start(8, 0);
	status(503);
	status(200);
	answer[1].answered_ms = 1234;
	answer[1].has_skew = true;
	answer[1].skew_ms = -2500;
	put('a', 1);
	news = sp_push_news(push);
	cr_expect_eq(news->attempts, 0);
	sp_push_run(push);
	cr_expect_eq(news->attempts, 1);
	cr_expect_eq(news->last_status, 503);
	cr_expect_str_eq(news->last_error, "status 503: no because 503");
	cr_expect_eq(news->last_success_ms, 0);
	cr_expect_not(news->has_skew);
	now += 60 * SP_NS_PER_S;
	sp_push_run(push);

	cr_expect_eq(news->attempts, 2);
	cr_expect_eq(news->last_status, 200);
	cr_expect_str_eq(news->last_error, "");
	cr_expect_eq(news->last_success_ms, 1234);
	cr_expect_eq(news->skew_ms, -2500);
	cr_expect_not(core_logged("clock"), "%s", core.log);
}

Test(push, says_once_that_the_clocks_differ_by_more_than_an_hour, .timeout = 20)
{
	start(8, 0);
	status(200);
	answer[0].has_skew = true;
	answer[0].skew_ms = 3600000;
	put('a', 1);
	sp_push_run(push);
	cr_expect_str_eq(core.log, "");
	answer[0].skew_ms = -3600001;
	put('a', 1);
	put('a', 1);
	sp_push_run(push);

	cr_expect(core_logged("the server's clock is 3600 s behind ours"), "%s", core.log);
	cr_expect_null(strchr(strchr(core.log, '\n') + 1, '\n'), "%s", core.log);
}

Test(push, each_kind_of_refusal_is_said, .timeout = 20)
{
	start(8, 0);
	status(400);
	status(413);
	for (unsigned i = 0; i < 3; i++)
		put('a', 1);
	sp_push_run(push);

	cr_expect(core_logged("status 400: no because 400"), "%s", core.log);
	cr_expect(core_logged("status 413: no because 413"), "%s", core.log);
}

Test(push, doubles_the_bound_up_to_30_s, .timeout = 20)
{
	static const uint32_t bound_ms[] = {2000, 4000, 8000, 16000, 30000, 30000, 30000};

	start(8, 100);
	unreachable();
	put('a', 1);
	for (size_t i = 0; i < sizeof(bound_ms) / sizeof(bound_ms[0]); i++) {
		/* 0 .. bound: twice the bound plus one is the bound again. */
		dice = (uint64_t)bound_ms[i] * 2 + 1;
		sp_push_run(push);
		cr_expect_eq(sp_push_due_ms(push), bound_ms[i], "try %zu", i);
		now += (uint64_t)bound_ms[i] * SP_NS_PER_MS;
	}
}

Test(push, obeys_retry_after_within_reason, .timeout = 20)
{
	start(8, 10);
	status(429);
	answer[0].retry_after_s = 7;
	status(429);
	answer[1].retry_after_s = 86400;
	dice = 0;
	put('a', 1);
	sp_push_run(push);
	cr_expect_eq(sp_push_due_ms(push), 7000);
	now += 7 * SP_NS_PER_S;
	sp_push_run(push);

	cr_expect_eq(sp_push_due_ms(push), 300000);
}

Test(push, never_repeats_what_was_refused, .timeout = 20)
{
	start(8, 3);
	status(422);
	status(200);
	put('a', 4);
	put('b', 1);
	sp_push_run(push);

	cr_expect_str_eq(sent, "ab");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 4);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1);
	cr_expect(core_logged("status 422: no because 422"), "%s", core.log);
}

Test(push, treats_every_status_as_it_should_be, .timeout = 20)
{
	static const struct {
		int status;
		bool retried;
	} rule[] = {{301, false}, {400, false}, {401, false}, {404, false}, {408, false},
		    {413, false}, {429, true},  {500, true},  {502, true},  {599, true}};

	start(8, 100);
	for (size_t i = 0; i < sizeof(rule) / sizeof(rule[0]); i++) {
		answers = 0;
		posts = 0;
		status(rule[i].status);
		now += 100 * SP_NS_PER_S;
		put('a', 1);
		sp_push_run(push);
		cr_expect_eq(sp_push_queued(push), rule[i].retried, "%d", rule[i].status);
		status(200);
		posts = 1;
		now += 100 * SP_NS_PER_S;
		sp_push_run(push);
		cr_assert_eq(sp_push_queued(push), 0);
	}
}

Test(push, gives_up_after_max_tries, .timeout = 20)
{
	start(8, 3);
	unreachable();
	put('a', 4);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(sp_push_queued(push), 1);
		sp_push_run(push);
		now += 60 * SP_NS_PER_S;
	}

	cr_expect_eq(posts, 3);
	cr_expect_eq(sp_push_queued(push), 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 4);
	cr_expect(core_logged("gave up on a batch of 4 samples after 3 tries: refused"));
}

/* The server counts from the begin of the profile, and takes an hour; we give up a minute before. */
static void put_aged(char name, uint64_t age_s)
{
	struct sp_message m = {.body = {malloc(1), 1}, .age_ns = age_s * SP_NS_PER_S};

	m.body.data[0] = (uint8_t)name;
	sp_push_put(push, &m, 4);
}

Test(push, drops_what_the_server_would_call_too_old, .timeout = 20)
{
	start(8, 3);
	status(200);
	put_aged('a', 0);
	now += 600 * SP_NS_PER_S;
	put_aged('b', 600);
	put_aged('c', 599);
	now += 2940 * SP_NS_PER_S + 1;
	sp_push_run(push);

	cr_expect_str_eq(sent, "c");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 8);
}

Test(push, nearly_an_hour_old_is_not_too_old, .timeout = 20)
{
	start(8, 3);
	status(200);
	put_aged('a', 0);
	now += 3539 * SP_NS_PER_S;
	put_aged('b', 3540);
	now += SP_NS_PER_S - 1;
	sp_push_run(push);
	cr_expect_str_eq(sent, "a");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_TOO_OLD], 1, "a second more than the limit");
}

Test(push, an_aborted_transfer_does_not_count_as_a_try, .timeout = 20)
{
	start(8, 1);
	answer[0].kind = SP_REPLY_ABORTED;
	answers = 1;
	status(200);
	put('a', 1);
	sp_push_run(push);
	cr_expect_eq(sp_push_queued(push), 1);
	sp_push_run(push);

	cr_expect_str_eq(sent, "aa");
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1);
}

Test(push, starts_nothing_new_while_a_flush_is_asked_for, .timeout = 20)
{
	start(8, 3);
	status(200);
	put('a', 1);
	core.pending = true;
	sp_push_run(push);

	cr_expect_eq(posts, 0);
}

Test(push, flush_ignores_the_backoff_and_stays_in_time, .timeout = 20)
{
	start(8, 5);
	status(503);
	status(200);
	dice = 900;
	put('a', 1);
	put('b', 1);
	sp_push_run(push);
	core.flush_left = 1500;
	core.pending = true;
	sp_push_flush(push);

	cr_expect_str_eq(sent, "aab");
	cr_expect_eq(timeout_seen, 1500, "a transfer must end with the flush");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 0);
}

Test(push, flush_counts_what_it_could_not_send, .timeout = 20)
{
	start(8, 5);
	status(200);
	post_takes_ns = 800 * SP_NS_PER_MS;
	for (char name = 'a'; name <= 'd'; name++)
		put(name, 10);
	core.flush_left = 1500;
	core.pending = true;
	sp_push_flush(push);

	cr_expect_str_eq(sent, "ab");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 20);
	cr_expect_eq(sp_push_queued(push), 0);
	cr_expect(core_logged("2 batches could not be sent before the process ended"));
}

Test(push, flush_asks_a_dead_server_only_once, .timeout = 20)
{
	start(8, 5);
	unreachable();
	put('a', 1);
	put('b', 1);
	core.pending = true;
	sp_push_flush(push);

	cr_expect_eq(posts, 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 2);
}

static unsigned lines_with(const char *part)
{
	unsigned n = 0;

	for (const char *at = core.log; (at = strstr(at, part)) != NULL; at += strlen(part))
		n++;
	return n;
}

Test(push, says_each_kind_of_trouble_once_a_minute, .timeout = 20)
{
	start(8, 0);
	status(503);
	put('a', 1);
	for (unsigned i = 0; i < 5; i++) {
		sp_push_run(push);
		now += SP_NS_PER_S;
	}
	cr_expect_eq(lines_with("upload failed"), 1, "%s", core.log);
	now += 61 * SP_NS_PER_S;
	sp_push_run(push);

	cr_expect_eq(lines_with("upload failed"), 2, "%s", core.log);
	cr_expect(core_logged("(4 more such messages held back)"), "%s", core.log);
}

/* The server's words, and a number. */
static void refuse(int code, const char *words, unsigned number)
{
	answers = 1;
	posts = 0;
	answer[0].kind = SP_REPLY_STATUS;
	answer[0].status = code;
	answer[0].text_len =
		(size_t)snprintf(answer[0].text, sizeof(answer[0].text), "%s %u", words, number);
	put('a', 1);
	sp_push_run(push);
	now += 3600 * SP_NS_PER_S;
}

Test(push, says_each_kind_of_refusal_once_however_long_it_lasts, .timeout = 20)
{
	start(8, 0);
	for (unsigned i = 0; i < 100; i++) {
		refuse(400, "too many labels:", 31 + i);
		refuse(400, "bytes in a label value:", i);
		refuse(422, "too many labels:", 31 + i);
	}

	cr_expect_eq(lines_with("told once"), 3, "%s", core.log);
	cr_expect_eq(lines_with("status 400: too many labels: 31"), 1, "%s", core.log);
	cr_expect_eq(lines_with("status 400: bytes in a label value: 0"), 1);
	cr_expect_eq(lines_with("status 422: too many labels: 31"), 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 300, "all are counted");
}

Test(push, a_server_with_ever_new_words_is_quoted_once_a_minute, .timeout = 20)
{
	char words[32];

	start(8, 0);
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(words, sizeof(words), "%c%c", 'a' + (char)(i / 26),
			       'a' + (char)(i % 26));
		refuse(400, words, 0);
		now -= 3590 * SP_NS_PER_S;
	}

	/* Eight kinds, and the first of the others: after it one in 60 s, of which 10 s are one. */
	cr_expect_leq(lines_with("told once"), 8 + 200 / 6 + 1, "%u", lines_with("told once"));
	cr_expect_geq(lines_with("told once"), 9);
}

Test(push, what_a_server_says_is_one_short_line, .timeout = 20)
{
	char words[SP_REPLY_BODY];

	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	start(8, 0);
	refuse(400,
	       "a\r\nb\x1b[2J\xc2\x9b"
	       "31m\xff\x7f",
	       0);
	refuse(413, words, 0);

	cr_expect(core_logged("status 400: a  b [2J\xc2\xa0"
			      "31m\xef\xbf\xbd "),
		  "%s", core.log);
	cr_expect_leq(strlen(strstr(core.log, "status 413")), 320, "%s", core.log);
}
