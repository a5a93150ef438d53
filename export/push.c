/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outbox. Retries 429, 5xx and unreachable servers with full-jitter backoff; halves what is too
 * large; gives up on what is refused, too old for the server, or tried too often; counts every loss.
 * Context: BG. Caller: upload.c.
 */
#include "export/push.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/say.h"

#define SP_PUSH_BASE_MS UINT64_C(1000)
#define SP_PUSH_CAP_MS UINT64_C(30000)
#define SP_PUSH_RETRY_AFTER_MAX_MS UINT64_C(300000)
/* The server refuses profiles that began more than an hour ago; a minute is for the way there. */
#define SP_PUSH_MAX_AGE_NS (UINT64_C(3540) * SP_NS_PER_S)
/* The server refuses what began more than an hour ago by its clock. */
#define SP_PUSH_SKEW_MAX_MS INT64_C(3600000)
#define SP_PUSH_KINDS 8U
/* A profile has 16,000 records at most: 14 halvings leave one, and what is left of each. */
#define SP_PUSH_PIECES 16U
#define SP_PUSH_ROUND 32U /* requests, then the caller has its turn */
/*
 * A profile that is halved costs as many refusals as there are pieces in the end, and a server that
 * takes none of them would cost twice as many requests as there are records. So each halving takes
 * one, each piece that passed gives two, and each new profile what it takes to come down to one record.
 */
#define SP_PUSH_HALVINGS 64U
#define SP_PUSH_HALVINGS_PROFILE 16U
/* At the end of the process there is no later: so many refusals for lack of room on top of one each. */
#define SP_PUSH_FLUSH_LIMITED 8U

struct piece {
	struct sp_message message;
	uint64_t samples;
};

/* A profile, or what is left of it once it was halved: the last piece is sent next. */
struct batch {
	struct piece piece[SP_PUSH_PIECES];
	uint32_t pieces;
	uint64_t born_ns; /* the begin of the profile; may be before the machine's, and wrap */
	uint32_t tries;   /* of the last piece */
	uint32_t limited; /* how often the server had no room for it */
};

struct sp_push {
	const struct sp_core_ops *ops;
	struct sp_push_env env;
	struct sp_push_limits limits;
	struct sp_losses *losses;
	struct batch *queue; /* oldest first */
	uint32_t n;
	uint32_t halvings; /* that may still be done */
	uint64_t not_before_ns;
	uint32_t failures; /* since the last success */
	bool flushing;     /* there is no later */
	bool said_skew;
	/* One per kind of trouble, so that one kind does not silence another. */
	struct sp_say_site said_unreachable;
	struct {
		int status;
		struct sp_say_site site;
	} said[SP_PUSH_KINDS];
	struct sp_push_news news;
};

static uint64_t now(const struct sp_push *p)
{
	return p->env.now_ns(p->env.now_arg);
}

static struct piece *current(struct batch *b)
{
	return &b->piece[b->pieces - 1];
}

static void allow_halvings(struct sp_push *p, uint32_t n)
{
	p->halvings = p->halvings + n < SP_PUSH_HALVINGS ? p->halvings + n : SP_PUSH_HALVINGS;
}

/* Done with the current piece; with the last one the batch is gone, and those behind it move up. */
static void drop_piece(struct sp_push *p, struct batch *b)
{
	sp_message_fini(&current(b)->message);
	b->pieces--;
	b->tries = 0;
	if (b->pieces != 0)
		return;
	p->n--;
	memmove(b, b + 1, (size_t)(&p->queue[p->n] - b) * sizeof(*b));
}

static void lose_piece(struct sp_push *p, struct batch *b, enum sp_loss_cause cause, int status)
{
	const struct sp_loss loss = {
		.cause = cause,
		.status = status,
		.profiles = 1,
		.samples = current(b)->samples,
		/* Of the others it is not the answer that says why. */
		.words = status != 0 ? p->news.last_error : NULL,
	};

	sp_losses_add(p->losses, p->ops, &loss);
	drop_piece(p, b);
}

static void lose_oldest(struct sp_push *p, enum sp_loss_cause cause)
{
	for (uint32_t left = p->queue[0].pieces; left != 0; left--)
		lose_piece(p, &p->queue[0], cause, 0);
}

struct sp_push *sp_push_new(const struct sp_core_ops *ops, const struct sp_push_env *env,
			    const struct sp_push_limits *limits, struct sp_losses *losses)
{
	struct sp_push *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->ops = ops;
	p->env = *env;
	p->limits = *limits;
	p->losses = losses;
	if (p->limits.capacity == 0)
		p->limits.capacity = 1;
	p->queue = calloc(p->limits.capacity, sizeof(*p->queue));
	if (p->queue == NULL) {
		free(p);
		return NULL;
	}
	return p;
}

