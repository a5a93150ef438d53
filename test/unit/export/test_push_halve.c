/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that are too large are sent in parts; profiles for which the server answers 429 wait
 * behind others.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push_halve, .fini = push_finish);

static size_t limit; /* records that the server takes in one request */
static int status;   /* its answer to more records */
static const char *words;
static size_t taken;    /* records that were taken */
static size_t requests; /* requests that were taken */

static void server(const struct sp_message *message, struct sp_reply *reply)
{
	size_t records = message->body.len - 1;

	if (records > limit) {
		push_answer(reply, status, words);
		return;
	}
	taken += records;
	requests++;
	push_answer(reply, 200, "");
}

static void start(size_t records, int code, const char *said)
{
	push_start(4, 0);
	u.server = server;
	limit = records;
	status = code;
	words = said;
}

static void run_dry(void)
{
	for (unsigned i = 0; i < 1000 && sp_push_queued(u.push) != 0; i++) {
		sp_push_run(u.push);
		u.now += 30 * SP_NS_PER_S;
	}
	cr_expect_eq(sp_push_queued(u.push), 0);
}

/* The words of Pyroscope's push and /ingest, of grpc-go and of a proxy. */
Test(push_halve, knows_a_limit_by_its_words, .timeout = 20)
{
	static const struct {
		int status;
		const char *words;
		bool halved;
	} said[] = {
		{413, "", true},
		{400,
		 "the profile with labels '{}' exceeds the size limit (max_profile_size_byte, "
		 "actual: 5, limit: 4)",
		 true},
		{400,
		 "the profile with labels '{}' exceeds the samples count limit "
		 "(max_profile_stacktrace_samples, actual: 5, limit: 4)",
		 true},
		{422,
		 "pushing IngestInput-pprof failed push series with index 0 and id  failed: "
		 "invalid_argument: the profile with labels '{}' exceeds the samples count limit (",
		 true},
		{400, "uncompressed profile payload size exceeds limit of 4.2 MB", true},
		{422,
		 "parsing IngestInput-pprof failed invalid_argument: decompressed size exceeds "
		 "maximum allowed size of 4194304 bytes",
		 true},
		{400, "request body too large: http: request body too large", true},
		{500, "grpc: received message larger than max (5 vs. 4)", true},
		{400,
		 "the profile with labels '{}' exceeds the sample labels limit "
		 "(max_profile_stacktrace_sample_labels, actual: 101, limit: 100)",
		 false},
		{400, "profile with labels '{}' has label value too long: 'x'", false},
		{422, "failed to parse", false},
		{302, "body too large", false},
		{400, "<title>400 Request Header Or Cookie Too Large</title>", false},
		{414, "<title>414 Request-URI Too Large</title>", false},
		{431, "Request Header Fields Too Large", false},
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		start(4, said[i].status, said[i].words);
		u.cuts = 0;
		push_put_records('a', 8);
		sp_push_run(u.push);
		cr_expect_eq(u.cuts != 0, said[i].halved, "%d %s", said[i].status, said[i].words);
		cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], said[i].halved ? 0 : 8);
		push_finish();
	}
	push_start(1, 0);
}

static void take_unless(bool is_refused, const struct sp_message *message, struct sp_reply *reply)
{
	push_answer(reply, is_refused ? 413 : 200, "");
	if (!is_refused)
		taken += message->body.len - 1;
}

static void put_128_and_lose_one(void (*but_one)(const struct sp_message *, struct sp_reply *))
{
	start(1, 413, "");
	u.server = but_one;
	push_put_records('a', 128);
	run_dry();
	cr_expect_eq(taken, 127);
}

/* The first record is the one that is too large. */
static void all_but_one(const struct sp_message *message, struct sp_reply *reply)
{
	take_unless(taken == 0 && requests++ < 8, message, reply);
}

Test(push_halve, loses_but_the_one_sample_that_is_too_large, .timeout = 20)
{
	put_128_and_lose_one(all_but_one);
	cr_expect_eq(u.posts, 8 + 1, "the others were not to blame");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1);
	push_tell();
	cr_expect(core_logged("1 profile lost: the server refused it (413), 1 sample"), "%s",
		  core.log);
}

static void all_but_record_77(const struct sp_message *message, struct sp_reply *reply)
{
	take_unless(message->first <= 77 && 77 < message->end, message, reply);
}

