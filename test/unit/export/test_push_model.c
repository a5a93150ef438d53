/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of one to three servers, compared with a reference model. Profiles of three processes
 * and of all types are queued, time passes, processes are flushed, and each server answers at
 * random: in any order, or not at all. Requests have one profile or many, and a server may store
 * some of them. The reference does not predict when a request begins, but which one may begin, and
 * the effect of each answer.
 *
 * After every step each record was sent to a server, is lost there, or is queued for it. No server
 * stores a record twice, unless it said that it stored nothing. In the counters of a process, a
 * record is sent when the first server has it, and lost when the last server has lost it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/push/push.h"
#include "sampler/base/compiler.h"

#define SEQUENCES 2000U
#define STEPS 150U
#define ITEMS 256U
#define PROCESSES 3U
#define SERVERS 3U
#define RECORDS 40U
#define TOO_OLD_NS (3540 * SP_NS_PER_S)
#define RETRY_MAX_NS (300 * SP_NS_PER_S)
#define REFUSALS 32U
#define CAPACITY 6U
#define TRIES 4U

static uint64_t seed, state, now = 10000 * SP_NS_PER_S;

static uint32_t roll(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(state >> 33) % n;
}

#define CHECK(condition) cr_assert(condition, "sequence %u", (unsigned)seed)

/* --- The reference: a profile is its records from `done` on; each record is a sample. */

enum fate { OPEN, SENT, LOST };

struct item {
	bool is_queued;
	bool under_way;
	unsigned slot;
	unsigned process;
	enum sp_profile_type type;
	uint64_t born_ns;
	uint32_t done, message_end, end;
	uint32_t message_most; /* records of the next message, if a larger one was too large */
	unsigned tries, limited, refusals;
	uint32_t stored; /* records before this one may be at the server */
	unsigned char fate[RECORDS];
};

struct transfer {
	bool is_used;
	unsigned n; /* profiles; 0 = an empty push */
	uint32_t number[ITEMS];
};

/* A server and its queue. */
static struct server {
	struct item item[ITEMS];
	unsigned under_way;
	unsigned requests;
	bool is_probing; /* the next request is an empty push */
	/* the first profile of the request was chosen, others may follow */
	bool is_choosing;
	uint64_t singly_until; /* until then each request has one profile */
	bool has_type[SP_PROFILE_TYPES];
	uint64_t sent[2], lost[2]; /* CPU, waits */
	uint64_t wait_until_ns;    /* the end of the wait that the server demanded */
	bool is_alone;             /* the last answer was a failure */
	bool is_silent;
	uint32_t limit;    /* it takes profiles of at most this many records */
	unsigned together; /* a request may have this many profiles */
	struct transfer transfer[SP_TRANSFERS];
} server[SERVERS], *at; /* at: the server of the present call */
static unsigned servers;
static unsigned items;
static uint64_t put[2], sent[2], lost[2]; /* counters of all processes: CPU, waits */
static bool is_flushing, is_over;         /* is_over: this flush begins no more requests */
static bool is_barred[PROCESSES];

/* The fate of a record for all servers together; OPEN until it is decided. */
static enum fate fate_of(unsigned i, uint32_t record)
{
	unsigned n[3] = {0, 0, 0};

	for (unsigned k = 0; k < servers; k++)
		n[server[k].item[i].fate[record]]++;
	return n[SENT] != 0 ? SENT : n[LOST] == servers ? LOST : OPEN;
}

static void settle(struct item *i, enum fate fate, uint32_t to)
{
	unsigned k = sp_profile_type_row(i->type)->is_of_waits;

	(fate == SENT ? at->sent : at->lost)[k] += to - i->done;
	for (uint32_t r = i->done; r < to; r++) {
		unsigned number = (unsigned)(i - at->item);
		enum fate before = fate_of(number, r);

		i->fate[r] = (unsigned char)fate;
		if (fate_of(number, r) != before)
			(fate == SENT ? sent : lost)[k]++;
	}
	i->done = to;
	i->is_queued = to < i->end;
}

