/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outbox. Retries what may pass later (reply.c) with full-jitter backoff; sends what is too large in parts;
 * gives up on what is refused, too old for the server, tried too often, or sent and never answered;
 * counts every loss.
 */
#define _GNU_SOURCE
#include "export/push/push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

/*
 * When a server that failed is asked again: it waits longer with each failure, with full jitter, but no longer
 * than the caller can, and as long as the server wishes. Zero at first: nothing has failed.
 */
struct backoff {
	uint64_t until_ns; /* nothing is begun before */
	uint32_t failures; /* since the last success */
	uint64_t era;      /* how many failures there were; requests of one are side by side */
};

#define BASE_MS UINT64_C(1000)
#define CAP_MS UINT64_C(30000)
#define RETRY_AFTER_MAX_MS UINT64_C(300000)

/*
 * There is an answer, or none will come, to a request that was begun in that era. Those that were begun side by side fail side by side: that is one failure.
 */
static void backoff_note(struct backoff *b, uint64_t era, bool good)
{
	if (era != b->era)
		return;
	if (good) {
		b->failures = 0;
		return;
	}
	b->failures++;
	b->era++;
}

/*
 * Waits, at most most_ms, or as long as the server has asked for (retry_after_s); random: any number,
 * uniformly. Full jitter: anywhere between now and a bound that doubles, so that clients do not come back
 * together; never before the server said. The bound is the server's, not the profile's: when the
 * oldest has made room, the next one is not asked for any sooner.
 */
static void backoff_wait(struct backoff *b, uint32_t retry_after_s, uint64_t most_ms,
			 uint64_t now_ns, uint64_t random)
{
	uint64_t bound_ms = BASE_MS << (b->failures < 6 ? b->failures : 6);
	uint64_t floor_ms = (uint64_t)retry_after_s * 1000;
	uint64_t wait_ms;
	uint64_t until_ns;

	if (bound_ms > CAP_MS)
		bound_ms = CAP_MS;
	if (bound_ms > most_ms)
		bound_ms = most_ms;
	if (floor_ms > RETRY_AFTER_MAX_MS)
		floor_ms = RETRY_AFTER_MAX_MS;
	wait_ms = random % (bound_ms + 1);
	if (wait_ms < floor_ms)
		wait_ms = floor_ms;
	until_ns = now_ns + wait_ms * SP_NS_PER_MS;
	/* Of those that failed side by side the one counts that asked for the longest wait. */
	if (until_ns > b->until_ns)
		b->until_ns = until_ns;
}

/* Whether a request may be begun. */
static bool backoff_over(const struct backoff *b, uint64_t now_ns)
{
	return now_ns >= b->until_ns;
}

/*
 * Profiles that wait to be sent, oldest first. One that was too large is encoded again part by part, and all of
 * it has one place. Some may be under way: their memory is in use then, and nothing takes them out.
 */
struct queued {
	struct sp_origin *origin;
	struct sp_message message; /* that is sent next: all of it, or a part */
	uint32_t end;       /* of its records; those behind the message's are not encoded yet */
	uint64_t samples;   /* of the message, and of what is not encoded yet */
	uint32_t most;      /* records of its next part; 0 = as many as of any profile */
	bool was_too_large; /* so said the server, and nothing of it has passed since */
	uint32_t refusals;  /* for that, since something of it has passed */
	int status;         /* why it is sent in parts */
	uint64_t put_ns;    /* when it came */
	uint64_t born_ns;   /* the begin of the profile; may be before the machine's, and wrap */
	uint32_t tries;     /* of the message */
	uint32_t limited;   /* how often the server had no room for it */
	bool under_way;     /* the message is, in that slot of the transport's */
	unsigned slot;
	uint64_t era; /* of the backoff, when it was begun */
	uint64_t begun_ns;
};

struct backlog {
	struct queued *profile; /* oldest first */
	uint32_t n;
	uint32_t allocated;
	uint32_t capacity; /* without those that are under way */
	uint32_t under_way;
	bool is_in_use[SP_TRANSFERS]; /* slots of the transport */
};

