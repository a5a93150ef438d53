/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outbox. Retries 429, 5xx and unreachable servers with full-jitter backoff; gives up on what
 * is refused, too old for the server, or tried too often; counts every loss. Context: BG. Caller:
 * upload.c.
 */
#include "export/push.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/say.h"

#define SP_PUSH_BASE_MS UINT64_C(1000)
#define SP_PUSH_CAP_MS UINT64_C(30000)
#define SP_PUSH_RETRY_AFTER_MAX_MS UINT64_C(300000)
/* The server refuses profiles that began more than an hour ago; a minute is for the way there. */
#define SP_PUSH_MAX_AGE_NS (UINT64_C(3540) * SP_NS_PER_S)
#define SP_PUSH_TEXT 300
/* The server refuses what began more than an hour ago by its clock. */
#define SP_PUSH_SKEW_MAX_MS INT64_C(3600000)
#define SP_PUSH_KINDS 8U

struct batch {
	struct sp_message message;
	uint64_t samples;
	uint64_t born_ns; /* the begin of the profile; may be before the machine's, and wrap */
	uint32_t tries;
};

struct sp_push {
	const struct sp_core_ops *ops;
	struct sp_push_env env;
	struct sp_push_limits limits;
	struct batch *ring;
	uint32_t first;
	uint32_t n;
	uint64_t not_before_ns;
	uint32_t failures; /* since the last success */
	bool flushing;     /* there is no later */
	bool said_skew;
	/* One per kind of trouble, so that one kind does not silence another. */
	struct sp_say_site said_full, said_old, said_unreachable;
	struct {
		int status;
		struct sp_say_site site;
	} said[SP_PUSH_KINDS];
	/* Refusals of the kinds that were told; more kinds than that share a site. */
	uint64_t refusal[SP_PUSH_KINDS];
	struct sp_say_site said_refused;
	struct sp_push_news news;
};

static uint64_t now(const struct sp_push *p)
{
	return p->env.now_ns(p->env.now_arg);
}

static struct batch *head(const struct sp_push *p)
{
	return &p->ring[p->first];
}

static void pop(struct sp_push *p)
{
	sp_message_fini(&head(p)->message);
	p->first = (p->first + 1) % p->limits.capacity;
	p->n--;
}

static void lose_head(struct sp_push *p, enum sp_counter why)
{
	p->ops->counter_add(why, 1);
	p->ops->counter_add(SP_COUNT_SAMPLES_UNSENT, head(p)->samples);
	pop(p);
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
	if (p->limits.capacity == 0)
		p->limits.capacity = 1;
	p->ring = calloc(p->limits.capacity, sizeof(*p->ring));
	if (p->ring == NULL) {
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
		pop(p);
	free(p->ring);
	free(p);
}

void sp_push_put(struct sp_push *p, const struct sp_message *message, uint64_t samples)
{
	if (p->n == p->limits.capacity) {
		lose_head(p, SP_COUNT_BATCH_QUEUE_FULL);
		sp_say_limited(p->ops, &p->said_full, now(p),
			       "upload queue full (%u batches), the oldest was dropped",
			       p->limits.capacity);
	}
	p->ring[(p->first + p->n) % p->limits.capacity] = (struct batch){
		.message = *message, .samples = samples, .born_ns = now(p) - message->age_ns};
	p->n++;
}

static bool worth_retrying(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_UNREACHABLE || r->status == 429 || r->status >= 500;
}

/* "429: message", or the reason why there was no answer. */
static void describe(const struct sp_reply *r, char *out, size_t cap)
{
	char text[SP_PUSH_TEXT];

	sp_say_clean(text, sizeof(text), r->text, r->text_len);
	if (r->kind == SP_REPLY_STATUS)
		(void)snprintf(out, cap, "status %d%s%s", r->status, text[0] != '\0' ? ": " : "",
			       text);
	else
		(void)snprintf(out, cap, "%s", text);
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

/* The status and the words of the server's message; numbers in it differ from one to the next. */
static uint64_t kind_of(const char *error)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t status = strlen("status 400"); *error != '\0'; error++) {
		if (status == 0 && *error >= '0' && *error <= '9')
			continue;
		hash = (hash ^ (unsigned char)*error) * UINT64_C(0x100000001b3);
		status -= status != 0;
	}
	return hash | 1;
}