void sp_push_free(struct sp_push *p)
{
	if (p == NULL)
		return;
	while (p->n != 0)
		drop_piece(p, &p->queue[0]);
	free(p->queue);
	free(p);
}

void sp_push_put(struct sp_push *p, const struct sp_message *message, uint64_t samples)
{
	uint64_t age_ns = 0;
	struct batch *b;

	if (p->n == p->limits.capacity)
		lose_oldest(p, SP_LOSS_QUEUE_FULL);
	/* The host's clock may have been set back meanwhile. */
	if (message->until_ns > message->from_ns)
		age_ns = (uint64_t)(message->until_ns - message->from_ns);
	b = &p->queue[p->n++];
	memset(b, 0, sizeof(*b));
	b->piece[b->pieces++] = (struct piece){*message, samples};
	b->born_ns = now(p) - age_ns;
	allow_halvings(p, SP_PUSH_HALVINGS_PROFILE);
}

/* Where messages about this kind of answer are limited; the last place takes all further kinds. */
static struct sp_say_site *site_of(struct sp_push *p, const struct sp_reply *r)
{
	unsigned i = 0;

	if (r->kind != SP_REPLY_STATUS)
		return &p->said_unreachable;
	while (i < SP_PUSH_KINDS - 1 && p->said[i].status != 0 && p->said[i].status != r->status)
		i++;
	p->said[i].status = r->status;
	return &p->said[i].site;
}

/* Full jitter: anywhere between now and a bound that doubles, so that clients do not come back
 * together; never before the server said. The bound is the server's, not the batch's: when the
 * oldest has made room, the next one is not asked for any sooner. */
static void back_off(struct sp_push *p, const struct sp_reply *r)
{
	uint64_t bound_ms = SP_PUSH_BASE_MS << (p->failures < 6 ? p->failures : 6);
	uint64_t floor_ms = (uint64_t)r->retry_after_s * 1000;
	uint64_t wait_ms;

	if (bound_ms > SP_PUSH_CAP_MS)
		bound_ms = SP_PUSH_CAP_MS;
	if (floor_ms > SP_PUSH_RETRY_AFTER_MAX_MS)
		floor_ms = SP_PUSH_RETRY_AFTER_MAX_MS;
	wait_ms = p->env.random(p->env.random_arg) % (bound_ms + 1);
	if (wait_ms < floor_ms)
		wait_ms = floor_ms;
	p->not_before_ns = now(p) + wait_ms * SP_NS_PER_MS;
}

static void retry_later(struct sp_push *p, const struct sp_reply *r)
{
	sp_say_limited(p->ops, site_of(p, r), now(p), "upload failed%s: %s",
		       p->flushing ? "" : ", will try again", p->news.last_error);
	back_off(p, r);
}

static void take_skew(struct sp_push *p, int64_t skew_ms)
{
	int64_t size = skew_ms < 0 ? -skew_ms : skew_ms;

	p->news.has_skew = true;
	p->news.skew_ms = skew_ms;
	if (size <= SP_PUSH_SKEW_MAX_MS || p->said_skew)
		return;
	p->said_skew = true;
	sp_say(p->ops, SP_LOG_WARN,
	       "the server's clock is %" PRId64
	       " s %s ours: profiles are refused or lie in the wrong "
	       "place until the clocks are set",
	       size / 1000, skew_ms < 0 ? "behind" : "ahead of");
}

static void take_news(struct sp_push *p, const struct sp_reply *r)
{
	p->news.attempts++;
	p->news.last_status = r->kind == SP_REPLY_STATUS ? r->status : 0;
	p->news.last_error[0] = '\0';
	if (sp_reply_good(r)) {
		p->news.last_success_ms = r->answered_ms;
		p->failures = 0;
	} else {
		sp_reply_describe(r, p->news.last_error, sizeof(p->news.last_error));
		p->failures++;
	}
	if (r->has_skew)
		take_skew(p, r->skew_ms);
}

/* Its halves take the place of the current piece, the first one on top. False: it stays. */
static bool halve(struct sp_push *p, struct batch *b)
{
	struct piece *whole = current(b);
	struct sp_half half[2];

	if (p->halvings == 0 || b->pieces == SP_PUSH_PIECES || p->env.halve == NULL ||
	    p->env.halve(p->env.halve_arg, &whole->message, half) != 0)
		return false;
	p->halvings--;
	sp_message_fini(&whole->message);
	/* By subtraction, so that no sample is counted twice or not at all. */
	if (half[0].samples > whole->samples)
		half[0].samples = whole->samples;
	half[1].samples = whole->samples - half[0].samples;
	*whole = (struct piece){half[1].message, half[1].samples};
	b->piece[b->pieces++] = (struct piece){half[0].message, half[0].samples};
	b->tries = 0;
	return true;
}

