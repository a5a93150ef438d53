/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue beside a reference: profiles of three processes and of all types come, time passes, processes are flushed,
 * and the server answers what it likes in any order, or not at all. The reference knows no reason to begin a request,
 * but which one may be begun, and what follows from each answer. After every step what was put is what was sent, what was
 * lost and what is queued, record by record.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/push/push.h"
#include "sampler/base/compiler.h"

#define SEQUENCES 2000U
#define STEPS 150U
#define ITEMS 256U
#define PROCESSES 3U
#define TOO_OLD_NS (3540 * SP_NS_PER_S)
#define RETRY_MAX_NS (300 * SP_NS_PER_S)
#define REFUSALS 32U
#define CAPACITY 3U
#define TRIES 4U

static uint64_t seed, state, now = 10000 * SP_NS_PER_S;

static uint32_t roll(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(state >> 33) % n;
}

#define CHECK(condition) cr_assert(condition, "sequence %u", (unsigned)seed)

/* --- The reference: a profile is its records from `done` on; each of them is a sample. */

static struct item {
	bool is_queued;
	bool under_way;
	unsigned slot;
	unsigned process;
	enum sp_profile_type type;
	uint64_t born_ns;
	uint32_t done, message_end, end;
	uint32_t message_most; /* records of the next message, where it is known to be too large */
	unsigned tries, limited, refusals;
} item[ITEMS];
static unsigned items, under_way;
static uint64_t put[2], sent[2], lost[2]; /* CPU, waits */
static uint64_t wait_until_ns;            /* what the server asked for */
static bool is_alone;                     /* the last answer was a failure */
static bool is_flushing, is_over;         /* nothing is begun any more in this flush */
static bool is_barred[PROCESSES];

static void settle(struct item *i, uint64_t *where, uint32_t to)
{
	where[sp_profile_type_is_of_waits(i->type)] += to - i->done;
	i->done = to;
	i->is_queued = to < i->end;
}

static struct item *oldest(void)
{
	for (unsigned i = 0; i < items; i++)
		if (item[i].is_queued && !item[i].under_way)
			return &item[i];
	return NULL;
}

static unsigned waiting(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < items; i++)
		n += item[i].is_queued && !item[i].under_way;
	return n;
}

/* The oldest of those that were told most seldom that there is no room. */
static struct item *next(void)
{
	struct item *best = NULL;

	for (unsigned i = 0; i < items; i++)
		if (item[i].is_queued && !item[i].under_way &&
		    (best == NULL || item[i].limited < best->limited))
			best = &item[i];
	return best;
}

static void forget_old(void)
{
	for (struct item *i; (i = oldest()) != NULL && now - i->born_ns > TOO_OLD_NS;)
		settle(i, lost, i->end);
}

static void answered(struct item *i, const struct sp_reply *r)
{
	uint32_t records = i->message_end - i->done;

	i->under_way = false;
	under_way--;
	if (r->kind == SP_REPLY_ABORTED && !r->sent)
		return;
	i->tries++;
	is_alone = r->kind != SP_REPLY_STATUS || r->status != 200;
	if (!is_alone) {
		settle(i, sent, i->message_end);
		i->refusals = 0;
	} else if (r->kind != SP_REPLY_STATUS && r->sent) {
		settle(i, lost, i->message_end);
	} else if (r->status == 413) {
		if (++i->refusals >= REFUSALS)
			settle(i, lost, i->end);
		else if (records == 1)
			settle(i, lost, i->message_end);
		else
			i->message_most = records / 2;
	} else if (r->status == 400 || r->status == 422) {
		settle(i, lost, i->message_end);
	} else if (i->tries >= TRIES) {
		settle(i, lost, i->message_end);
	} else {
		uint64_t ns = r->retry_after_s * SP_NS_PER_S;

		/* A flush has no later, so it asks again at once where there is no room. */
		ns = ns < RETRY_MAX_NS ? ns : RETRY_MAX_NS;
		if (now + ns > wait_until_ns && !(is_flushing && r->status == 429))
			wait_until_ns = now + ns;
		i->limited += r->status == 429;
	}
}

/* --- The server. */

static struct sp_core_ops ops[PROCESSES];
static struct sp_origin origin[PROCESSES];
static struct sp_push *push;
static const uint8_t *body[SP_TRANSFERS];
static uint32_t limit; /* records of a request */
static unsigned begun;
static bool is_silent;

static struct item *item_of(const struct sp_message *m)
{
	uint32_t number;

