/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outbox. Retries what may pass later (reply.c) with full-jitter backoff; sends what is too large in parts;
 * gives up on what is refused, too old for the server, tried too often, or sent and never answered;
 * counts every loss.
 */
#include "export/push/push.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/push/backlog.h"
#include "export/push/backoff.h"
#include "export/util/log.h"

/* The server refuses profiles that began more than an hour ago; a minute is for the way there. */
#define SP_PUSH_MAX_AGE_NS (UINT64_C(3540) * SP_NS_PER_S)
#define SP_PUSH_ROUND 32U    /* requests, then the caller has its turn */
#define SP_PUSH_POLL_MS 10U  /* as often a flush looks whether it is still waited for */
#define SP_PUSH_LOOK_MS 500U /* as often what has become too old is looked for during a transfer */
/*
 * A profile of as many records as may be takes fourteen refusals to come down to one. A server that does not
 * even take that one may take the others, so this is tried twice.
 */
#define SP_PUSH_REFUSALS 32U
#define SP_PUSH_LEARNT_NS (UINT64_C(3600) * SP_NS_PER_S)
/* At the end of the process there is no later: so many refusals for lack of room on top of one each. */
#define SP_PUSH_FLUSH_LIMITED 32U
/* A flush waits for that part of its time at most from one failure to the next try, but never less than: */
#define SP_PUSH_FLUSH_TRIES 4U
#define SP_PUSH_FLUSH_WAIT_MS 500U

struct sp_push {
	const struct sp_core_ops *ops;
	struct sp_push_env env;
	struct sp_push_limits limits;
	struct sp_backlog backlog;
	uint32_t wanted; /* places in the backlog */
	uint32_t most;   /* records of a profile */
	int learnt_status;
	uint64_t learnt_ns; /* when that was learnt from the server; 0 = it was not */
	struct sp_backoff backoff;
	uint32_t width;    /* so many go side by side */
	uint64_t taken_ns; /* when the server took the last one; 0 = it took none */
	bool flushing;     /* there is little time */
	bool released;     /* there is one after all */
	struct sp_push_news news;
	struct sp_reply reply; /* too large for a stack */
};

static uint64_t now(const struct sp_push *p)
{
	return p->env.now_ns(p->env.now_arg);
}

/* As many as a server takes by default, or, for an hour, as it took after it had found a profile too large. */
static uint32_t most_records(struct sp_push *p)
{
	if (p->learnt_ns != 0 && now(p) - p->learnt_ns > SP_PUSH_LEARNT_NS) {
		p->most = SP_ENCODE_SAMPLES;
		p->learnt_ns = 0;
	}
	return p->most;
}

static bool is_of_waits(const struct sp_queued_profile *b)
{
	return b->message.type != SP_PROFILE_CPU;
}

/* The last part takes all that is left, so that no sample is counted twice or not at all. */
static uint64_t samples_of_message(const struct sp_queued_profile *b)
{
	return b->message.end < b->end && b->message.samples < b->samples ? b->message.samples
									  : b->samples;
}

/* Of b, which stays. */
static void count_loss(struct sp_push *p, struct sp_queued_profile *b, uint64_t samples,
		       enum sp_loss_cause cause, int status)
{
	const struct sp_loss loss = {
		.cause = cause,
		.status = status,
		.profiles = 1,
		.samples = is_of_waits(b) ? 0 : samples,
		.waits = is_of_waits(b) ? samples : 0,
		/* Of the others it is not the answer that says why. */
		.words = status != 0 && status == p->news.last_status ? p->news.last_error : NULL,
	};

	sp_losses_add(&b->origin->losses, b->origin->ops, &loss);
}

/* All that is left of it. */
static void lose_profile(struct sp_push *p, struct sp_queued_profile *b, enum sp_loss_cause cause,
			 int status)
{
	count_loss(p, b, b->samples, cause, status);
	sp_backlog_drop(&p->backlog, b);
}

/* Its next message has at most so many records from there on. False: that cannot be, and nothing has changed. */
static bool encode(struct sp_push *p, struct sp_queued_profile *b, uint32_t first, uint32_t most)
{
	const struct sp_part part = {first, b->end, most};
	struct sp_message message;

	if (p->env.encode == NULL ||
	    p->env.encode(p->env.encode_arg, b->origin, &b->message, &part, &message) != 0)
		return false;
	sp_backlog_replace(b, &message);
	b->most = most;
	return true;
}