static struct item *oldest(void)
{
	for (unsigned i = 0; i < items; i++)
		if (at->item[i].is_queued && !at->item[i].under_way)
			return &at->item[i];
	return NULL;
}

static unsigned waiting(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < items; i++)
		n += at->item[i].is_queued && !at->item[i].under_way;
	return n;
}

/* Of the profiles with the fewest answers 429, the oldest. */
static struct item *next(void)
{
	struct item *best = NULL;

	for (unsigned i = 0; i < items; i++)
		if (at->item[i].is_queued && !at->item[i].under_way &&
		    (best == NULL || at->item[i].limited < best->limited))
			best = &at->item[i];
	return best;
}

static void forget_old(void)
{
	for (struct item *i; (i = oldest()) != NULL && now - i->born_ns > TOO_OLD_NS;)
		settle(i, LOST, i->end);
}

static void wait_for(const struct sp_reply *r)
{
	uint64_t ns = r->retry_after_s * SP_NS_PER_S;

	ns = ns < RETRY_MAX_NS ? ns : RETRY_MAX_NS;
	if (now + ns > at->wait_until_ns)
		at->wait_until_ns = now + ns;
}

/* The effect of an answer on a profile that was sent alone. */
static void answered(struct item *i, const struct sp_reply *r)
{
	uint32_t records = i->message_end - i->done;

	i->tries++;
	if (!at->is_alone) {
		settle(i, SENT, i->message_end);
		i->refusals = 0;
	} else if (r->kind != SP_REPLY_STATUS && r->sent) {
		settle(i, LOST, i->message_end);
	} else if (r->status == 413) {
		if (++i->refusals >= REFUSALS)
			settle(i, LOST, i->end);
		else if (records == 1)
			settle(i, LOST, i->message_end);
		else
			i->message_most = records / 2;
	} else if (r->status == 400 || r->status == 422) {
		settle(i, LOST, i->message_end);
	} else if (i->tries >= TRIES) {
		settle(i, LOST, i->message_end);
	} else {
		/* A flush does not wait after an answer 429. */
		if (!(is_flushing && r->status == 429))
			wait_for(r);
		i->limited += r->status == 429;
	}
}

static bool is_again(const struct sp_reply *r)
{
	return r->kind != SP_REPLY_STATUS || r->status >= 500 || r->status == 429 ||
	       r->status == 401 || r->status == 404 || r->status == 408;
}

static bool is_partial(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->text_len != 0;
}

/*
 * The effect of an answer on one profile of several. If the server may have stored some, none is
 * sent again.
 */
static void answered_together(struct item *i, const struct sp_reply *r)
{
	if (!at->is_alone)
		settle(i, SENT, i->message_end);
	else if ((r->kind != SP_REPLY_STATUS && r->sent) || is_partial(r))
		settle(i, LOST, i->message_end);
	else if (is_again(r) && ++i->tries >= TRIES)
		settle(i, LOST, i->message_end);
}

/* --- The server. */

static struct sp_core_ops ops[PROCESSES];
static struct sp_origin origin[PROCESSES];
static struct sp_push *push;
static struct sp_message joined[ITEMS]; /* messages of profiles, without bodies */
static unsigned joined_n;
static unsigned begun;
static unsigned joins; /* number of requests with several profiles */

static uint32_t number_of(const struct sp_message *m)
{
	uint32_t number;

	memcpy(&number, m->body.data, sizeof(number));
	CHECK(number < items);
	return number;
}

static struct sp_message message(uint32_t number, enum sp_profile_type type, uint32_t first,
				 uint32_t end)
{
	struct sp_message m = {.type = type,
			       .first = first,
			       .end = end,
			       .samples = end - first,
			       .plain = end - first};

	m.body = (struct sp_bytes){malloc(sizeof(number)), sizeof(number)};
	memcpy(m.body.data, &number, sizeof(number));
	return m;
}

static int cut(void *arg, struct sp_origin *of_process, const struct sp_message *of,
	       const struct sp_part *part, struct sp_message *out)
{
	uint32_t n = part->end - part->first;
	uint32_t number;

	(void)arg;
	(void)of_process;
	memcpy(&number, of->body.data, sizeof(number));
	*out = message(number, of->type, part->first,
		       part->first + (n < part->most ? n : part->most));
	return 0;
}

