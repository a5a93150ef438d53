/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several servers: none delays another one, and messages name each. A server of this test is a
 * status; 0 = it hangs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/push/push.h"
#include "sampler/base/compiler.h"

#define SERVERS 2U

static struct server {
	int status;
	unsigned posts;
	unsigned requests, most_requests;
	bool in_use[SP_TRANSFERS];
	const uint8_t *body[SP_TRANSFERS];
} server[SERVERS];
static struct sp_push *push;
static struct sp_origin origin;
static uint64_t now;

static void start(void *arg, unsigned slot, const struct sp_message *m, uint32_t timeout_ms)
{
	struct server *s = arg;

	cr_assert(!s->in_use[slot]);
	cr_assert_eq(timeout_ms, 10000);
	s->in_use[slot] = true;
	s->body[slot] = m != NULL ? m->body.data : NULL;
	s->posts++;
	if (++s->requests > s->most_requests)
		s->most_requests = s->requests;
}

static void end(struct server *s, unsigned slot, struct sp_reply *r)
{
	memset(r, 0, sizeof(*r));
	s->in_use[slot] = false;
	s->requests--;
	/* The message's bytes are still valid. */
	cr_assert(s->body[slot] == NULL || s->body[slot][0] == 'p');
}

static bool poll(void *arg, unsigned *slot, struct sp_reply *r)
{
	struct server *s = arg;

	if (s->status == 0)
		return false;
	for (*slot = 0; !s->in_use[*slot]; ++*slot)
		;
	end(s, *slot, r);
	r->kind = SP_REPLY_STATUS;
	r->status = s->status;
	r->text_len = s->status == 200 ? 0 : (size_t)snprintf(r->text, sizeof(r->text), "no");
	return true;
}

static void stop(void *arg, unsigned slot, struct sp_reply *r)
{
	end(arg, slot, r);
	r->kind = SP_REPLY_ABORTED;
}

static uint64_t get_now(void *arg)
{
	(void)arg;
	return now;
}

static uint64_t get_random(void *arg)
{
	(void)arg;
	return 0;
}

static void set_up(uint32_t capacity, int first, int second)
{
	const struct sp_push_limits limits = {.capacity = capacity,
					      .types = 1,
					      .timeout_ms = 10000,
					      .interval_ms = 15000,
					      .lasts_ms = 120000};
	struct sp_push_env env[SERVERS];

	core_reset();
	now = 5000 * SP_NS_PER_S;
	memset(server, 0, sizeof(server));
	server[0].status = first;
	server[1].status = second;
	for (unsigned k = 0; k < SERVERS; k++)
		env[k] = (struct sp_push_env){.name = k == 0 ? "http://one" : "http://two",
					      .start = start,
					      .poll = poll,
					      .stop = stop,
					      .transport_arg = &server[k],
					      .now_ns = get_now,
					      .random = get_random};
	origin = (struct sp_origin){.ops = &core.ops};
	push = sp_push_new(&core.ops, env, SERVERS, &limits);
	cr_assert_not_null(push);
}

static void put_type(enum sp_profile_type type, uint64_t samples)
{
	struct sp_message m = {.type = type, .end = 1, .samples = samples};

	m.body = (struct sp_bytes){(uint8_t *)strdup("p"), 1};
	sp_push_put(push, &origin, &m, now);
}

static void put(uint64_t samples)
{
	put_type(SP_PROFILE_CPU, samples);
}

static void tear_down(void)
{
	sp_push_free(push);
}

TestSuite(push_several, .fini = tear_down);

Test(push_several, each_gets_every_profile, .timeout = 20)
{
	set_up(8, 200, 200);
	put(4);
	put(3);
	sp_push_run(push);
	cr_expect_eq(sp_push_queued(push), 0);
	cr_expect_eq(server[0].posts, 2);
	cr_expect_eq(server[1].posts, 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 7, "each counts once");
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 4);
	cr_expect_eq(origin.delivery[0].samples_sent, 7);
	cr_expect_eq(origin.delivery[1].samples_sent, 7);
	cr_expect_str_empty(core.log);
}

/* One server is dead, the first or the last; the other one gets all profiles. */
static void expect_that_the_other_has_all(unsigned dead, int status)
{
	set_up(2, dead == 0 ? status : 200, dead == 1 ? status : 200);
	for (unsigned i = 0; i < 10; i++) {
		put(1);
		sp_push_run(push);
		now += 15 * SP_NS_PER_S;
	}
	cr_expect_eq(server[1 - dead].posts, 10);
	cr_expect_eq(origin.delivery[1 - dead].samples_sent, 10);
	cr_expect_eq(origin.delivery[1 - dead].samples_lost, 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 10);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	cr_expect_eq(origin.delivery[dead].samples_sent, 0);
	cr_expect_geq(origin.delivery[dead].samples_lost, 7);
	cr_expect_gt(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0);
	tear_down();
	push = NULL;
}