/* Done with its message, whose samples are counted. What it was encoded from may be gone meanwhile. */
static void go_on_with(struct sp_push *p, struct sp_queued_profile *b)
{
	b->samples -= samples_of_message(b);
	if (b->message.end >= b->end)
		sp_backlog_drop(&p->backlog, b);
	else if (!encode(p, b, b->message.end, b->most))
		lose_profile(p, b, SP_LOSS_REFUSED, b->status);
}

static void lose_message(struct sp_push *p, struct sp_queued_profile *b, enum sp_loss_cause cause,
			 int status)
{
	count_loss(p, b, samples_of_message(b), cause, status);
	go_on_with(p, b);
}

struct sp_push *sp_push_new(const struct sp_core_ops *ops, const struct sp_push_env *env,
			    const struct sp_push_limits *limits)
{
	struct sp_push *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->ops = ops;
	p->env = *env;
	p->limits = *limits;
	p->wanted = limits->capacity;
	p->most = SP_ENCODE_SAMPLES;
	p->width = 1;
	if (sp_backlog_limit(&p->backlog, limits->capacity) != 0) {
		free(p);
		return NULL;
	}
	return p;
}

void sp_push_free(struct sp_push *p)
{
	if (p == NULL)
		return;
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++)
		if (sp_backlog_in(&p->backlog, slot) != NULL)
			p->env.stop(p->env.transport_arg, slot, &p->reply);
	sp_backlog_fini(&p->backlog);
	free(p);
}

void sp_push_serve(struct sp_push *p, const struct sp_core_ops *ops, uint32_t living,
		   uint32_t ended)
{
	p->ops = ops;
	p->wanted = p->limits.capacity * living + ended;
}

/*
 * One of its kind has waited for half an interval when the next one comes, and the server takes what is sent:
 * one that hangs would cost every profile that goes to it.
 */
static bool falls_behind(const struct sp_push *p, const struct sp_origin *origin,
			 enum sp_profile_type type)
{
	uint64_t half_ns = p->limits.interval_ms * SP_NS_PER_MS / 2;
	bool takes = p->taken_ns != 0 && now(p) - p->taken_ns <= 2 * half_ns;

	return takes && p->backoff.failures == 0 && p->width < SP_TRANSFERS && now(p) > half_ns &&
	       sp_backlog_waits(&p->backlog, origin, type, now(p) - half_ns);
}

void sp_push_put(struct sp_push *p, struct sp_origin *origin, const struct sp_message *message,
		 uint64_t born_ns)
{
	(void)sp_backlog_limit(&p->backlog, p->wanted);
	while (sp_backlog_full(&p->backlog))
		lose_profile(p, sp_backlog_oldest(&p->backlog), SP_LOSS_QUEUE_FULL, 0);
	if (falls_behind(p, origin, message->type))
		p->width++;
	sp_backlog_put(&p->backlog, origin, message, born_ns, now(p));
}

/*
 * When the next try has to be: while the queue still has places for what comes until then, or else as often
 * as there are new profiles, which a server that is back takes without notice. At the end there is but the
 * time that is left, and a few tries fit into it.
 */
static uint64_t longest_wait_ms(const struct sp_push *p)
{
	const struct sp_backlog *q = &p->backlog;
	uint32_t waiting = q->n - q->under_way;
	uint32_t places = q->capacity > waiting ? q->capacity - waiting : 0;
	uint64_t ms;

	if (p->flushing) {
		ms = p->ops->flush_left_ms(p->ops->arg) / SP_PUSH_FLUSH_TRIES;
		return ms > SP_PUSH_FLUSH_WAIT_MS ? ms : SP_PUSH_FLUSH_WAIT_MS;
	}
	ms = p->limits.lasts_ms * places / q->capacity;
	return ms > p->limits.interval_ms ? ms : p->limits.interval_ms;
}