static int join(void *arg, const struct sp_message *const part[], uint32_t n, struct sp_bytes *out)
{
	(void)arg;
	CHECK(n > 1 && n <= items);
	*out = (struct sp_bytes){malloc(n * sizeof(uint32_t)), n * sizeof(uint32_t)};
	for (uint32_t k = 0; k < n; k++) {
		uint32_t number = number_of(part[k]);

		memcpy(out->data + k * sizeof(number), &number, sizeof(number));
		joined[k] = *part[k];
	}
	joined_n = n;
	return roll(10) == 0 ? -ENOMEM : 0;
}

static void begin_one(struct item *i, const struct sp_message *m, unsigned slot)
{
	CHECK(i->is_queued && !i->under_way);
	CHECK(now - i->born_ns <= TOO_OLD_NS && !is_barred[i->process]);
	/*
	 * No record is left out, and no record is sent again that is sent, lost, or may be stored.
	 */
	CHECK(m->first == i->done && m->end > m->first && m->end <= i->end);
	CHECK(m->first >= i->stored);
	CHECK(i->message_most == 0 || m->end - m->first <= i->message_most);
	CHECK(m->samples == m->end - m->first && m->type == i->type);
	if (m->end != i->message_end)
		i->tries = 0;
	i->message_end = m->end;
	i->message_most = 0;
	i->under_way = true;
	i->slot = slot;
	at->under_way++;
}

static void start(void *arg, unsigned slot, const struct sp_message *m, uint32_t timeout_ms)
{
	struct transfer *t;

	at = arg;
	t = &at->transfer[slot];
	CHECK(timeout_ms == 10000);
	CHECK(slot < SP_TRANSFERS && !t->is_used);
	CHECK(at->requests < SP_TRANSFERS / servers);
	CHECK(now >= at->wait_until_ns);
	CHECK(!at->is_alone || at->requests == 0);
	CHECK((m == NULL) == at->is_probing);
	*t = (struct transfer){.is_used = true};
	if (m != NULL) {
		t->n = (unsigned)(m->body.len / sizeof(uint32_t));
		memcpy(t->number, m->body.data, m->body.len);
		CHECK(&at->item[t->number[0]] == next());
		CHECK(t->n == 1 || (t->n == joined_n && !at->is_alone && now >= at->singly_until));
	}
	for (unsigned k = 0; k < t->n; k++) {
		struct item *i = &at->item[t->number[k]];

		CHECK(t->n == 1 || (at->has_type[i->type] && i->limited == 0 && i->refusals == 0));
		begin_one(i, t->n == 1 ? m : &joined[k], slot);
	}
	if (t->n > 1)
		joins++;
	at->is_choosing = false;
	at->requests++;
	begun++;
}

/* A proxy, or a limit for requests: the answer concerns the whole request. */
static void answer_whole(const struct transfer *t, struct sp_reply *r)
{
	static const int busy[] = {500, 503, 429, 429, 401, 404, 408};

	memset(r, 0, sizeof(*r));
	r->kind = SP_REPLY_STATUS;
	r->status = 200;
	switch (roll(14)) {
	case 0:
	case 1:
		r->status = busy[roll(7)];
		r->retry_after_s = roll(3) == 0 ? roll(500) : 0;
		break;
	case 2:
		r->status = roll(2) != 0 ? 400 : 422;
		break;
	case 3:
		r->kind = SP_REPLY_UNREACHABLE;
		r->status = 0;
		r->sent = roll(2) != 0;
		break;
	default:
		break;
	}
	if (r->status == 200 && t->n > at->together)
		r->status = 413;
}