Test(push_several, a_dead_one_costs_the_other_nothing, .timeout = 20)
{
	expect_that_the_other_has_all(0, 503);
	expect_that_the_other_has_all(1, 503);
	expect_that_the_other_has_all(0, 0);
	expect_that_the_other_has_all(1, 0);
}

Test(push_several, messages_name_the_server, .timeout = 20)
{
	set_up(1, 503, 200);
	put(4);
	sp_push_run(push);
	cr_expect_not_null(
		strstr(core.log, "push to http://one failed, will try again: status 503: no"), "%s",
		core.log);
	cr_expect_null(strstr(core.log, "http://two"));
	now += 60 * SP_NS_PER_S;
	server[0].status = 200;
	sp_push_run(push);
	cr_expect_not_null(strstr(core.log, "pushes to http://one succeed again"), "%s", core.log);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 4);
}

Test(push_several, a_loss_says_where_and_whether_another_one_has_it, .timeout = 20)
{
	set_up(8, 400, 200);
	put(4);
	put_type(SP_PROFILE_OFF_CPU, 3);
	sp_push_run(push);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	cr_expect_eq(core.counter[SP_COUNT_WAITS_UNSENT], 0);
	cr_expect_eq(core.counter[SP_COUNT_WAITS_SENT], 3);
	cr_expect_eq(origin.delivery[0].waits_lost, 3);
	core.log[0] = '\0';
	sp_losses_log(&origin.losses, &core.ops);
	cr_expect_str_eq(core.log,
			 "2 profiles lost at http://one: the server refused them (400), 4 samples "
			 "and 3 waits (7 not lost at another server); status 400: no\n",
			 "%s", core.log);
}

/* Both servers lose the profile. */
Test(push_several, what_all_have_lost_is_lost, .timeout = 20)
{
	set_up(8, 400, 422);
	put(4);
	sp_push_run(push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 4);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 0);
	core.log[0] = '\0';
	sp_losses_log(&origin.losses, &core.ops);
	cr_expect_not_null(strstr(core.log, "1 profile lost at http://one: the server refused it "
					    "(400), 4 samples (4 not lost at another server);"),
			   "%s", core.log);
	cr_expect_not_null(strstr(core.log, "1 profile lost at http://two: the server refused it "
					    "(422), 4 samples;"),
			   "%s", core.log);
	cr_expect_null(strstr(core.log, "before a profile"), "%s", core.log);
}

/* Another process reports the losses of an ended one, with the same numbers. */
Test(push_several, an_heir_tells_the_same, .timeout = 20)
{
	struct sp_losses heir = {.next_quote = 0};

	set_up(8, 400, 422);
	put(4);
	sp_push_run(push);
	sp_losses_hand_over(&origin.losses, &heir);
	core.log[0] = '\0';
	sp_losses_log(&origin.losses, &core.ops);
	cr_expect_str_empty(core.log, "%s", core.log);
	memset(core.counter, 0, sizeof(core.counter));
	sp_losses_log(&heir, &core.ops);
	cr_expect_not_null(strstr(core.log, "lost at http://one: "), "%s", core.log);
	cr_expect_not_null(strstr(core.log, "lost at http://two: "), "%s", core.log);
	cr_expect_null(strstr(core.log, "before a profile"), "%s", core.log);
}

/* The queues of two dead servers need the memory of one. */
Test(push_several, queues_share_the_messages, .timeout = 20)
{
	struct sp_message m[2] = {{.body = {(uint8_t *)strdup("p"), 1}, .query = strdup("?q")}};
	const uint8_t *body = m[0].body.data;

	set_up(8, 200, 200);
	cr_assert_eq(sp_message_share(m, 2), 0);
	cr_expect_eq(m[1].body.data, body);
	sp_message_fini(&m[0]);
	cr_expect_eq(m[1].body.data[0], 'p');
	cr_expect_str_eq(m[1].query, "?q");
	sp_message_fini(&m[1]);
}

Test(push_several, requests_side_by_side_are_shared_fairly, .timeout = 20)
{
	set_up(64, 0, 0);
	for (unsigned i = 0; i < 40; i++)
		put(1);
	core.pending = true;
	core.flush_left = 2000;
	sp_push_flush(push, true);
	sp_push_run(push);
	cr_expect_eq(server[0].most_requests, SP_TRANSFERS / 2);
	cr_expect_eq(server[1].most_requests, SP_TRANSFERS / 2);
}

