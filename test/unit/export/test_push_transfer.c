/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers that take time: no call waits for one, and no profile is sent twice that may have
 * arrived.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push_transfer, .fini = push_finish);

/* Begins a transfer that will get this answer. */
static void begin(int status)
{
	push_start(2, 0);
	push_status(status);
	push_put('a', 3);
	u.hangs = true;
	sp_push_run(u.push);
	cr_assert_neq(sp_push_moves(u.push) & UINT8_MAX, 0);
}

static uint64_t lost(void)
{
	return core.counter[SP_COUNT_SAMPLES_UNSENT];
}

Test(push_transfer, what_was_sent_and_not_answered_is_not_sent_again, .timeout = 20)
{
	push_start(8, 0);
	push_no_answer(true);
	push_status(200);
	u.dice = 700;
	push_put('a', 4);
	push_put('b', 1);
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "a", "a server in trouble was asked again at once");
	cr_expect_eq(sp_push_due_ms(u.push), 700);
	u.now += 60 * SP_NS_PER_S;
	sp_push_run(u.push);

	cr_expect_str_eq(u.sent, "a0b", "an empty push goes first");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 1);
	cr_expect_eq(lost(), 4);
	cr_expect_eq(core.counter[SP_COUNT_PUSH_RETRIED], 0);
	cr_expect(core_logged("push failed: refused\n"), "%s", core.log);
	push_tell();
	cr_expect(
		core_logged("1 profile lost: it was sent, but no answer came (the server may have "
			    "it), 4 samples\n"),
		"%s", core.log);
}

/* A forwarder of layer 4 accepts a connection and closes it while no server is behind it. */
Test(push_transfer, an_outage_behind_a_forwarder_costs_one_profile, .timeout = 20)
{
	push_start(16, 0);
	push_no_answer(true);
	for (unsigned i = 0; i < 10; i++) {
		push_put((char)('a' + i), 1);
		sp_push_run(u.push);
		u.now += 60 * SP_NS_PER_S;
	}
	cr_expect_str_eq(u.sent, "a000000000");
	cr_expect_eq(lost(), 1);
	u.answers = 0;
	push_status(200);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 9);
	cr_expect_eq(lost(), 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 1);
}

/*
 * Any answer shows that a server reads requests, except those by which a forwarder says that no
 * server is there.
 */
Test(push_transfer, what_answers_an_empty_push_gets_profiles, .timeout = 20)
{
	static const struct {
		int status;
		bool is_there;
	} rule[] = {{200, true},  {204, true},  {301, true},  {400, true}, {401, true},
		    {404, true},  {422, true},  {429, true},  {500, true}, {501, true},
		    {502, false}, {503, false}, {504, false}, {505, true}};

	for (size_t i = 0; i < SP_ARRAY_LEN(rule); i++) {
		push_start(8, 0);
		u.answers = u.posts = 0;
		memset(u.sent, 0, sizeof(u.sent));
		push_no_answer(true);
		push_status(rule[i].status);
		push_status(200);
		push_put('a', 1);
		push_put('b', 1);
		sp_push_run(u.push);
		u.now += 60 * SP_NS_PER_S;
		sp_push_run(u.push);
		cr_expect_str_eq(u.sent, rule[i].is_there ? "a0b" : "a0", "%d: %s", rule[i].status,
				 u.sent);
		push_finish();
	}
	push_start(1, 0);
}

/* An empty push sends no profile, so it is neither a success nor the failure of a profile. */
Test(push_transfer, an_empty_push_is_no_push_of_a_profile, .timeout = 20)
{
	const struct sp_push_results *news;

	push_start(8, 1);
	push_no_answer(true);
	push_status(200);
	u.answer[1].answered_ms = 1234;
	push_status(404);
	push_put('a', 1);
	push_put('b', 1);
	sp_push_run(u.push);
	news = sp_push_results(u.push, 0);
	u.hangs = true;
	u.now += 60 * SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "a0");
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "a0b");
	cr_expect_eq(news->last_success_ms, 0);
	cr_expect_eq(news->last_status, 404);
	cr_expect_eq(news->attempts, 2);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 0);
}

/* An empty push that does not end is stopped, without an effect. */
Test(push_transfer, an_empty_push_under_way_is_stopped_with_the_queue, .timeout = 20)
{
	push_start(8, 0);
	push_no_answer(true);
	push_put('a', 1);
	push_put('b', 1);
	sp_push_run(u.push);
	u.now += 60 * SP_NS_PER_S;
	u.hangs = u.all_sent = true;
	sp_push_run(u.push);
	cr_assert_str_eq(u.sent, "a0");
	cr_expect_eq(sp_push_due_ms(u.push), 500);
	sp_push_abandon(u.push);
	cr_expect_eq(sp_push_moves(u.push) & UINT8_MAX, 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 1);
}

/* A caller that sleeps until the due time notices the timeout in time. */
Test(push_transfer, it_is_due_when_its_time_or_that_of_a_flush_is_up, .timeout = 20)
{
	begin(200);
	cr_expect_eq(sp_push_due_ms(u.push), 500);
	u.now += 9700 * SP_NS_PER_MS;
	cr_expect_eq(sp_push_due_ms(u.push), 300);
	core.flush_left = 80;
	core.pending = true;
	sp_push_flush(u.push, true);
	cr_expect_eq(sp_push_due_ms(u.push), 80);
	sp_push_resume(u.push);
	cr_expect_eq(sp_push_due_ms(u.push), 300);
}

Test(push_transfer, nothing_is_begun_after_a_flush_until_it_is_said_that_it_goes_on, .timeout = 20)
{
	begin(200);
	push_flush(true, 100);
	push_put('b', 5);
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "a");
	cr_expect_gt(sp_push_due_ms(u.push), 0, "who waits for it does not rest");
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 3);
	cr_expect_str_eq(u.sent, "a");
	sp_push_resume(u.push);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 8);
}

Test(push_transfer, freeing_the_queue_ends_it, .timeout = 20)
{
	begin(200);
	sp_push_free(u.push);
	cr_expect_eq(u.under_way, 0);
	push_start(1, 0);
}