/* The server stores the good profiles, and reports the error of one bad profile. */
static void answer_each(const struct transfer *t, struct sp_reply *r)
{
	static const int status[] = {400, 429, 500};
	unsigned bad = 0;

	for (unsigned k = 0; k < t->n; k++) {
		struct item *i = &at->item[t->number[k]];

		if (i->message_end - i->done > at->limit || (t->n > 1 && roll(40) == 0))
			bad++;
		else
			i->stored = i->message_end;
	}
	if (bad == 0)
		return;
	r->status = t->n == 1 ? 413 : status[roll(3)];
	if (t->n > 1)
		r->text_len = (size_t)snprintf(r->text, sizeof(r->text),
					       "{\"code\":\"invalid_argument\"}");
}

static void end_transfer(unsigned slot, const struct sp_reply *r)
{
	struct transfer t = at->transfer[slot];
	bool is_unknown = r->kind != SP_REPLY_STATUS && r->sent;
	bool is_stopped = r->kind == SP_REPLY_ABORTED && (t.n == 0 || !r->sent);

	at->transfer[slot].is_used = false;
	at->requests--;
	at->under_way -= t.n;
	for (unsigned k = 0; k < t.n; k++)
		at->item[t.number[k]].under_way = false;
	if (is_stopped)
		return;
	if (t.n == 0) {
		if (r->kind == SP_REPLY_STATUS && (r->status < 502 || r->status > 504)) {
			at->is_probing = false;
		} else {
			at->is_alone = true;
			wait_for(r);
		}
		return;
	}
	at->is_alone = r->kind != SP_REPLY_STATUS || r->status != 200;
	at->is_probing = at->is_probing || is_unknown;
	if (t.n > 1 && at->is_alone && is_again(r))
		wait_for(r);
	if (t.n > 1 && at->is_alone &&
	    (is_partial(r) || r->status == 429 || r->status == 400 || r->status == 422))
		at->singly_until = now + 3600 * SP_NS_PER_S;
	for (unsigned k = 0; k < t.n; k++) {
		struct item *i = &at->item[t.number[k]];

		at->has_type[i->type] = at->has_type[i->type] || !at->is_alone;
		if (t.n == 1)
			answered(i, r);
		else
			answered_together(i, r);
	}
}

static bool poll(void *arg, unsigned *slot, struct sp_reply *r)
{
	unsigned any = roll(SP_TRANSFERS);

	at = arg;
	CHECK(at->requests != 0);
	if (at->is_silent || roll(4) == 0)
		return false;
	while (!at->transfer[any % SP_TRANSFERS].is_used)
		any++;
	*slot = any % SP_TRANSFERS;
	answer_whole(&at->transfer[*slot], r);
	if (r->status == 200)
		answer_each(&at->transfer[*slot], r);
	end_transfer(*slot, r);
	return true;
}

static void stop(void *arg, unsigned slot, struct sp_reply *r)
{
	at = arg;
	CHECK(at->transfer[slot].is_used);
	memset(r, 0, sizeof(*r));
	r->kind = SP_REPLY_ABORTED;
	r->sent = roll(2) != 0;
	end_transfer(slot, r);
}

/* A server's queue asks for the time: remembers which one. */
static uint64_t get_now(void *arg)
{
	at = arg;
	return now;
}

static uint64_t get_random(void *arg)
{
	(void)arg;
	return (uint64_t)roll(UINT32_MAX) << 20;
}

/*
 * The queue asks first for the profile to send next, which is lost if its process may not; then for
 * those to send with it.
 */
static bool may_open(void *arg)
{
	unsigned process = (unsigned)(uintptr_t)arg;
	struct item *i;

	if (at->is_choosing)
		return !is_barred[process];
	while ((i = next()) != NULL && now - i->born_ns > TOO_OLD_NS)
		settle(i, LOST, i->end);
	CHECK(i != NULL && i->process == process);
	if (is_barred[process])
		settle(i, LOST, i->end);
	at->is_choosing = !is_barred[process];
	return !is_barred[process];
}

static void count(void *arg, enum sp_counter c, uint64_t n)
{
	(void)arg;
	core.counter[c] += n;
}

/* --- Sequences. */