/* A server that hangs uses the whole time of the flush; the other one has finished at once. */
Test(push_several, a_flush_ends_when_each_is_done, .timeout = 20)
{
	set_up(8, 0, 200);
	put(4);
	core.pending = true;
	core.flush_left = 2000;
	sp_push_flush(push, true);
	sp_push_run(push);
	cr_expect_eq(origin.delivery[1].samples_sent, 4);
	cr_expect_not(sp_push_flushed(push));
	cr_expect_str_empty(core.log);
	core.flush_left = 0;
	cr_expect(sp_push_flushed(push));
	cr_expect_str_eq(core.log,
			 "the process ends before http://one has taken the last profile (samples: "
			 "4)\n",
			 "%s", core.log);
	sp_push_abandon(push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0, "the other one has them");
	cr_expect_eq(origin.delivery[0].samples_lost, 4);
}

/* The servers are swapped. Each is named once, when both have finished. */
Test(push_several, the_end_names_all_that_have_not_taken_it, .timeout = 20)
{
	set_up(8, 0, 503);
	put(4);
	core.pending = true;
	core.flush_left = 2000;
	sp_push_flush(push, true);
	sp_push_run(push);
	cr_expect_not(sp_push_flushed(push));
	core.log[0] = '\0';
	core.flush_left = 0;
	cr_expect(sp_push_flushed(push));
	cr_expect_not_null(strstr(core.log, "before http://one has taken"), "%s", core.log);
	cr_expect_not_null(strstr(core.log, "before http://two has taken"), "%s", core.log);
	sp_push_count_unsent(push);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 4, "once, not once for each");
}

/* The exporter wakes for the server that is due first. */
Test(push_several, the_earliest_is_due, .timeout = 20)
{
	set_up(8, 503, 200);
	cr_expect_eq(sp_push_due_ms(push), UINT32_MAX);
	put(4);
	cr_expect_eq(sp_push_due_ms(push), 0);
	sp_push_run(push);
	cr_expect_eq(sp_push_queued(push), 1);
	cr_expect_neq(sp_push_due_ms(push), UINT32_MAX);
	cr_expect_eq(sp_push_results(push, 0)->last_status, 503);
	cr_expect_eq(sp_push_results(push, 1)->last_status, 200);
	cr_expect_eq(sp_push_moves(push) & UINT8_MAX, 0);
	server[0].status = 0;
	now += 60 * SP_NS_PER_S;
	sp_push_run(push);
	cr_expect_neq(sp_push_moves(push) & UINT8_MAX, 0);
}

Test(push_several, what_is_under_way_is_stopped_with_each, .timeout = 20)
{
	set_up(8, 0, 0);
	put(4);
	sp_push_run(push);
	cr_expect_eq(server[0].requests, 1);
	cr_expect_eq(server[1].requests, 1);
	sp_push_free(push);
	push = NULL;
	cr_expect_eq(server[0].requests, 0);
	cr_expect_eq(server[1].requests, 0);
}

/* Each call begins with another server. */
Test(push_several, a_round_is_shared, .timeout = 20)
{
	set_up(64, 200, 200);
	for (unsigned i = 0; i < 40; i++)
		put(1);
	sp_push_run(push);
	cr_expect_eq(origin.delivery[0].samples_sent, 16);
	cr_expect_eq(origin.delivery[1].samples_sent, 16);
}

/* The capacity of each queue grows with the number of processes. */
Test(push_several, each_queue_serves_all_processes, .timeout = 20)
{
	set_up(2, 0, 200);
	sp_push_serve(push, &core.ops, 3, 0);
	for (unsigned i = 0; i < 6; i++)
		put(1);
	cr_expect_eq(sp_push_queued(push), 12);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 0);
	put(1);
	cr_expect_eq(sp_push_queued(push), 12);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_QUEUE_FULL], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1, "both have lost it");
}

/* The number changes with events at any server. */
Test(push_several, moves_at_any_server, .timeout = 20)
{
	uint64_t moves;

	set_up(8, 0, 503);
	moves = sp_push_moves(push);
	put(4);
	cr_expect_neq(sp_push_moves(push), moves);
	moves = sp_push_moves(push);
	sp_push_run(push);
	cr_expect_neq(sp_push_moves(push), moves);
	now += 60 * SP_NS_PER_S;
	server[1].status = 200;
	moves = sp_push_moves(push);
	sp_push_run(push);
	cr_expect_neq(sp_push_moves(push), moves);
}

/* After an interrupted flush each server waits for its backoff again. */
Test(push_several, a_flush_may_end_early, .timeout = 20)
{
	set_up(8, 0, 503);
	put(4);
	core.pending = true;
	core.flush_left = 0;
	sp_push_flush(push, false);
	sp_push_run(push);
	cr_expect_eq(server[0].posts + server[1].posts, 0, "there is no time");
	sp_push_resume(push);
	sp_push_run(push);
	cr_expect_eq(server[0].posts, 1);
	cr_expect_eq(server[1].posts, 1);
}
