/* SPDX-License-Identifier: Apache-2.0 */
/* How many profiles are in a request, and how many requests run side by side. */
#include <criterion/criterion.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push_family, .fini = push_finish);

#define PROCESSES 20U

/* Puts a profile of one sample for each process. */
static void put_all(void)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		push_put_of(i, (char)('a' + i), 1);
}

/* Starts a queue whose server has taken one profile. */
static void start(bool joins)
{
	u.joins = joins;
	u.server = NULL;
	u.posts = u.answers = 0;
	memset(u.sent, 0, sizeof(u.sent));
	push_start(4 * PROCESSES, 0);
	push_status(200);
	push_put('A', 1);
	sp_push_run(u.push);
	cr_assert_str_eq(u.sent, "A");
}

Test(push_family, a_request_takes_all_that_waits, .timeout = 20)
{
	start(true);
	put_all();
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "Aa", "two requests for all of them: %s", u.sent);
	cr_expect_eq(u.most_joined, PROCESSES);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + PROCESSES);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + PROCESSES);
	cr_expect_eq(sp_push_queued(u.push), 0);
}

/*
 * 1,000 workers end at once, and the server takes half a second for each request, however many
 * profiles it has.
 */
Test(push_family, a_thousand_go_in_the_time_of_two_requests, .timeout = 20)
{
	uint64_t begun;

	u.joins = true;
	push_start(1000, 0);
	push_status(200);
	u.answer_ns = 450 * SP_NS_PER_MS;
	u.plain = 1000;
	push_put('A', 1);
	sp_push_run(u.push);
	begun = u.now;
	for (unsigned i = 0; i < 999; i++)
		push_put_of(i % 32, 'b', 1);
	push_flush(false, 2000);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1000);
	cr_expect_leq(u.now - begun, 920 * SP_NS_PER_MS, "%lu ms",
		      (unsigned long)((u.now - begun) / SP_NS_PER_MS));
}

Test(push_family, two_that_wait_begin_another_request, .timeout = 20)
{
	start(true);
	u.hangs = true;
	push_put('b', 1);
	sp_push_run(u.push);
	push_put('c', 1);
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, 1, "one that waits goes with the next one");
	push_put('d', 1);
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, 2);
	cr_expect_eq(u.most_joined, 2);
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 4);
}

/* If each request has one profile, requests run side by side as long as two profiles wait. */
Test(push_family, side_by_side_where_a_request_has_one, .timeout = 20)
{
	start(false);
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, SP_TRANSFERS, "%u", u.under_way);
	u.hangs = false;
	sp_push_run(u.push);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + PROCESSES);
	cr_expect_eq(sp_push_queued(u.push), 0);
}

/* The server gets one request at a time: each request that hangs costs a profile. */
Test(push_family, a_server_that_took_nothing_yet_or_fails_gets_one, .timeout = 20)
{
	u.joins = true;
	push_start(4 * PROCESSES, 0);
	push_unreachable();
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, 1, "it took nothing yet");
	u.hangs = false;
	sp_push_run(u.push);
	u.now += 60 * SP_NS_PER_S;
	u.answers = 0;
	push_status(200);
	u.hangs = true;
	sp_push_run(u.push);
	u.hangs = false;
	cr_expect_eq(u.most_under_way, 1, "%u", u.most_under_way);
	cr_expect_eq(u.most_joined, 0);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], PROCESSES);
}

/*
 * Three profiles each second, and half a second for each push: some requests run side by side, and
 * the queue does not grow.
 */