/* Compares one server. Returns how many profiles are queued for it. */
static unsigned compare_server(unsigned k)
{
	uint64_t queued[2] = {0, 0};
	struct sp_delivery sum = {0};
	unsigned n = 0;

	at = &server[k];
	for (unsigned i = 0; i < items; i++) {
		if (!at->item[i].is_queued)
			continue;
		n++;
		queued[sp_profile_type_row(at->item[i].type)->is_of_waits] +=
			at->item[i].end - at->item[i].done;
	}
	for (unsigned w = 0; w < 2; w++)
		CHECK(put[w] == at->sent[w] + at->lost[w] + queued[w]);
	for (unsigned i = 0; i < PROCESSES; i++) {
		sum.samples_sent += origin[i].delivery[k].samples_sent;
		sum.samples_lost += origin[i].delivery[k].samples_lost;
		sum.waits_sent += origin[i].delivery[k].waits_sent;
		sum.waits_lost += origin[i].delivery[k].waits_lost;
	}
	CHECK(sum.samples_sent == at->sent[0] && sum.samples_lost == at->lost[0]);
	CHECK(sum.waits_sent == at->sent[1] && sum.waits_lost == at->lost[1]);
	return n;
}

static void compare(void)
{
	unsigned n = 0, requests = 0, under_way = 0;

	for (unsigned k = 0; k < servers; k++) {
		n += compare_server(k);
		requests += server[k].requests;
		under_way += server[k].under_way;
	}
	CHECK(core.counter[SP_COUNT_SAMPLES_SENT] == sent[0]);
	CHECK(core.counter[SP_COUNT_WAITS_SENT] == sent[1]);
	CHECK(core.counter[SP_COUNT_SAMPLES_UNSENT] == lost[0]);
	CHECK(core.counter[SP_COUNT_WAITS_UNSENT] == lost[1]);
	CHECK(n != 0 || (put[0] == sent[0] + lost[0] && put[1] == sent[1] + lost[1]));
	CHECK(sp_push_queued(push) == n);
	CHECK((sp_push_moves(push) & UINT8_MAX) == requests);
	CHECK(origin[0].queued + origin[1].queued + origin[2].queued == n);
	CHECK(origin[0].pushing + origin[1].pushing + origin[2].pushing == under_way);
	CHECK((sp_push_due_ms(push) == UINT32_MAX) == (n == 0 && requests == 0));
	CHECK(n == 0 || sp_push_due_ms(push) <= RETRY_MAX_NS / SP_NS_PER_MS);
}

static void put_one(void)
{
	struct item i = {.is_queued = true,
			 .process = roll(PROCESSES),
			 .type = (enum sp_profile_type)roll(SP_PROFILE_TYPES),
			 .born_ns = now,
			 .end = 1 + roll(RECORDS)};
	struct sp_message m;

	if (items == ITEMS)
		return;
	i.message_end = i.end;
	for (unsigned k = 0; k < servers; k++) {
		at = &server[k];
		/* The new profile is not among the items yet. */
		for (struct item *o; waiting() >= CAPACITY && (o = oldest()) != NULL;)
			settle(o, LOST, o->end);
		at->item[items] = i;
	}
	m = message(items++, i.type, 0, i.end);
	put[sp_profile_type_row(i.type)->is_of_waits] += i.end;
	sp_push_put(push, &origin[i.process], &m, i.born_ns);
}

/* Whether the server must get a request if one is due. */
static bool may_begin(void)
{
	return at->requests == 0 && next() != NULL && !is_barred[next()->process];
}

static void run_once(void)
{
	bool may = !is_flushing && sp_push_due_ms(push) == 0 && sp_push_queued(push) != 0;

	begun = 0;
	for (unsigned k = 0; k < servers; k++) {
		at = &server[k];
		forget_old();
		may = may && may_begin();
	}
	sp_push_run(push);
	for (unsigned k = 0; k < servers; k++) {
		at = &server[k];
		forget_old();
	}
	CHECK(!is_over || begun == 0);
	CHECK(!may || begun != 0);
}