	memcpy(&number, m->body.data, sizeof(number));
	CHECK(number < items);
	return &item[number];
}

static struct sp_message message(uint32_t number, enum sp_profile_type type, uint32_t first,
				 uint32_t end)
{
	struct sp_message m = {.type = type,
			       .first = first,
			       .end = end,
			       .records = end - first,
			       .samples = end - first};

	m.body = (struct sp_bytes){malloc(sizeof(number)), sizeof(number)};
	memcpy(m.body.data, &number, sizeof(number));
	return m;
}

static int encode(void *arg, struct sp_origin *of_process, const struct sp_message *of,
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

static void start(void *arg, unsigned slot, const struct sp_message *m, uint32_t timeout_ms)
{
	struct item *i = item_of(m);

	(void)arg;
	CHECK(timeout_ms == 10000);
	CHECK(slot < SP_TRANSFERS && body[slot] == NULL);
	CHECK(i == next());
	CHECK(now - i->born_ns <= TOO_OLD_NS && !is_barred[i->process]);
	CHECK(now >= wait_until_ns);
	CHECK(!is_alone || under_way == 0);
	/* Nothing is left out, and nothing is sent a second time that is settled. */
	CHECK(m->first == i->done && m->end > m->first && m->end <= i->end);
	CHECK(i->message_most == 0 || m->end - m->first <= i->message_most);
	CHECK(m->samples == m->end - m->first && m->type == i->type);
	if (m->end != i->message_end)
		i->tries = 0;
	i->message_end = m->end;
	i->message_most = 0;
	i->under_way = true;
	i->slot = slot;
	body[slot] = m->body.data;
	under_way++;
	begun++;
}

static void answer(struct item *i, struct sp_reply *r)
{
	static const int busy[] = {500, 503, 429, 429, 401, 404, 408};

	memset(r, 0, sizeof(*r));
	r->kind = SP_REPLY_STATUS;
	r->status = 200;
	switch (roll(12)) {
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
	if (r->status == 200 && i->message_end - i->done > limit)
		r->status = 413;
	answered(i, r);
}

static bool poll(void *arg, unsigned *slot, struct sp_reply *r)
{
	unsigned first = roll(ITEMS);

	(void)arg;
	CHECK(under_way != 0);
	if (is_silent || roll(4) == 0)
		return false;
	while (!item[first % ITEMS].under_way)
		first++;
	*slot = item[first % ITEMS].slot;
	CHECK(body[*slot] != NULL);
	body[*slot] = NULL;
	answer(&item[first % ITEMS], r);
	return true;
}

static void stop(void *arg, unsigned slot, struct sp_reply *r)
{
	(void)arg;
	CHECK(body[slot] != NULL);
	body[slot] = NULL;
	memset(r, 0, sizeof(*r));
	r->kind = SP_REPLY_ABORTED;
	r->sent = roll(2) != 0;
	for (unsigned i = 0; i < items; i++)
		if (item[i].under_way && item[i].slot == slot)
			answered(&item[i], r);
}

static uint64_t get_now(void *arg)
{
	(void)arg;
	return now;
}

static uint64_t get_random(void *arg)
{
	(void)arg;
	return (uint64_t)roll(UINT32_MAX) << 20;
}

/* Asked for the one that is begun next: of a process that may not, it is lost. */
static bool may_open(void *arg)
{
	unsigned process = (unsigned)(uintptr_t)arg;
	struct item *i;

	while ((i = next()) != NULL && now - i->born_ns > TOO_OLD_NS)
		settle(i, lost, i->end);
	CHECK(i != NULL && i->process == process);
	if (is_barred[process])
		settle(i, lost, i->end);
	return !is_barred[process];
}

static void count(void *arg, enum sp_counter c, uint64_t n)
{
	(void)arg;
	core.counter[c] += n;
}

/* --- Sequences. */

static void compare(void)
{
	uint64_t queued[2] = {0, 0};
	unsigned n = 0;

	for (unsigned i = 0; i < items; i++) {
		if (!item[i].is_queued)
			continue;
		n++;
		queued[sp_profile_type_is_of_waits(item[i].type)] += item[i].end - item[i].done;
	}
	for (unsigned k = 0; k < 2; k++)
		CHECK(put[k] == sent[k] + lost[k] + queued[k]);
	CHECK(core.counter[SP_COUNT_SAMPLES_SENT] == sent[0]);
	CHECK(core.counter[SP_COUNT_WAITS_SENT] == sent[1]);
	CHECK(core.counter[SP_COUNT_SAMPLES_UNSENT] == lost[0]);
	CHECK(core.counter[SP_COUNT_WAITS_UNSENT] == lost[1]);
	CHECK(sp_push_queued(push) == n);
	CHECK(sp_push_under_way(push) == (under_way != 0));
	CHECK(origin[0].queued + origin[1].queued + origin[2].queued == n);
	CHECK(origin[0].pushing + origin[1].pushing + origin[2].pushing == under_way);
	CHECK((sp_push_due_ms(push) == UINT32_MAX) == (n == 0));
	CHECK(n == 0 || sp_push_due_ms(push) <= RETRY_MAX_NS / SP_NS_PER_MS);
}

static void put_one(void)
{
	struct item *i = &item[items];
	struct sp_message m;

	if (items == ITEMS)
		return;
	*i = (struct item){.is_queued = true,
			   .process = roll(PROCESSES),
			   .type = (enum sp_profile_type)roll(SP_PROFILE_TYPES),
			   .born_ns = now,
			   .end = 1 + roll(40)};
	i->message_end = i->end;
	/* It is not among the items yet. */
	for (struct item *o; waiting() >= CAPACITY && (o = oldest()) != NULL;)
		settle(o, lost, o->end);
	m = message(items++, i->type, 0, i->end);
	put[sp_profile_type_is_of_waits(i->type)] += i->end;
	sp_push_put(push, &origin[i->process], &m, i->born_ns);
}

static void run_once(void)
{
	bool may = !is_flushing && sp_push_due_ms(push) == 0 && sp_push_queued(push) != 0;

	begun = 0;
	forget_old();
	may = may && under_way == 0 && next() != NULL && !is_barred[next()->process];
	sp_push_run(push);
	forget_old();
	CHECK(!is_over || begun == 0);
	CHECK(!may || begun != 0);
}

/* New profiles come meanwhile, and whoever waits for it may give up. */
static void flush(void)
{
	core.flush_left = roll(2000);
	sp_push_flush(push, roll(2) != 0);
	is_flushing = true;
	/* Whatever the server had asked for before does not bind the last tries, nor what follows them. */
	wait_until_ns = now;
	for (uint32_t ms; !(is_over = sp_push_flushed(push)) && roll(200) != 0;) {
		ms = roll(sp_push_due_ms(push) + 2);
		now += ms * SP_NS_PER_MS;
		core.flush_left -= core.flush_left < ms ? core.flush_left : ms;
		if (roll(8) == 0)
			put_one();
		run_once();
		compare();
	}
	/* It begins nothing, but what has become too old meanwhile goes. */
	if (is_over)
		run_once();
	is_flushing = is_over = false;
	sp_push_resume(push);
}

static void begin(void)
{
	static const struct sp_push_env env = {.start = start,
					       .poll = poll,
					       .stop = stop,
					       .encode = encode,
					       .now_ns = get_now,
					       .random = get_random};
	static const struct sp_push_limits limits = {.capacity = CAPACITY,
						     .max_tries = TRIES,
						     .timeout_ms = 10000,
						     .interval_ms = 15000,
						     .lasts_ms = 120000};

	core_reset();
	core.ops.may_open = may_open;
	core.ops.counter_add = count;
	for (unsigned i = 0; i < PROCESSES; i++) {
		ops[i] = core.ops;
		ops[i].arg = (void *)(uintptr_t)i;
		origin[i] = (struct sp_origin){.ops = &ops[i]};
		is_barred[i] = false;
	}
	items = under_way = 0;
	wait_until_ns = 0;
	is_alone = is_silent = false;
	memset(put, 0, sizeof(put));
	memset(sent, 0, sizeof(sent));
	memset(lost, 0, sizeof(lost));
	limit = 40;
	push = sp_push_new(&ops[0], &env, &limits);
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
				limit = roll(41);
				break;
			case 2:
				is_silent = roll(3) == 0;
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
			for (struct item *o; (o = oldest()) != NULL;)
				settle(o, lost, o->end);
			CHECK(sp_push_queued(push) == 0);
			compare();
		} else {
			/* Nothing may touch it any more, so it stays where it is. */
			sp_push_count_unsent(push);
			CHECK(core.counter[SP_COUNT_SAMPLES_UNSENT] == put[0] - sent[0]);
			CHECK(core.counter[SP_COUNT_WAITS_UNSENT] == put[1] - sent[1]);
		}
		sp_push_free(push);
		core.log[0] = '\0';
	}
}
