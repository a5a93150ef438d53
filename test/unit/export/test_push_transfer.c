/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer takes its time: nothing waits for it, and nothing is sent twice that may have arrived. */
#include <criterion/criterion.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(push_transfer, .fini = push_finish);

/* One transfer is under way and will be answered so. */
static void begin(int status)
{
	push_start(2, 0);
	push_status(status);
	push_put('a', 3);
	u.hangs = true;
	sp_push_run(u.push);
	cr_assert(sp_push_under_way(u.push));
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

	cr_expect_str_eq(u.sent, "ab");
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

/* So that whoever sleeps until then sees it in time. */
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