/* During the flush new profiles come, and the process that waits may give up. */
static void flush(void)
{
	core.flush_left = roll(2000);
	sp_push_flush(push, roll(2) != 0);
	is_flushing = true;
	/* Waits that the server demanded before do not apply in the flush, nor after it. */
	for (unsigned k = 0; k < servers; k++)
		server[k].wait_until_ns = now;
	for (uint32_t ms; !(is_over = sp_push_flushed(push)) && roll(200) != 0;) {
		ms = roll(sp_push_due_ms(push) + 2);
		now += ms * SP_NS_PER_MS;
		core.flush_left -= core.flush_left < ms ? core.flush_left : ms;
		if (roll(8) == 0)
			put_one();
		run_once();
		compare();
	}
	/* No request begins, but profiles that have become too old are lost. */
	if (is_over)
		run_once();
	is_flushing = is_over = false;
	sp_push_resume(push);
}

static void begin(void)
{
	static const struct sp_push_limits limits = {.capacity = CAPACITY,
						     .max_tries = TRIES,
						     .timeout_ms = 10000,
						     .interval_ms = 15000,
						     .lasts_ms = 120000};
	struct sp_push_env env[SERVERS];

	core_reset();
	core.ops.may_open = may_open;
	core.ops.counter_add = count;
	for (unsigned i = 0; i < PROCESSES; i++) {
		ops[i] = core.ops;
		ops[i].arg = (void *)(uintptr_t)i;
		origin[i] = (struct sp_origin){.ops = &ops[i]};
		is_barred[i] = false;
	}
	items = 0;
	servers = 1 + (unsigned)(seed / 4) % SERVERS;
	memset(server, 0, sizeof(server));
	for (unsigned k = 0; k < servers; k++) {
		server[k].limit = RECORDS;
		server[k].together = 99;
		env[k] = (struct sp_push_env){.name = servers > 1 ? "http://one" : NULL,
					      .start = start,
					      .poll = poll,
					      .stop = stop,
					      .transport_arg = &server[k],
					      .join = seed % 4 != 0 ? join : NULL,
					      .cut = cut,
					      .now_ns = get_now,
					      .now_arg = &server[k],
					      .random = get_random};
	}
	memset(put, 0, sizeof(put));
	memset(sent, 0, sizeof(sent));
	memset(lost, 0, sizeof(lost));
	push = sp_push_new(&ops[0], env, servers, &limits);
	cr_assert_not_null(push);
}

Test(push_model, what_was_put_was_sent_or_lost_in_whatever_order_a_server_answers, .timeout = 120)
{
	for (seed = 1; seed <= SEQUENCES; seed++) {
		state = seed * UINT64_C(0x9e3779b97f4a7c15);
		begin();
		for (unsigned step = 0; step < STEPS; step++) {
			switch (roll(16)) {
			case 0:
				flush();
				break;
			case 1:
				at = &server[roll(servers)];
				at->limit = roll(RECORDS + 1);
				at->together = roll(2) != 0 ? 99 : 1 + roll(4);
				break;
			case 2:
				server[roll(servers)].is_silent = roll(3) == 0;
				break;
			case 3:
				is_barred[2] = roll(4) == 0;
				break;
			case 4:
				now += roll(1200) * SP_NS_PER_S;
				break;
			case 5:
			case 6:
			case 7:
				now += roll(20000) * SP_NS_PER_MS;
				break;
			case 8:
			case 9:
			case 10:
				put_one();
				break;
			default:
				run_once();
				break;
			}
			if (step % 2 != 0)
				run_once();
			compare();
		}
		if (roll(2) == 0) {
			sp_push_abandon(push);
			for (unsigned k = 0; k < servers; k++) {
				at = &server[k];
				for (struct item *o; (o = oldest()) != NULL;)
					settle(o, LOST, o->end);
			}
			CHECK(sp_push_queued(push) == 0);
			compare();
		} else {
			/* The profiles stay queued: nothing else may be done with the queue. */
			sp_push_count_unsent(push);
			CHECK(core.counter[SP_COUNT_SAMPLES_UNSENT] == put[0] - sent[0]);
			CHECK(core.counter[SP_COUNT_WAITS_UNSENT] == put[1] - sent[1]);
		}
		sp_push_free(push);
		core.log[0] = '\0';
	}
	cr_expect_gt(joins, SEQUENCES, "%u requests of several profiles", joins);
}