Test(push_family, three_types_a_second_at_half_a_second_each, .timeout = 20)
{
	u.interval_ms = 1000;
	push_start(6, 0);
	push_status(200);
	u.answer_ns = 500 * SP_NS_PER_MS;
	for (unsigned s = 0; s < 300; s++) {
		push_put_type(SP_PROFILE_CPU);
		push_put_type(SP_PROFILE_WALL);
		push_put_type(SP_PROFILE_OFF_CPU);
		for (unsigned i = 0; i < 100; i++) {
			sp_push_run(u.push);
			u.now += 10 * SP_NS_PER_MS;
		}
	}

	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0);
	cr_expect_geq(core.counter[SP_COUNT_UPLOADS], 3 * 300 - 6);
	cr_expect_leq(u.most_under_way, 4, "%u", u.most_under_way);
}

static void put_n(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		push_put_of(i, 'b', 1);
}

/* A profile of a type that the server never took goes alone, so that a refusal is clear. */
Test(push_family, a_type_that_the_server_took_before_goes_with_others, .timeout = 20)
{
	start(true);
	push_put_type(SP_PROFILE_OFF_CPU);
	put_n(3);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 3);
	cr_expect_eq(u.posts, 3);
	push_put_type(SP_PROFILE_OFF_CPU);
	put_n(3);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 4);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT] + core.counter[SP_COUNT_WAITS_SENT], 9);
}

/* The server may refuse a profile because of its size. */
Test(push_family, a_profile_larger_than_any_before_goes_alone, .timeout = 20)
{
	start(true);
	u.plain = (64 << 10) + 1;
	put_n(3);
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 0);
	u.hangs = false;
	sp_push_run(u.push);
	put_n(3);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 3);
}

/*
 * The bytes of all requests under way are limited to what a server takes in one burst by default.
 */
Test(push_family, what_goes_together_is_bounded_by_bytes, .timeout = 20)
{
	start(true);
	u.plain = 64 << 10;
	u.hangs = true;
	put_n(20);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 16);
	cr_expect_eq(u.under_way, 4, "the others alone: %u", u.under_way);
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 21);
}

/* The answer of a proxy concerns the whole request. */
static void proxy(const struct sp_message *message, struct sp_reply *reply)
{
	push_answer(reply, message->body.len > 8 ? 413 : 200, "<html>too large</html>");
}

Test(push_family, a_request_that_is_too_large_is_halved, .timeout = 20)
{
	start(true);
	u.server = proxy;
	put_n(16);
	sp_push_run(u.push);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 17);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	u.posts = 0;
	put_n(3);
	sp_push_run(u.push);
	cr_expect_eq(u.posts, 1, "what it took is known: %u", u.posts);
	u.now += 3601 * SP_NS_PER_S;
	put_n(16);
	u.server = NULL;
	u.most_joined = 0;
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 16, "for an hour: %u", u.most_joined);
}

static unsigned stored, poison;
static const char *said;
static int status;

/*
 * Answers as Pyroscope 2 does: stores the good profiles, and reports the error of one bad profile.
 */
static void judge_each(const struct sp_message *message, struct sp_reply *reply)
{
	unsigned bad = 0;

	for (size_t i = 0; i < message->body.len; i += 2)
		if (message->body.data[i] == 'P')
			bad++;
		else
			stored++;
	poison += bad;
	push_answer(reply, bad != 0 ? status : 200, bad != 0 ? said : "");
}

/*
 * The answer does not say which profiles were stored. So none is sent again, all count as lost, and
 * for an hour each profile has its own request.
 */
static void refuse_one_of_several(int code, const char *words)
{
	start(true);
	u.server = judge_each;
	stored = poison = 0;
	status = code;
	said = words;
	put_n(3);
	push_put('P', 5);
	put_n(2);
	sp_push_run(u.push);
	cr_expect_eq(stored, 5);
	cr_expect_eq(poison, 1);
	u.now += 60 * SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_eq(stored + poison, 6, "sent twice");
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 10);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 6);

	status = 400;
	put_n(3);
	push_put('P', 5);
	put_n(2);
	u.most_joined = 0;
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 0, "for an hour");
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + 5, "it has sunk others");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 1);
	u.now += 3601 * SP_NS_PER_S;
	put_n(3);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 3);
	push_finish();
}