/* How many there may be from now on. What is there already stays. 0 or -ENOMEM. */
static int backlog_limit(struct backlog *q, uint32_t capacity)
{
	uint32_t want = capacity != 0 ? capacity : 1;

	if (want + SP_TRANSFERS > q->allocated) {
		struct queued *more =
			realloc(q->profile, ((size_t)want + SP_TRANSFERS) * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		q->profile = more;
		q->allocated = want + SP_TRANSFERS;
	}
	q->capacity = want;
	return 0;
}

/* The profile is gone, and those behind it move up. */
static void backlog_drop(struct backlog *q, struct queued *b)
{
	sp_message_fini(&b->message);
	b->origin->queued--;
	q->n--;
	memmove(b, b + 1, (size_t)(&q->profile[q->n] - b) * sizeof(*b));
}

/* Frees what is left. */
static void backlog_fini(struct backlog *q)
{
	while (q->n != 0)
		backlog_drop(q, &q->profile[0]);
	free(q->profile);
	q->profile = NULL;
}

static bool backlog_full(const struct backlog *q)
{
	return q->n - q->under_way >= q->capacity;
}

/* It must not be full. Takes over the message. */
static void backlog_put(struct backlog *q, struct sp_origin *origin,
			const struct sp_message *message, uint64_t born_ns, uint64_t now_ns)
{
	struct queued *b = &q->profile[q->n++];

	memset(b, 0, sizeof(*b));
	b->origin = origin;
	origin->queued++;
	b->message = *message;
	b->end = message->end;
	b->samples = message->samples;
	b->born_ns = born_ns;
	b->put_ns = now_ns;
}

static bool backlog_has_waiting(const struct backlog *q)
{
	return q->n != q->under_way;
}

/* Of those that wait; there has to be one. */
static struct queued *backlog_oldest(const struct backlog *q)
{
	struct queued *b = q->profile;

	while (b->under_way)
		b++;
	return b;
}

/* The oldest of those that the server had room for most often, and that are not under way. */
static struct queued *backlog_next(const struct backlog *q)
{
	struct queued *best = NULL;

	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way &&
		    (best == NULL || q->profile[i].limited < best->limited))
			best = &q->profile[i];
	return best;
}

/* One of that type and process waits, and came before then. */
static bool backlog_waits(const struct backlog *q, const struct sp_origin *origin,
			  enum sp_profile_type type, uint64_t then_ns)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way && q->profile[i].origin == origin &&
		    q->profile[i].message.type == type && q->profile[i].put_ns <= then_ns)
			return true;
	return false;
}

/* The one that is under way in that slot, which has to be in use. */
static struct queued *backlog_in(const struct backlog *q, unsigned slot)
{
	struct queued *b = q->profile;

	while (!b->under_way || b->slot != slot)
		b++;
	return b;
}

/* It is sent from now on, in a slot that is free; or no more. */
static void backlog_begin(struct backlog *q, struct queued *b)
{
	while (q->is_in_use[b->slot])
		b->slot = (b->slot + 1) % SP_TRANSFERS;
	q->is_in_use[b->slot] = true;
	b->under_way = true;
	b->origin->pushing++;
	q->under_way++;
}

static void backlog_end(struct backlog *q, struct queued *b)
{
	q->is_in_use[b->slot] = false;
	b->under_way = false;
	b->origin->pushing--;
	q->under_way--;
}

/* That message instead of the one that it has. */
static void backlog_replace(struct queued *b, const struct sp_message *message)
{
	sp_message_fini(&b->message);
	b->message = *message;
	b->tries = 0;
}

/* The server refuses what began more than an hour ago by its clock. */
#define SKEW_MAX_MS INT64_C(3600000)
/* A clock that is an hour off, by its time zone, say, seems to be a little more now, and a little less then. */
#define SKEW_RIGHT_MS (SKEW_MAX_MS / 2)

static void take_skew(struct sp_push_news *n, const struct sp_core_ops *ops, int64_t skew_ms)
{
	int64_t size = skew_ms < 0 ? -skew_ms : skew_ms;

	n->has_skew = true;
	n->skew_ms = skew_ms;
	if (size <= SKEW_RIGHT_MS)
		n->said_skew = false;
	if (size <= SKEW_MAX_MS || n->said_skew)
		return;
	n->said_skew = true;
	sp_export_log(ops, SP_LOG_WARN,
		      "the server's clock is %" PRId64
		      " s %s this machine's: the server refuses profiles or "
		      "shows them at a wrong time; set the clocks",
		      size / 1000, skew_ms < 0 ? "behind" : "ahead of");
}

