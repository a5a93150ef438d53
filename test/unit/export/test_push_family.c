/* SPDX-License-Identifier: Apache-2.0 */
/* How many profiles go side by side: as many as it takes to keep up with what comes. */
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

/* Each of them has two, and the first one has waited for an interval: so many go side by side then. */
static void fall_behind(void)
{
	start();
	put_all();
	u.now += u.interval_ms * SP_NS_PER_MS;
	put_all();
}

Test(push_family, one_after_the_other_as_long_as_the_server_keeps_up, .timeout = 20)
{
	start();
	put_all();
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, 1);
	u.hangs = false;
	sp_push_run(u.push);
	sp_push_run(u.push);

	cr_expect_eq(u.most_under_way, 1);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + 2 * PROCESSES);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1 + 2 * PROCESSES);
	cr_expect_eq(sp_push_queued(u.push), 0);
}

Test(push_family, side_by_side_where_it_falls_behind, .timeout = 20)
{
	fall_behind();
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, SP_TRANSFERS, "%u", u.under_way);
	u.hangs = false;
	sp_push_run(u.push);
	sp_push_run(u.push);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 1 + 2 * PROCESSES);
	cr_expect_eq(sp_push_queued(u.push), 0);

	sp_push_run(u.push);
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	cr_expect_eq(u.under_way, 1, "it has caught up");
}

/* It has taken one a moment ago, but what waits meanwhile waits because of it. */
Test(push_family, a_server_that_fails_gets_one, .timeout = 20)
{
	start();
	u.answers = u.posts = 0;
	push_unreachable();
	put_all();
	sp_push_run(u.push);
	u.now += u.interval_ms * SP_NS_PER_MS;
	put_all();
	u.answers = 0;
	push_status(200);
	u.hangs = true;
	sp_push_run(u.push);
	u.hangs = false;
	u.answer_ns = SP_NS_PER_MS;
	sp_push_run(u.push);
	u.now += 2 * SP_NS_PER_MS;
	sp_push_run(u.push);

	cr_expect_eq(u.most_under_way, 1, "%u", u.most_under_way);
}

/* Three types each second, and half a second for each push: two go side by side, and nothing queues up. */
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
	cr_expect_leq(u.most_under_way, 3, "%u", u.most_under_way);
}

Test(push_family, connections_are_rested_while_nothing_is_under_way, .timeout = 20)
{
	start();
	u.rests = 0;
	put_all();
	u.hangs = true;
	sp_push_run(u.push);
	sp_push_run(u.push);
	cr_expect_eq(u.rests, 1, "before the first one began");
	u.hangs = false;
	sp_push_run(u.push);
	cr_expect_eq(u.rests, 2, "after the last one ended");
}

/* A program may have nothing to send for hours. */
Test(push_family, connections_are_closed_though_nothing_comes, .timeout = 20)
{
	push_start(4, 0);
	cr_expect_eq(sp_push_due_ms(u.push), UINT32_MAX);
	push_status(200);
	push_put('a', 1);
	u.open_until = u.now + 4 * SP_NS_PER_S;
	sp_push_run(u.push);
	cr_expect_eq(sp_push_queued(u.push), 0);
	cr_expect_eq(sp_push_due_ms(u.push), 4000);
	u.now += 4 * SP_NS_PER_S;
	sp_push_run(u.push);

	cr_expect_eq(u.open_until, 0, "closed");
	cr_expect_eq(sp_push_due_ms(u.push), UINT32_MAX);
}

/* The workers of a server are replaced while nothing can be sent: each leaves one profile of each type. */
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