Test(push_family, a_server_that_refuses_one_of_several_gets_each_alone, .timeout = 20)
{
	refuse_one_of_several(
		400, "{\"code\":\"invalid_argument\",\"message\":\"exceeds the size limit\"}");
	refuse_one_of_several(429,
			      "{\"code\":\"resource_exhausted\",\"message\":\"push rate limit\"}");
	refuse_one_of_several(500, "{\"code\":\"unknown\",\"message\":\"gzip: invalid data\"}");
	push_start(1, 0);
}

/* These words concern the whole request: no profile of it was stored, and none is lost. */
Test(push_family, a_request_that_is_refused_whole_is_sent_singly, .timeout = 20)
{
	static const struct {
		int status;
		const char *words;
	} whole[] = {
		{400, "<title>Bad request</title>"},
		{415, ""},
		{400, "{\"code\":\"invalid_argument\",\"message\":\"unmarshal message: no\"}"}};

	for (size_t i = 0; i < SP_ARRAY_LEN(whole); i++) {
		start(true);
		u.answers = u.posts = 0;
		push_answer(&u.answer[u.answers++], whole[i].status, whole[i].words);
		push_status(200);
		put_n(5);
		sp_push_run(u.push);
		sp_push_run(u.push);
		cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 6, "%s", whole[i].words);
		cr_expect_eq(u.posts, 6, "%u", u.posts);
		push_finish();
	}
	push_start(1, 0);
}

/* The number of attempts is not limited. */
Test(push_family, several_are_tried_as_long_as_they_are_young, .timeout = 20)
{
	u.joins = true;
	push_start(8, 0);
	push_status(200);
	push_put('A', 1);
	sp_push_run(u.push);
	for (unsigned i = 0; i < 20; i++) {
		if (i == 0)
			put_n(4);
		u.answers = u.posts = 0;
		push_status(503);
		u.now += 30 * SP_NS_PER_S;
		sp_push_run(u.push);
	}
	cr_expect_eq(u.most_joined, 4);
	cr_expect_eq(sp_push_queued(u.push), 4);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
}

/* If the request may be sent again, all of its profiles are sent again, each once. */
Test(push_family, several_are_tried_again_and_given_up_as_one_is, .timeout = 20)
{
	u.joins = true;
	push_start(8, 2);
	push_status(200);
	push_status(503);
	push_put('A', 1);
	sp_push_run(u.push);
	put_n(4);
	sp_push_run(u.push);
	cr_expect_eq(u.most_joined, 4);
	cr_expect_eq(sp_push_queued(u.push), 4);
	for (unsigned i = 0; i < 8; i++) {
		u.now += 60 * SP_NS_PER_S;
		sp_push_run(u.push);
	}
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 4);
	cr_expect_eq(u.posts, 1 + 1 + 4);
	cr_expect_eq(core.counter[SP_COUNT_PUSH_RETRIED], 4);
}

/*
 * The workers of a server are replaced while nothing can be sent: each one's last profile of each
 * type is queued.
 */
Test(push_family, each_that_has_ended_has_room_for_its_last_profile_of_each_type, .timeout = 20)
{
	u.types = 2;
	push_start(4, 0);
	push_status(200);
	sp_push_serve(u.push, &core.ops, 0, 3);
	for (unsigned i = 0; i < 3; i++) {
		push_put_type_of(i, SP_PROFILE_CPU);
		push_put_type_of(i, SP_PROFILE_OFF_CPU);
	}
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0);
	cr_expect_eq(sp_push_queued(u.push), 6);
	push_put_type_of(3, SP_PROFILE_CPU);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 1, "more than have ended");

	sp_push_serve(u.push, &core.ops, 1, 3);
	for (unsigned i = 0; i < 4; i++)
		push_put_of(4, 'a', 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 1, "one that lives has its own");
}
