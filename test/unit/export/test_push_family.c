/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of several processes go side by side, as long as the server takes them. */
#include <criterion/criterion.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push_family, .fini = push_finish);

#define PROCESSES 20U

/* Each of them has one profile, of one sample. */
static void put_all(void)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		push_put_of(i, (char)('a' + i), 1);
}

/* The server has taken one. */
static void start(void)
{
	push_start(2 * PROCESSES, 0);
	push_status(200);
	push_put('A', 1);
	sp_push_run(u.push);
	cr_assert_str_eq(u.sent, "A");
}

Test(push_family, as_many_as_there_are_slots, .timeout = 20)
{
	start();
	put_all();
	u.hangs = true;
	sp_push_run(u.push);

	cr_expect_eq(u.under_way, SP_TRANSFERS);
	cr_expect_str_eq(u.sent, "Aabcdefghijklmnop");
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_str_eq(u.sent, "Aabcdefghijklmnopqrst");
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + PROCESSES);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + PROCESSES);
	cr_expect_eq(sp_push_queued(u.push), 0);
}

Test(push_family, those_of_one_process_go_one_after_the_other, .timeout = 20)
{
	start();
	for (char name = 'a'; name <= 'c'; name++) {
		push_put_of(0, name, 1);
		push_put_of(1, (char)(name + 10), 1);
	}
	sp_push_run(u.push);

	cr_expect_eq(u.most_under_way, 2);
	cr_expect_str_eq(u.sent, "Aakbclm");
}

Test(push_family, after_a_failure_one_tries_for_all, .timeout = 20)
{
	start();
	push_status(503);
	put_all();
	u.dice = 500;
	for (unsigned i = 0; i < SP_TRANSFERS; i++)
		sp_push_run(u.push);
	cr_expect_eq(u.posts, 1 + SP_TRANSFERS);
	cr_expect_eq(u.under_way, 0);
	cr_expect_eq(sp_push_due_ms(u.push), 500, "sixteen failures side by side are one");
	u.now += 500 * SP_NS_PER_MS;
	sp_push_run(u.push);
	cr_expect_eq(u.posts, 2 + SP_TRANSFERS, "not one tried for all");

	u.now += 2 * SP_NS_PER_S;
	u.answers = 0;
	push_status(200);
	sp_push_run(u.push);
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + PROCESSES);
}

Test(push_family, the_longest_wait_that_the_server_asks_for_counts, .timeout = 20)
{
	start();
	push_status(429);
	push_status(503);
	u.answer[1].retry_after_s = 60;
	push_put_of(0, 'a', 1);
	push_put_of(1, 'b', 1);
	sp_push_run(u.push);
	sp_push_run(u.push);

	cr_expect_eq(u.posts, 3);
	cr_expect_eq(sp_push_due_ms(u.push), 60000);
}

Test(push_family, a_flush_sends_those_of_all, .timeout = 20)
{
	start();
	put_all();
	u.post_takes_ns = 50 * SP_NS_PER_MS;
	core.flush_left = 1500;
	core.pending = true;
	sp_push_flush(u.push, true);

	cr_expect_eq(u.most_under_way, SP_TRANSFERS);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + PROCESSES);
}

Test(push_family, a_flush_for_which_nobody_waits_any_more_loses_nothing, .timeout = 20)
{
	start();
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	u.released = true;
	core.flush_left = 1500;
	core.pending = true;
	sp_push_flush(u.push, true);
	cr_expect_eq(core.flush_left, 1490, "it waited");
	cr_expect_eq(u.under_way, SP_TRANSFERS, "it stopped what was under way");
	cr_expect_str_eq(core.log, "");

	core.pending = false;
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + PROCESSES);
}

Test(push_family, the_end_stops_all, .timeout = 20)
{
	start();
	put_all();
	u.hangs = true;
	u.all_sent = true;
	sp_push_run(u.push);
	sp_push_abandon(u.push);

	cr_expect_eq(u.under_way, 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], SP_TRANSFERS);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], PROCESSES - SP_TRANSFERS);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], PROCESSES);
}