static void retry_later(struct sp_push *p, const struct sp_reply *r)
{
	sp_push_news_warn(&p->news, p->ops, r, now(p), !sp_reply_unknown(r));
	sp_backoff_wait(&p->backoff, r->retry_after_s, longest_wait_ms(p), now(p),
			p->env.random(p->env.random_arg));
}

static uint32_t records_of(const struct sp_message *m)
{
	return m->end - m->first;
}

/* Half of what its message is. False: it is a single record, or cannot be encoded again. */
static bool halve(struct sp_push *p, struct sp_queued_profile *b)
{
	return records_of(&b->message) > 1 &&
	       encode(p, b, b->message.first, records_of(&b->message) / 2);
}

/*
 * Where a single record is too large, it is no matter of how many there are, and the others may pass together.
 * A server that takes nothing of a profile at all is not asked for each record of it.
 */
static void too_large(struct sp_push *p, struct sp_queued_profile *b, int status)
{
	bool is_single = records_of(&b->message) <= 1;

	b->was_too_large = true;
	b->status = status;
	if (++b->refusals < SP_PUSH_REFUSALS && halve(p, b))
		return;
	if (b->refusals >= SP_PUSH_REFUSALS || !is_single) {
		lose_profile(p, b, SP_LOSS_REFUSED, status);
		return;
	}
	b->most = most_records(p);
	b->was_too_large = false;
	lose_message(p, b, SP_LOSS_REFUSED, status);
}

/*
 * The server has no room now. What is larger than its budget would be told so for ever, and what is
 * not may be: so it lets all others go first, and is halved when it comes back in vain. As long as the
 * server answers so, there is but one request in each time of waiting, however many parts there are.
 */
static void limited(struct sp_push *p, struct sp_queued_profile *b)
{
	b->limited++;
	b->status = p->reply.status;
	if (p->flushing || b->limited % 2 == 0)
		(void)halve(p, b);
}

enum outcome { UNDER_WAY, WENT_ON, NO_ROOM, STOPPED };

static enum outcome failed(struct sp_push *p, struct sp_queued_profile *b, const struct sp_reply *r)
{
	if (sp_reply_unknown(r)) {
		retry_later(p, r);
		lose_message(p, b, SP_LOSS_UNKNOWN, 0);
		return STOPPED;
	}
	if (sp_reply_too_large(r)) {
		too_large(p, b, r->status);
		return WENT_ON;
	}
	if (!sp_reply_again(r)) {
		lose_message(p, b, SP_LOSS_REFUSED, r->status);
		return WENT_ON;
	}
	if (p->limits.max_tries != 0 && b->tries >= p->limits.max_tries) {
		lose_message(p, b, r->status != 0 ? SP_LOSS_GIVEN_UP : SP_LOSS_UNANSWERED,
			     r->status);
		return STOPPED;
	}
	retry_later(p, r);
	if (sp_reply_limited(r))
		limited(p, b);
	return sp_reply_limited(r) ? NO_ROOM : STOPPED;
}

/* Of a server that failed last one at a time, until it has taken one; at the end one of each process. */
static uint32_t room(const struct sp_push *p)
{
	if (p->backoff.failures != 0)
		return 1;
	return p->flushing ? SP_TRANSFERS : p->width;
}

static bool is_too_old(const struct sp_push *p, const struct sp_queued_profile *b)
{
	return now(p) - b->born_ns > SP_PUSH_MAX_AGE_NS;
}

/* All that may be. */
static void begin(struct sp_push *p)
{
	struct sp_queued_profile *b;

	while (p->backlog.under_way < room(p) &&
	       (b = sp_backlog_next(&p->backlog, p->flushing)) != NULL) {
		if (is_too_old(p, b)) {
			lose_profile(p, b, SP_LOSS_TOO_OLD, 0);
			continue;
		}
		/* What names secrets and certificates was said by a process that had as many rights as we. */
		if (!b->origin->ops->may_open(b->origin->ops->arg)) {
			lose_profile(p, b, SP_LOSS_UNSENT, 0);
			continue;
		}
		/* Others of its size were too large meanwhile: no need to be told so again. */
		if (records_of(&b->message) > most_records(p) &&
		    encode(p, b, b->message.first, p->most))
			b->status = p->learnt_status;
		if (b->tries != 0)
			b->origin->ops->counter_add(b->origin->ops->arg, SP_COUNT_PUSH_RETRIED, 1);
		b->era = p->backoff.era;
		b->begun_ns = now(p);
		sp_backlog_begin(&p->backlog, b);
		p->env.start(p->env.transport_arg, b->slot, &b->message, p->limits.timeout_ms);
	}
}

