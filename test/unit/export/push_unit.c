/* SPDX-License-Identifier: Apache-2.0 */
#include "push_unit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/compiler.h"

struct push_unit u = {.now = 5000 * SP_NS_PER_S, .interval_ms = 30000, .types = 1};

static void pass(uint64_t ns)
{
	uint32_t ms = (uint32_t)(ns / SP_NS_PER_MS);

	u.now += ns;
	core.flush_left -= core.flush_left < ms ? core.flush_left : ms;
}

/* An empty push. */
static uint8_t nothing[] = "0";
static const struct sp_message empty = {.body = {nothing, 1}};

static void start(void *arg, unsigned slot, const struct sp_message *message, uint32_t timeout_ms)
{
	struct transfer *t = &u.transfer[slot];

	(void)arg;
	cr_assert_lt(slot, SP_TRANSFERS);
	cr_assert_null(t->body, "two transfers in a slot");
	cr_assert_lt(u.posts, sizeof(u.sent) - 1);
	t->message = message != NULL ? *message : empty;
	t->body = t->message.body.data;
	t->name = (char)t->body[0];
	t->number = u.posts;
	t->begun = u.now;
	u.sent[u.posts++] = t->name;
	u.timeout_seen = timeout_ms;
	u.under_way++;
	if (u.under_way > u.most_under_way)
		u.most_under_way = u.under_way;
}

static void end(struct transfer *t)
{
	cr_assert_eq(t->body[0], t->name, "its memory was given away");
	t->body = NULL;
	u.under_way--;
}

static bool poll(void *arg, unsigned *slot, struct sp_reply *reply)
{
	struct transfer *t;

	(void)arg;
	cr_assert_neq(u.under_way, 0);
	if (u.hangs)
		return false;
	for (*slot = 0; *slot < SP_TRANSFERS; ++*slot)
		if (u.transfer[*slot].body != NULL &&
		    u.now >= u.transfer[*slot].begun + u.answer_ns)
			break;
	if (*slot == SP_TRANSFERS)
		return false;
	t = &u.transfer[*slot];
	if (u.server != NULL) {
		u.server(&t->message, reply);
	} else {
		cr_assert_gt(u.answers, 0);
		*reply = u.answer[t->number < u.answers ? t->number : u.answers - 1];
	}
	end(t);
	pass(u.post_takes_ns);
	return true;
}

static void stop(void *arg, unsigned slot, struct sp_reply *reply)
{
	(void)arg;
	cr_assert_not_null(u.transfer[slot].body);
	memset(reply, 0, sizeof(*reply));
	reply->kind = SP_REPLY_ABORTED;
	reply->sent = u.all_sent;
	end(&u.transfer[slot]);
}

static int join(void *arg, const struct sp_message *const part[], uint32_t n, struct sp_bytes *out)
{
	(void)arg;
	if (n > u.most_joined)
		u.most_joined = n;
	out->data = malloc(n * sizeof(u.sent));
	out->len = 0;
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_lt(part[i]->body.len, sizeof(u.sent));
		memcpy(out->data + out->len, part[i]->body.data, part[i]->body.len);
		out->len += part[i]->body.len;
	}
	return 0;
}

/* Records first to end - 1 of a profile of that name. */
static struct sp_message message(char name, uint32_t first, uint32_t end)
{
	uint32_t records = end - first;
	struct sp_message m = {.first = first, .end = end, .samples = records, .plain = u.plain};

	m.body = (struct sp_bytes){malloc(records + 1), records + 1};
	memset(m.body.data, name, m.body.len);
	return m;
}

static int cut(void *arg, struct sp_origin *origin, const struct sp_message *of,
	       const struct sp_part *part, struct sp_message *out)
{
	uint32_t n = part->end - part->first;

	(void)arg;
	(void)origin;
	if (u.no_memory)
		return -ENOMEM;
	u.cuts++;
	*out = message((char)of->body.data[0], part->first,
		       part->first + (n < part->most ? n : part->most));
	return 0;
}

static uint64_t get_now(void *arg)
{
	(void)arg;
	return u.now;
}

static uint64_t roll(void *arg)
{
	(void)arg;
	u.dice += u.dice_step;
	return u.dice;
}