/* After each try. */
static void news_take(struct sp_push_news *n, const struct sp_core_ops *ops,
		      const struct sp_reply *r)
{
	n->attempts++;
	n->last_status = r->kind == SP_REPLY_STATUS ? r->status : 0;
	n->last_error[0] = '\0';
	if (sp_reply_good(r))
		n->last_success_ms = r->answered_ms;
	else
		n->remedy_at = sp_reply_describe(r, n->last_error, sizeof(n->last_error));
	if (r->has_skew)
		take_skew(n, ops, r->skew_ms);
}

/* Where messages about this kind of answer are limited; the last place takes all further kinds. */
static struct sp_export_log_site *site_of(struct sp_push_news *n, const struct sp_reply *r)
{
	unsigned i = 0;

	if (r->kind != SP_REPLY_STATUS)
		return &n->said_unreachable;
	while (i < SP_PUSH_KINDS - 1 && n->said[i].status != 0 && n->said[i].status != r->status)
		i++;
	n->said[i].status = r->status;
	return &n->said[i].site;
}

/* The last try failed, and whether there will be another: a message, limited for each kind of answer. */
static void news_warn(struct sp_push_news *n, const struct sp_core_ops *ops,
		      const struct sp_reply *r, uint64_t now_ns, bool again)
{
	sp_export_log_limited(ops, site_of(n, r), now_ns, "push failed%s: %s",
			      again ? ", will try again" : "", n->last_error);
}

/* In OTLP a server may have a remark on what it takes. */
static void news_warn_of_success(struct sp_push_news *n, const struct sp_core_ops *ops,
				 const struct sp_reply *r, uint64_t now_ns)
{
	char words[200];

	sp_reply_words(r, words, sizeof(words));
	sp_export_log_limited(ops, site_of(n, r), now_ns, "the server says: %s", words);
}

/* One line at level debug for each try. */
static void news_tell(const struct sp_core_ops *ops, const struct sp_reply *r,
		      const struct queued *b, uint64_t samples, uint64_t ns)
{
	char status[32] = "no answer";

	if (ops->config->log_level < SP_LOG_DEBUG)
		return;
	if (r->kind == SP_REPLY_STATUS)
		(void)snprintf(status, sizeof(status), "status %d", r->status);
	sp_export_log(ops, SP_LOG_DEBUG,
		      "push of a profile (%s) of %" PRIu32 ": %zu bytes, %" PRIu64
		      " samples, %s after %.1f ms",
		      sp_profile_type_names(b->message.type)->sample, b->origin->ops->pid,
		      b->message.body.len, samples, status, (double)ns / (double)SP_NS_PER_MS);
}

/* The server refuses profiles that began more than an hour ago; a minute is for the way there. */
#define SP_PUSH_MAX_AGE_NS (UINT64_C(3540) * SP_NS_PER_S)
#define SP_PUSH_ROUND 32U /* requests, then the caller has its turn */
/* As often what has become too old is looked for during a transfer. */
#define SP_PUSH_LOOK_NS (500 * SP_NS_PER_MS)
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
	struct backlog backlog;
	uint32_t wanted; /* places in the backlog */
	uint32_t most;   /* records of a profile */
	int learnt_status;
	uint64_t learnt_ns; /* when that was learnt from the server; 0 = it was not */
	struct backoff backoff;
	uint32_t width;    /* so many go side by side */
	uint64_t taken_ns; /* when the server took the last one; 0 = it took none */
	uint64_t rest_ns;  /* when the transport has something to close; UINT64_MAX = never */
	bool flushing;     /* there is little time */
	bool is_awaited;   /* by the process, in a flush */
	bool is_over;      /* nothing more is begun in this flush */
	uint32_t no_room;  /* so many refusals for lack of room are left to it */
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