/*
 * The parts that the server took during the search were small because of this record, so their size
 * is no limit of the server.
 */
Test(push_halve, one_sample_that_is_too_large_is_not_learnt_as_a_limit, .timeout = 20)
{
	put_128_and_lose_one(all_but_record_77);
	cr_expect_leq(u.posts, 20, "%u", u.posts);
	u.server = server;
	limit = 128;
	u.posts = 0;
	push_put_records('b', 128);
	run_dry();

	cr_expect_eq(u.posts, 1, "%u", u.posts);
}

Test(push_halve, costs_little_where_not_even_one_sample_passes, .timeout = 20)
{
	start(0, 413, "");
	for (unsigned i = 0; i < 100; i++) {
		push_put_records('a', 16000);
		sp_push_run(u.push);
		sp_push_run(u.push);
		sp_push_run(u.push);
		u.now += 15 * SP_NS_PER_S;
	}
	run_dry();

	cr_expect_eq(taken, 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1600000);
	/* Each profile is cut down to one record twice. */
	cr_expect_leq(u.posts, 100 * 32, "%u", u.posts);
	push_tell();
	cr_expect_leq(push_lines_with("lost"), 2, "%s", core.log);
}

/*
 * The parts of a profile may have fewer samples than the whole: the rest counts with the last part.
 */
Test(push_halve, no_sample_is_left_between_the_parts, .timeout = 20)
{
	struct sp_message whole = {.end = 8, .samples = 10};

	start(4, 413, "");
	whole.body = (struct sp_bytes){calloc(9, 1), 9};
	sp_push_put(u.push, &u.origin, &whole, u.now);
	run_dry();

	cr_expect_eq(requests, 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 10);
}

/*
 * If there is no memory for a part, the loss is reported with the answer because of which the
 * profile is sent in parts.
 */
Test(push_halve, the_rest_of_what_there_was_no_room_for_is_lost_with_that_answer, .timeout = 20)
{
	start(4, 429, "");
	push_put_records('a', 8);
	for (unsigned i = 0; i < 2; i++) {
		sp_push_run(u.push);
		u.now += 30 * SP_NS_PER_S;
	}
	u.no_memory = true;
	run_dry();

	cr_expect_eq(taken, 4);
	push_tell();
	cr_expect(core_logged("1 profile lost: the server refused it (429), 4 samples\n"), "%s",
		  core.log);
}

static void no_memory_after_it(const struct sp_message *message, struct sp_reply *reply)
{
	server(message, reply);
	u.no_memory = true;
}

Test(push_halve, nor_what_is_sent_in_parts_because_others_were_too_large, .timeout = 20)
{
	start(4, 413, "");
	push_put_records('a', 8);
	run_dry();
	u.server = no_memory_after_it;
	push_put_records('b', 8);
	run_dry();

	cr_expect_eq(taken, 12);
	push_tell();
	cr_expect(core_logged("1 profile lost: the server refused it (413), 4 samples\n"), "%s",
		  core.log);
}

/* A server may have been misconfigured for a while, or get higher limits. */
Test(push_halve, what_was_learnt_is_forgotten_after_an_hour, .timeout = 20)
{
	start(100, 413, "");
	push_put_records('a', 1000);
	run_dry();
	limit = 16000;
	requests = 0;
	push_put_records('a', 124);
	run_dry();
	cr_expect_eq(requests, 2, "62 records were what passed");
	u.now += 3600 * SP_NS_PER_S;
	requests = 0;
	push_put_records('a', 1000);
	run_dry();

	cr_expect_eq(requests, 1);
	cr_expect_eq(taken, 2124);
}

Test(push_halve, a_caller_has_its_turn_between_the_pieces, .timeout = 20)
{
	start(1, 413, "");
	push_put_records('a', 300);
	sp_push_run(u.push);

	cr_expect_leq(u.posts, 40, "%u", u.posts);
	cr_expect_eq(sp_push_due_ms(u.push), 0);
}

Test(push_halve, the_end_does_not_insist, .timeout = 20)
{
	start(0, 429, "");
	push_put_records('a', 1000);
	push_put_records('b', 1000);
	u.dice_step = UINT64_C(0x9e3779b97f4a7c15);
	push_flush(true, 2000);
	cr_expect_leq(u.posts, 2 + 32 + 16, "%u", u.posts);
	sp_push_abandon(u.push);

	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 2000);
	cr_expect_eq(sp_push_queued(u.push), 0);
}