void push_answer(struct sp_reply *reply, int code, const char *words)
{
	reply->kind = SP_REPLY_STATUS;
	reply->status = code;
	reply->text_len = (size_t)snprintf(reply->text, sizeof(reply->text), "%s", words);
}

void push_status(int code)
{
	char words[32];

	(void)snprintf(words, sizeof(words), "no\nbecause %d", code);
	push_answer(&u.answer[u.answers++], code, words);
}

void push_unreachable(void)
{
	u.answer[u.answers].kind = SP_REPLY_UNREACHABLE;
	u.answer[u.answers].text_len = (size_t)snprintf(u.answer[u.answers].text, 100, "refused");
	u.answers++;
}

void push_no_answer(bool all_sent)
{
	push_unreachable();
	u.answer[u.answers - 1].sent = all_sent;
}

void push_start(uint32_t capacity, uint32_t max_tries)
{
	const struct sp_push_env env = {.start = start,
					.poll = poll,
					.stop = stop,
					.join = u.joins ? join : NULL,
					.cut = cut,
					.now_ns = get_now,
					.random = roll};
	const struct sp_push_limits limits = {
		.capacity = capacity,
		.types = u.types,
		.max_tries = max_tries,
		.timeout_ms = 10000,
		.interval_ms = u.interval_ms,
		.lasts_ms = u.interval_ms * capacity,
	};

	core_reset();
	u.origin.ops = &core.ops;
	u.push = sp_push_new(&core.ops, &env, 1, &limits);
	cr_assert_not_null(u.push);
}

void push_flush(bool is_awaited, uint32_t ms)
{
	core.flush_left = ms;
	core.pending = true;
	sp_push_flush(u.push, is_awaited);
	for (;;) {
		uint32_t due;

		sp_push_run(u.push);
		if (sp_push_flushed(u.push))
			return;
		due = sp_push_due_ms(u.push);
		/* An answer comes before the queue would check for it. */
		if (u.under_way != 0 && !u.hangs && due > 10)
			due = 10;
		pass((uint64_t)(due != 0 ? due : 1) * SP_NS_PER_MS);
	}
}

void push_finish(void)
{
	sp_push_free(u.push);
}

void push_put(char name, uint64_t samples)
{
	struct sp_message m = message(name, 0, 1);

	m.samples = samples;
	sp_push_put(u.push, &u.origin, &m, u.now);
}

void push_put_of(unsigned process, char name, uint64_t samples)
{
	struct sp_message m = message(name, 0, 1);

	m.samples = samples;
	u.other[process].ops = &core.ops;
	sp_push_put(u.push, &u.other[process], &m, u.now);
}

void push_put_records(char name, uint32_t records)
{
	struct sp_message m = message(name, 0, records);

	sp_push_put(u.push, &u.origin, &m, u.now);
}

void push_put_type(enum sp_profile_type type)
{
	struct sp_message m = message((char)('a' + (int)type), 0, 1);

	m.type = type;
	sp_push_put(u.push, &u.origin, &m, u.now);
}

void push_put_type_of(unsigned process, enum sp_profile_type type)
{
	struct sp_message m = message((char)('a' + (int)type), 0, 1);

	m.type = type;
	u.other[process].ops = &core.ops;
	sp_push_put(u.push, &u.other[process], &m, u.now);
}

void push_put_until(char name, int64_t until_ns)
{
	struct sp_message m = message(name, 0, 1);

	m.until_ns = until_ns;
	sp_push_put(u.push, &u.origin, &m, u.now);
}

/* The server takes profiles for an hour after their begin; the exporter gives up a minute earlier. */
void push_put_aged(char name, uint64_t age_s)
{
	struct sp_message m = message(name, 0, 1);

	m.samples = 4;
	sp_push_put(u.push, &u.origin, &m, u.now - age_s * SP_NS_PER_S);
}

void push_tell(void)
{
	sp_losses_log(&u.origin.losses, &core.ops);
}

unsigned push_lines_with(const char *part)
{
	unsigned n = 0;

	for (const char *at = core.log; (at = strstr(at, part)) != NULL; at += strlen(part))
		n++;
	return n;
}