/* What became of the transfer in that slot is in p->reply. */
static enum outcome ended(struct sp_push *p, unsigned slot)
{
	struct sp_queued_profile *b = sp_backlog_in(&p->backlog, slot);
	const struct sp_core_ops *ops = b->origin->ops;

	sp_backlog_end(&p->backlog, b);
	/* We have stopped it before the server could have all of it. */
	if (p->reply.kind == SP_REPLY_ABORTED && !sp_reply_unknown(&p->reply))
		return STOPPED;
	b->tries++;
	sp_push_news_take(&p->news, p->ops, &p->reply);
	sp_push_news_tell(p->ops, &p->reply,
			  &(struct sp_push_try){.pid = ops->pid,
						.type = b->message.type,
						.bytes = b->message.body.len,
						.samples = samples_of_message(b),
						.ns = now(p) - b->begun_ns});
	sp_backoff_note(&p->backoff, b->era, sp_reply_good(&p->reply));
	if (!sp_reply_good(&p->reply))
		return failed(p, b, &p->reply);
	p->taken_ns = now(p);
	ops->counter_add(ops->arg, SP_COUNT_UPLOADS, 1);
	ops->counter_add(ops->arg, is_of_waits(b) ? SP_COUNT_WAITS_SENT : SP_COUNT_SAMPLES_SENT,
			 samples_of_message(b));
	if (b->was_too_large && b->most < most_records(p)) {
		p->most = b->most;
		p->learnt_status = b->status;
		p->learnt_ns = now(p);
	} else if (b->limited != 0 && b->most <= most_records(p) / 2) {
		/* The server has room again, perhaps for more. */
		b->most *= 2;
	}
	b->was_too_large = false;
	b->refusals = 0;
	go_on_with(p, b);
	return WENT_ON;
}

static enum outcome proceed(struct sp_push *p, uint32_t wait_ms)
{
	unsigned slot;

	if (!p->env.poll(p->env.transport_arg, wait_ms, &slot, &p->reply))
		return UNDER_WAY;
	return ended(p, slot);
}

static void drop_old(struct sp_push *p)
{
	struct sp_queued_profile *b;

	while ((b = sp_backlog_oldest(&p->backlog)) != NULL && is_too_old(p, b))
		lose_profile(p, b, SP_LOSS_TOO_OLD, 0);
}

void sp_push_run(struct sp_push *p)
{
	enum outcome outcome = WENT_ON;

	drop_old(p);
	if (p->backlog.n == 0)
		p->width = 1;
	if (p->env.rest != NULL && !sp_push_under_way(p))
		p->env.rest(p->env.transport_arg, now(p));
	/* Whoever was told last of what concerns all may be gone by then. */
	if (p->backlog.n == 0)
		return;
	for (unsigned i = 0; i < SP_PUSH_ROUND && outcome == WENT_ON; i++) {
		if (sp_backoff_over(&p->backoff, now(p)) && !p->ops->flush_pending(p->ops->arg))
			begin(p);
		if (!sp_push_under_way(p))
			return;
		outcome = proceed(p, 0);
		drop_old(p);
	}
}

static void lose_waiting(struct sp_push *p)
{
	struct sp_queued_profile *b;

	while ((b = sp_backlog_oldest(&p->backlog)) != NULL)
		lose_profile(p, b, SP_LOSS_UNSENT, 0);
}

static void stop_all(struct sp_push *p)
{
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++) {
		if (sp_backlog_in(&p->backlog, slot) == NULL)
			continue;
		p->env.stop(p->env.transport_arg, slot, &p->reply);
		(void)ended(p, slot);
	}
}

void sp_push_abandon(struct sp_push *p)
{
	stop_all(p);
	lose_waiting(p);
}