static bool is_of_waits(const struct queued *b)
{
	return sp_profile_type_is_of_waits(b->message.type);
}

/* The last part takes all that is left, so that no sample is counted twice or not at all. */
static uint64_t samples_of_message(const struct queued *b)
{
	return b->message.end < b->end && b->message.samples < b->samples ? b->message.samples
									  : b->samples;
}

/* Of b, which stays. */
static void count_loss(struct sp_push *p, struct queued *b, uint64_t samples,
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
static void lose_profile(struct sp_push *p, struct queued *b, enum sp_loss_cause cause, int status)
{
	count_loss(p, b, b->samples, cause, status);
	backlog_drop(&p->backlog, b);
}

/* Its next message has at most so many records from there on. False: that cannot be, and nothing has changed. */
static bool encode(struct sp_push *p, struct queued *b, uint32_t first, uint32_t most)
{
	const struct sp_part part = {first, b->end, most};
	struct sp_message message;

	if (p->env.encode == NULL ||
	    p->env.encode(p->env.encode_arg, b->origin, &b->message, &part, &message) != 0)
		return false;
	backlog_replace(b, &message);
	b->most = most;
	return true;
}

/* Done with its message, whose samples are counted. What it was encoded from may be gone meanwhile. */
static void go_on_with(struct sp_push *p, struct queued *b)
{
	b->samples -= samples_of_message(b);
	if (b->message.end >= b->end)
		backlog_drop(&p->backlog, b);
	else if (!encode(p, b, b->message.end, b->most))
		lose_profile(p, b, SP_LOSS_REFUSED, b->status);
}

static void lose_message(struct sp_push *p, struct queued *b, enum sp_loss_cause cause, int status)
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
	p->rest_ns = UINT64_MAX;
	if (backlog_limit(&p->backlog, limits->capacity) != 0) {
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
		if (p->backlog.is_in_use[slot])
			p->env.stop(p->env.transport_arg, slot, &p->reply);
	backlog_fini(&p->backlog);
	free(p);
}

void sp_push_serve(struct sp_push *p, const struct sp_core_ops *ops, uint32_t living,
		   uint32_t ended)
{
	p->ops = ops;
	p->wanted = p->limits.capacity * living + p->limits.types * ended;
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
	       backlog_waits(&p->backlog, origin, type, now(p) - half_ns);
}

void sp_push_put(struct sp_push *p, struct sp_origin *origin, const struct sp_message *message,
		 uint64_t born_ns)
{
	(void)backlog_limit(&p->backlog, p->wanted);
	while (backlog_full(&p->backlog))
		lose_profile(p, backlog_oldest(&p->backlog), SP_LOSS_QUEUE_FULL, 0);
	if (falls_behind(p, origin, message->type))
		p->width++;
	p->no_room++;
	backlog_put(&p->backlog, origin, message, born_ns, now(p));
}

/*
 * When the next try has to be: while the queue still has places for what comes until then, or else as often
 * as there are new profiles, which a server that is back takes without notice. At the end there is but the
 * time that is left, and a few tries fit into it.
 */
static uint64_t longest_wait_ms(const struct sp_push *p)
{
	const struct backlog *q = &p->backlog;
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
	news_warn(&p->news, p->ops, r, now(p), !sp_reply_unknown(r));
	backoff_wait(&p->backoff, r->retry_after_s, longest_wait_ms(p), now(p),
		     p->env.random(p->env.random_arg));
}

/* Half of what its message is. False: it is a single record, or cannot be encoded again. */
static bool halve(struct sp_push *p, struct queued *b)
{
	return b->message.records > 1 && encode(p, b, b->message.first, b->message.records / 2);
}

/*
 * Where a single record is too large, it is no matter of how many there are, and the others may pass together. What
 * passed on the way to it did so without it, and is no limit; if there is one as well, the next part shows it again.
 * A server that takes nothing of a profile at all is not asked for each record of it.
 */
static void too_large(struct sp_push *p, struct queued *b, int status)
{
	bool is_single = b->message.records <= 1;

	b->was_too_large = true;
	b->status = status;
	if (++b->refusals < SP_PUSH_REFUSALS && halve(p, b))
		return;
	if (b->refusals >= SP_PUSH_REFUSALS || !is_single) {
		lose_profile(p, b, SP_LOSS_REFUSED, status);
		return;
	}
	b->most = p->most = SP_ENCODE_SAMPLES;
	b->was_too_large = false;
	lose_message(p, b, SP_LOSS_REFUSED, status);
}

/*
 * The server has no room now. What is larger than its budget would be told so for ever, and what is
 * not may be: so it lets all others go first, and is halved when it comes back in vain. As long as the
 * server answers so, there is but one request in each time of waiting, however many parts there are.
 */
static void limited(struct sp_push *p, struct queued *b)
{
	b->limited++;
	b->status = p->reply.status;
	if (p->flushing || b->limited % 2 == 0)
		(void)halve(p, b);
}

/* True: the next one may be begun at once. */
static bool failed(struct sp_push *p, struct queued *b, const struct sp_reply *r)
{
	bool is_limited = sp_reply_limited(r);

	if (sp_reply_unknown(r)) {
		retry_later(p, r);
		lose_message(p, b, SP_LOSS_UNKNOWN, 0);
		return false;
	}
	if (sp_reply_too_large(r)) {
		too_large(p, b, r->status);
		return true;
	}
	if (!sp_reply_again(r)) {
		lose_message(p, b, SP_LOSS_REFUSED, r->status);
		return true;
	}
	if (p->limits.max_tries != 0 && b->tries >= p->limits.max_tries) {
		lose_message(p, b, r->status != 0 ? SP_LOSS_GIVEN_UP : SP_LOSS_UNANSWERED,
			     r->status);
		return false;
	}
	if (is_limited)
		limited(p, b);
	/* A server that has no room for this profile may have it for the next. */
	if (is_limited && p->flushing && p->no_room != 0) {
		p->no_room--;
		news_warn(&p->news, p->ops, r, now(p), true);
		return true;
	}
	retry_later(p, r);
	return false;
}

/* Of a server that failed last one at a time, until it has taken one. */
static uint32_t room(const struct sp_push *p)
{
	if (p->backoff.failures != 0)
		return 1;
	return p->flushing ? SP_TRANSFERS : p->width;
}

static bool may_begin(const struct sp_push *p)
{
	if (p->flushing && (p->is_over || p->ops->flush_left_ms(p->ops->arg) == 0))
		return false;
	return p->backlog.under_way < room(p) && backoff_over(&p->backoff, now(p));
}

static bool is_too_old(const struct sp_push *p, const struct queued *b)
{
	return now(p) - b->born_ns > SP_PUSH_MAX_AGE_NS;
}

/* All that may be. */
static void begin(struct sp_push *p)
{
	struct queued *b;

	while (may_begin(p) && (b = backlog_next(&p->backlog)) != NULL) {
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
		if (b->message.records > most_records(p) && encode(p, b, b->message.first, p->most))
			b->status = p->learnt_status;
		if (b->tries != 0)
			b->origin->ops->counter_add(b->origin->ops->arg, SP_COUNT_PUSH_RETRIED, 1);
		b->era = p->backoff.era;
		b->begun_ns = now(p);
		backlog_begin(&p->backlog, b);
		p->env.start(p->env.transport_arg, b->slot, &b->message, p->limits.timeout_ms);
	}
}

/* What became of the transfer in that slot is in p->reply. True: the next one may be begun at once. */
static bool ended(struct sp_push *p, unsigned slot)
{
	struct queued *b = backlog_in(&p->backlog, slot);
	const struct sp_core_ops *ops = b->origin->ops;

	backlog_end(&p->backlog, b);
	/* We have stopped it before the server could have all of it. */
	if (p->reply.kind == SP_REPLY_ABORTED && !sp_reply_unknown(&p->reply))
		return false;
	b->tries++;
	news_take(&p->news, p->ops, &p->reply);
	news_tell(p->ops, &p->reply, b, samples_of_message(b), now(p) - b->begun_ns);
	backoff_note(&p->backoff, b->era, sp_reply_good(&p->reply));
	if (!sp_reply_good(&p->reply)) {
		bool goes_on = failed(p, b, &p->reply);

		/* Whoever waits is not held up by a server that is not there. */
		if (!goes_on && p->is_awaited && !sp_reply_soon(&p->reply))
			p->is_over = true;
		return goes_on;
	}
	if (p->reply.is_otlp && p->reply.text_len != 0)
		news_warn_of_success(&p->news, p->ops, &p->reply, now(p));
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
	return true;
}

static void drop_old(struct sp_push *p)
{
	while (backlog_has_waiting(&p->backlog) && is_too_old(p, backlog_oldest(&p->backlog)))
		lose_profile(p, backlog_oldest(&p->backlog), SP_LOSS_TOO_OLD, 0);
}

static void rest(struct sp_push *p)
{
	if (p->env.rest != NULL && !sp_push_under_way(p))
		p->rest_ns = p->env.rest(p->env.transport_arg, now(p));
}

void sp_push_run(struct sp_push *p)
{
	bool goes_on = true;
	unsigned slot;

	drop_old(p);
	if (p->backlog.n == 0)
		p->width = 1;
	rest(p);
	for (unsigned i = 0; i < SP_PUSH_ROUND; i++) {
		if (goes_on)
			begin(p);
		if (!sp_push_under_way(p) || !p->env.poll(p->env.transport_arg, &slot, &p->reply))
			break;
		goes_on = ended(p, slot) && goes_on;
		drop_old(p);
	}
	rest(p);
}

void sp_push_abandon(struct sp_push *p)
{
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++) {
		if (!p->backlog.is_in_use[slot])
			continue;
		p->env.stop(p->env.transport_arg, slot, &p->reply);
		(void)ended(p, slot);
	}
	while (backlog_has_waiting(&p->backlog))
		lose_profile(p, backlog_oldest(&p->backlog), SP_LOSS_UNSENT, 0);
}