/*
 * The server has no room now. What is larger than its budget would be told so for ever, and what is
 * not may be: so it lets all others go first, and is halved when it comes back in vain. As long as the
 * server answers so, there is but one request in each time of waiting, however many pieces there are.
 */
static void limited(struct sp_push *p, struct batch *b)
{
	b->limited++;
	if (p->flushing || b->limited % 2 == 0)
		(void)halve(p, b);
}

static void tried_too_often(struct sp_push *p, struct batch *b, const struct sp_reply *r)
{
	if (r->kind == SP_REPLY_STATUS)
		lose_piece(p, b, SP_LOSS_GIVEN_UP, r->status);
	else
		lose_piece(p, b, SP_LOSS_UNANSWERED, 0);
}

/* The oldest of those that the server had room for most often. */
static struct batch *pick(const struct sp_push *p)
{
	struct batch *best = &p->queue[0];

	for (uint32_t i = 1; i < p->n; i++)
		if (p->queue[i].limited < best->limited)
			best = &p->queue[i];
	return best;
}

enum outcome { WENT_ON, NO_ROOM, STOPPED };

static enum outcome failed(struct sp_push *p, struct batch *b, const struct sp_reply *r)
{
	if (sp_reply_too_large(r)) {
		if (!halve(p, b))
			lose_piece(p, b, SP_LOSS_REFUSED, r->status);
		return WENT_ON;
	}
	if (!sp_reply_again(r)) {
		lose_piece(p, b, SP_LOSS_REFUSED, r->status);
		return WENT_ON;
	}
	if (p->limits.max_tries != 0 && b->tries >= p->limits.max_tries) {
		tried_too_often(p, b, r);
		return STOPPED;
	}
	retry_later(p, r);
	if (sp_reply_limited(r))
		limited(p, b);
	return sp_reply_limited(r) ? NO_ROOM : STOPPED;
}

static enum outcome send_next(struct sp_push *p, uint32_t timeout_ms)
{
	struct sp_reply reply = {.kind = SP_REPLY_UNREACHABLE};
	struct batch *b = pick(p);

	if (b->tries != 0)
		p->ops->counter_add(SP_COUNT_PUSH_RETRIED, 1);
	p->env.post(p->env.post_arg, &current(b)->message, timeout_ms, &reply);
	if (reply.kind == SP_REPLY_ABORTED)
		return STOPPED;
	b->tries++;
	take_news(p, &reply);
	if (!sp_reply_good(&reply))
		return failed(p, b, &reply);
	p->ops->counter_add(SP_COUNT_UPLOADS, 1);
	allow_halvings(p, 2);
	drop_piece(p, b);
	return WENT_ON;
}

static void drop_old(struct sp_push *p)
{
	while (p->n != 0 && now(p) - p->queue[0].born_ns > SP_PUSH_MAX_AGE_NS)
		lose_oldest(p, SP_LOSS_TOO_OLD);
}

void sp_push_run(struct sp_push *p)
{
	enum outcome outcome = WENT_ON;

	drop_old(p);
	for (unsigned i = 0; i < SP_PUSH_ROUND && outcome == WENT_ON && p->n != 0 &&
			     now(p) >= p->not_before_ns && !p->ops->flush_pending();
	     i++) {
		outcome = send_next(p, p->limits.timeout_ms);
		drop_old(p);
	}
}

void sp_push_abandon(struct sp_push *p)
{
	while (p->n != 0)
		lose_oldest(p, SP_LOSS_UNSENT);
}

void sp_push_flush(struct sp_push *p)
{
	uint32_t no_room, left;
	enum outcome outcome = WENT_ON;

	drop_old(p);
	p->flushing = true;
	no_room = p->n + SP_PUSH_FLUSH_LIMITED;
	/* A server that failed once will hardly do better within this second; one that has no room for
	 * this profile may have it for the next. */
	while (outcome != STOPPED && no_room != 0 && p->n != 0) {
		left = p->ops->flush_left_ms();
		if (left == 0)
			break;
		outcome = send_next(p, left < p->limits.timeout_ms ? left : p->limits.timeout_ms);
		no_room -= outcome == NO_ROOM;
	}
	p->flushing = false;
	sp_push_abandon(p);
}

uint32_t sp_push_due_ms(const struct sp_push *p)
{
	uint64_t t = now(p);
	uint64_t ms;

	if (p->n == 0)
		return UINT32_MAX;
	if (t >= p->not_before_ns)
		return 0;
	ms = (p->not_before_ns - t + SP_NS_PER_MS - 1) / SP_NS_PER_MS;
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX - 1;
}

uint32_t sp_push_queued(const struct sp_push *p)
{
	return p->n;
}

const struct sp_push_news *sp_push_news(const struct sp_push *p)
{
	return &p->news;
}