/* False when no time is left but that which is kept, or nobody needs to wait. */
static bool wait_for_one(struct sp_push *p, uint32_t keep_ms, enum outcome *outcome)
{
	while ((*outcome = proceed(p, SP_PUSH_POLL_MS)) == UNDER_WAY) {
		p->released = !p->env.idle(p->env.idle_arg, 0);
		if (p->released || p->ops->flush_left_ms(p->ops->arg) <= keep_ms)
			return false;
	}
	return true;
}

/* A flush has newer profiles to send as well, and the host waits. */
static void finish_begun(struct sp_push *p)
{
	uint32_t keep_ms =
		p->backlog.n > p->backlog.under_way ? p->ops->flush_left_ms(p->ops->arg) / 2 : 0;
	enum outcome outcome;

	while (sp_push_under_way(p) && wait_for_one(p, keep_ms, &outcome))
		;
	if (keep_ms != 0 && !p->released)
		stop_all(p);
}

static void tell_unfinished(struct sp_push *p)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < p->backlog.n; i++)
		samples += p->backlog.profile[i].samples;
	if (p->backlog.n != 0)
		sp_export_log(p->ops, SP_LOG_WARN,
			      "the process ends before the server has taken the last %s (samples: "
			      "%" PRIu64 ")",
			      p->backlog.n == 1 ? "profile" : "profiles", samples);
}

/* Until the next try. False when no time is left for one, or nobody needs to wait. */
static bool wait_for_turn(struct sp_push *p)
{
	while (!sp_backoff_over(&p->backoff, now(p))) {
		uint64_t ns = p->backoff.until_ns - now(p);

		if (ns >= p->ops->flush_left_ms(p->ops->arg) * SP_NS_PER_MS)
			return false;
		p->released = !p->env.idle(
			p->env.idle_arg, ns / SP_NS_PER_MS < SP_PUSH_POLL_MS ? 1 : SP_PUSH_POLL_MS);
		if (p->released)
			return false;
	}
	return true;
}

void sp_push_flush(struct sp_push *p, bool is_awaited)
{
	bool waits = false;
	enum outcome outcome;
	uint32_t no_room;

	drop_old(p);
	p->flushing = true;
	p->released = false;
	finish_begun(p);
	p->backoff.until_ns = now(p);
	no_room = p->backlog.n + SP_PUSH_FLUSH_LIMITED;
	while (!p->released && p->backlog.n != 0 && p->ops->flush_left_ms(p->ops->arg) != 0) {
		if (!waits || (!sp_push_under_way(p) && wait_for_turn(p))) {
			begin(p);
			waits = false;
		}
		if (!sp_push_under_way(p) || !wait_for_one(p, 0, &outcome))
			break;
		if (outcome == STOPPED && is_awaited && !sp_reply_soon(&p->reply))
			break;
		/* A server that has no room for this profile may have it for the next. */
		no_room -= outcome == NO_ROOM && no_room != 0;
		waits = waits || outcome == STOPPED || no_room == 0;
	}
	p->flushing = false;
	if (is_awaited && !p->released)
		tell_unfinished(p);
}

void sp_push_count_unsent(struct sp_push *p)
{
	for (uint32_t i = 0; i < p->backlog.n; i++)
		count_loss(p, &p->backlog.profile[i], p->backlog.profile[i].samples, SP_LOSS_UNSENT,
			   0);
}

bool sp_push_under_way(const struct sp_push *p)
{
	return p->backlog.under_way != 0;
}

uint32_t sp_push_due_ms(const struct sp_push *p)
{
	uint64_t t = now(p);
	uint64_t ms;

	if (sp_push_under_way(p))
		return SP_PUSH_LOOK_MS;
	if (p->backlog.n == 0)
		return UINT32_MAX;
	if (sp_backoff_over(&p->backoff, t))
		return 0;
	ms = (p->backoff.until_ns - t + SP_NS_PER_MS - 1) / SP_NS_PER_MS;
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX - 1;
}

uint32_t sp_push_queued(const struct sp_push *p)
{
	return p->backlog.n;
}

uint64_t sp_push_moves(const struct sp_push *p)
{
	return p->news.attempts << 32 | (uint64_t)p->backlog.n << 8 | p->backlog.under_way;
}

const struct sp_push_news *sp_push_news(const struct sp_push *p)
{
	return &p->news;
}