void sp_push_flush(struct sp_push *p, bool is_awaited)
{
	p->flushing = true;
	p->is_awaited = is_awaited;
	p->is_over = false;
	p->no_room = p->backlog.n + SP_PUSH_FLUSH_LIMITED;
	p->backoff.until_ns = now(p);
}

bool sp_push_flushed(struct sp_push *p)
{
	const struct backlog *q = &p->backlog;
	uint64_t left_ns = p->ops->flush_left_ms(p->ops->arg) * SP_NS_PER_MS;
	uint64_t samples = 0;

	p->is_over = p->is_over || q->n == 0 || left_ns == 0 ||
		     (q->under_way == 0 && now(p) + left_ns <= p->backoff.until_ns);
	if (!p->is_over)
		return false;
	for (uint32_t i = 0; i < q->n; i++)
		samples += q->profile[i].samples;
	if (p->is_awaited && q->n != 0)
		sp_export_log(p->ops, SP_LOG_WARN,
			      "the process ends before the server has taken the last %s (samples: "
			      "%" PRIu64 ")",
			      q->n == 1 ? "profile" : "profiles", samples);
	return true;
}

void sp_push_resume(struct sp_push *p)
{
	p->flushing = p->is_awaited = p->is_over = false;
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

static uint32_t ms_until(uint64_t then_ns, uint64_t now_ns)
{
	uint64_t ms = then_ns > now_ns ? (then_ns - now_ns - 1) / SP_NS_PER_MS + 1 : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

uint32_t sp_push_due_ms(const struct sp_push *p)
{
	const struct backlog *q = &p->backlog;
	uint64_t t = now(p);
	uint64_t due = p->backoff.until_ns;

	if (q->n == 0)
		return ms_until(p->rest_ns, t);
	if (sp_push_under_way(p) || p->is_over)
		due = t + SP_PUSH_LOOK_NS;
	for (uint32_t i = 0; i < q->n; i++) {
		uint64_t end = q->profile[i].begun_ns + p->limits.timeout_ms * SP_NS_PER_MS;

		if (q->profile[i].under_way && end < due)
			due = end;
	}
	if (p->flushing && !p->is_over) {
		uint64_t end = t + p->ops->flush_left_ms(p->ops->arg) * SP_NS_PER_MS;

		due = end < due ? end : due;
	}
	return ms_until(due, t);
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