/* A refusal is told once: how many there are is in the counters, which are told at each upload. */
static void refused(struct sp_push *p)
{
	static const char lost[] =
		"the server refused a batch of %" PRIu64 " samples, it is lost (told once): %s";
	uint64_t kind = kind_of(p->news.last_error);
	unsigned i = 0;

	while (i < SP_PUSH_KINDS && p->refusal[i] != 0 && p->refusal[i] != kind)
		i++;
	if (i == SP_PUSH_KINDS)
		sp_say_limited(p->ops, &p->said_refused, now(p), lost, head(p)->samples,
			       p->news.last_error);
	else if (p->refusal[i] == 0)
		sp_say(p->ops, SP_LOG_WARN, lost, head(p)->samples, p->news.last_error);
	if (i < SP_PUSH_KINDS)
		p->refusal[i] = kind;
	lose_head(p, SP_COUNT_BATCH_REJECTED);
}

/* Never getting an answer counts as too old, an answer that stayed bad as rejected. */
static void tried_too_often(struct sp_push *p, const struct sp_reply *r)
{
	sp_say_limited(p->ops, site_of(p, r), now(p),
		       "gave up on a batch of %" PRIu64 " samples after %u tries: %s",
		       head(p)->samples, head(p)->tries, p->news.last_error);
	lose_head(p, r->kind == SP_REPLY_STATUS ? SP_COUNT_BATCH_REJECTED : SP_COUNT_BATCH_TOO_OLD);
}

static void retry_later(struct sp_push *p, const struct sp_reply *r)
{
	sp_say_limited(p->ops, site_of(p, r), now(p), "upload failed%s: %s",
		       p->flushing ? "" : ", will try again", p->news.last_error);
	back_off(p, r);
}

static bool succeeded(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status >= 200 && r->status < 300;
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
	if (succeeded(r)) {
		p->news.last_success_ms = r->answered_ms;
		p->failures = 0;
	} else {
		describe(r, p->news.last_error, sizeof(p->news.last_error));
		p->failures++;
	}
	if (r->has_skew)
		take_skew(p, r->skew_ms);
}

/* Sends the oldest. True when the next one may follow at once. */
static bool send_head(struct sp_push *p, uint32_t timeout_ms)
{
	struct sp_reply reply = {.kind = SP_REPLY_UNREACHABLE};

	if (head(p)->tries != 0)
		p->ops->counter_add(SP_COUNT_PUSH_RETRIED, 1);
	p->env.post(p->env.post_arg, &head(p)->message, timeout_ms, &reply);
	if (reply.kind == SP_REPLY_ABORTED)
		return false;
	head(p)->tries++;
	take_news(p, &reply);
	if (succeeded(&reply)) {
		p->ops->counter_add(SP_COUNT_UPLOADS, 1);
		pop(p);
		return true;
	}
	if (!worth_retrying(&reply)) {
		refused(p);
		return true;
	}
	if (p->limits.max_tries != 0 && head(p)->tries >= p->limits.max_tries)
		tried_too_often(p, &reply);
	else
		retry_later(p, &reply);
	return false;
}

static void drop_old(struct sp_push *p)
{
	while (p->n != 0 && now(p) - head(p)->born_ns > SP_PUSH_MAX_AGE_NS) {
		sp_say_limited(p->ops, &p->said_old, now(p),
			       "dropped a batch that could not be sent within an hour");
		lose_head(p, SP_COUNT_BATCH_TOO_OLD);
	}
}

void sp_push_run(struct sp_push *p)
{
	bool more = true;

	drop_old(p);
	while (more && p->n != 0 && now(p) >= p->not_before_ns && !p->ops->flush_pending()) {
		more = send_head(p, p->limits.timeout_ms);
		drop_old(p);
	}
}

void sp_push_abandon(struct sp_push *p)
{
	uint32_t lost = p->n;

	while (p->n != 0)
		lose_head(p, SP_COUNT_BATCH_UNSENT);
	if (lost != 0)
		sp_say(p->ops, SP_LOG_WARN, "%u batches could not be sent before the process ended",
		       lost);
}

void sp_push_flush(struct sp_push *p)
{
	drop_old(p);
	p->flushing = true;
	for (uint32_t left, tries = p->n; tries != 0 && p->n != 0; tries--) {
		left = p->ops->flush_left_ms();
		if (left == 0)
			break;
		/* A server that failed once will hardly do better within this second. */
		if (!send_head(p, left < p->limits.timeout_ms ? left : p->limits.timeout_ms))
			break;
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
