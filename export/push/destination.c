/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a profile again, with full-jitter backoff, if the answer says that it may pass later
 * (reply.c). Sends a profile in parts if it is too large. Gives a profile up if the server refuses
 * it, if it is too old for the server, was tried too often, or was sent without an answer. Counts
 * every loss.
 */
#define _GNU_SOURCE
#include "export/push/destination.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/push/backlog.h"
#include "export/push/backoff.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

/*
 * The server refuses profiles that began more than an hour ago. One minute less, for the transfer.
 */
#define SP_PUSH_MAX_AGE_NS (UINT64_C(3540) * SP_NS_PER_S)
/*
 * While a request is under way, sp_destination_run() is due this often, to drop profiles that have
 * become too old.
 */
#define SP_PUSH_LOOK_NS (500 * SP_NS_PER_MS)
/*
 * Limits for a request with several profiles. By default nginx takes a body of 1 MiB, and Pyroscope
 * takes 2 MiB in a burst and 4 MiB a second, uncompressed. So all such requests under way have at
 * most PLAIN bytes together, uncompressed.
 */
#define SP_PUSH_REQUEST_PROFILES 1024U
#define SP_PUSH_REQUEST_BYTES ((size_t)768 << 10)
#define SP_PUSH_REQUEST_PLAIN ((size_t)1 << 20)
#define SP_PUSH_GROWTH 32U
/* A profile up to this size never counts as larger than those that the server took. */
#define SP_PUSH_SMALL ((size_t)64 << 10)
/*
 * A profile of SP_ENCODE_SAMPLES records is cut down to one record by fourteen refusals. Perhaps
 * the server refuses only that record, so the search is done twice.
 */
#define SP_PUSH_REFUSALS 32U
/* The Date header has whole seconds, so a wait for the server's clock is this much longer. */
#define SP_PUSH_DATE_MS 2000U
/*
 * The queue has this many additional places for profiles from the future: an hour's profiles at the
 * default upload interval.
 */
#define SP_PUSH_EARLY 240U
#define SP_PUSH_LEARNT_NS (UINT64_C(3600) * SP_NS_PER_S)
/*
 * A flush does not wait after an answer 429. Each profile may get one, and all together this many
 * more.
 */
#define SP_PUSH_FLUSH_LIMITED 32U
/*
 * In a flush, the wait after a failure is at most one part in TRIES of the time left, but this
 * bound is never below WAIT_MS.
 */
#define SP_PUSH_FLUSH_TRIES 4U
#define SP_PUSH_FLUSH_WAIT_MS 500U

/* A request in a slot of the transport. The queue's profiles with that slot belong to it. */
struct request {
	bool is_used;
	bool is_probe;     /* an empty push */
	uint32_t profiles; /* their number */
	/*
	 * the joined message of several profiles; no body = the request has one profile, whose
	 * message is sent
	 */
	struct sp_message message;
	size_t plain; /* several profiles: bytes before compression */
	uint64_t era; /* era of the backoff when the request was begun */
	uint64_t begun_ns;
};

/*
 * What the server took before. If a server refuses one profile of several, it stores the others,
 * and its answer does not name the refused profile. So a request gets several profiles only if the
 * server is likely to take each: the server has taken a profile of its type alone, and one of its
 * size.
 */
struct trust {
	/* at most this many in a request; grows with each success, 1 after a failure */
	uint32_t profiles;
	size_t bytes;      /* at most this many in a request, compressed */
	uint64_t bytes_ns; /* when `bytes` was learnt; 0 = it has its default */
	bool has_type[SP_PROFILE_TYPES];
	size_t plain;             /* bytes of the largest profile that the server took */
	uint64_t singly_until_ns; /* until then each request has one profile */
};

struct sp_destination {
	const struct sp_core_ops *ops;
	unsigned number;
	uint32_t most_requests; /* side by side */
	struct sp_push_env env;
	struct sp_push_limits limits;
	struct sp_backlog backlog;
	struct request request[SP_TRANSFERS];
	uint32_t requests; /* under way */
	struct trust trust;
	uint32_t wanted; /* capacity of the backlog, without places for profiles from the future */
	uint32_t most;   /* largest number of records of a profile */
	int learnt_status;
	/* when `most` was learnt from the server; 0 = it has its default */
	uint64_t learnt_ns;
	struct sp_backoff backoff;
	bool is_probing;  /* the next request is an empty push */
	bool flushing;    /* a flush is in progress */
	bool is_awaited;  /* the process waits for the flush */
	bool is_over;     /* this flush begins no more requests */
	uint32_t no_room; /* this flush may still get so many answers 429 without a wait */
	struct sp_push_results results;
	struct sp_reply reply; /* of the last request; too large for a stack */
};

static uint64_t now(const struct sp_destination *d)
{
	return d->env.now_ns(d->env.now_arg);
}

/*
 * The largest number of records of a profile: what servers take by default, or, for an hour after
 * this server found a profile too large, the size of the largest part that it took.
 */
static uint32_t most_records(struct sp_destination *d)
{
	if (d->learnt_ns != 0 && now(d) - d->learnt_ns > SP_PUSH_LEARNT_NS) {
		d->most = SP_ENCODE_SAMPLES;
		d->learnt_ns = 0;
	}
	return d->most;
}

/* How many records its message has. */
static uint32_t records(const struct sp_queued *b)
{
	return b->message.end - b->message.first;
}

static bool is_of_waits(const struct sp_queued *b)
{
	return sp_profile_type_row(b->message.type)->is_of_waits;
}

/* The last part gets all samples that are left, so that each sample is counted exactly once. */
static uint64_t samples_of_message(const struct sp_queued *b)
{
	return b->message.end < b->end && b->message.samples < b->samples ? b->message.samples
									  : b->samples;
}

/* One line at level debug for each profile of a request, or for an empty push. */
static void tell_try(const struct sp_destination *d, const struct sp_queued *b, uint64_t samples,
		     uint64_t ns)
{
	double ms = (double)ns / (double)SP_NS_PER_MS;
	const char *to = d->env.name != NULL ? " to " : "";
	const char *name = d->env.name != NULL ? d->env.name : "";
	char status[32] = "no answer";

	if (d->ops->config->log_level < SP_LOG_DEBUG)
		return;
	if (d->reply.kind == SP_REPLY_STATUS)
		(void)snprintf(status, sizeof(status), "status %d", d->reply.status);
	if (b == NULL)
		sp_export_log(d->ops, SP_LOG_DEBUG, "empty push%s%s: %s after %.1f ms", to, name,
			      status, ms);
	else
		sp_export_log(d->ops, SP_LOG_DEBUG,
			      "push of a profile (%s) of %" PRIu32 "%s%s: %zu bytes, %" PRIu64
			      " samples, %s after %.1f ms",
			      sp_profile_type_row(b->message.type)->names.sample,
			      b->origin->ops->pid, to, name, b->message.body.len, samples, status,
			      ms);
}

/* Counts samples of b as lost; b stays in the queue. */
static void count_loss(struct sp_destination *d, const struct sp_queued *b, uint64_t samples,
		       enum sp_loss_cause cause, int status)
{
	struct sp_delivery *delivery = &b->origin->delivery[d->number];
	uint64_t everywhere = sp_account_lost(b->account, d->number, samples);
	const struct sp_loss loss = {
		.cause = cause,
		.status = status,
		.at = d->env.name,
		.profiles = 1,
		.samples = is_of_waits(b) ? 0 : samples,
		.waits = is_of_waits(b) ? samples : 0,
		.elsewhere_samples = is_of_waits(b) ? 0 : samples - everywhere,
		.elsewhere_waits = is_of_waits(b) ? samples - everywhere : 0,
		/* The last answer is the reason only if it has this status. */
		.words = status != 0 && status == d->results.last_status ? d->results.last_error
									 : NULL,
	};

	delivery->samples_lost += loss.samples;
	delivery->waits_lost += loss.waits;
	sp_losses_add(&b->origin->losses, b->origin->ops, &loss);
}

/* Loses all that is left of the profile. */
static void lose_profile(struct sp_destination *d, struct sp_queued *b, enum sp_loss_cause cause,
			 int status)
{
	count_loss(d, b, b->samples, cause, status);
	sp_backlog_drop(&d->backlog, b);
}

/*
 * Makes the profile's next message: at most `most` records, beginning with `first`. False: this
 * fails, and nothing has changed.
 */
static bool cut(struct sp_destination *d, struct sp_queued *b, uint32_t first, uint32_t most)
{
	const struct sp_part part = {first, b->end, most};
	struct sp_message message;

	if (d->env.cut == NULL ||
	    d->env.cut(d->env.cut_arg, b->origin, &b->message, &part, &message) != 0)
		return false;
	sp_backlog_replace(b, &message);
	b->most = most;
	return true;
}

/*
 * The samples of the profile's message are counted, so goes on with its next message. If there is
 * no memory for that, the rest is lost.
 */
static void go_on_with(struct sp_destination *d, struct sp_queued *b)
{
	b->samples -= samples_of_message(b);
	if (b->message.end >= b->end)
		sp_backlog_drop(&d->backlog, b);
	else if (!cut(d, b, b->message.end, b->most))
		lose_profile(d, b, SP_LOSS_REFUSED, b->status);
}

static void lose_message(struct sp_destination *d, struct sp_queued *b, enum sp_loss_cause cause,
			 int status)
{
	count_loss(d, b, samples_of_message(b), cause, status);
	go_on_with(d, b);
}

struct sp_destination *sp_destination_new(const struct sp_core_ops *ops,
					  const struct sp_push_env *env,
					  const struct sp_push_limits *limits, unsigned number,
					  unsigned of)
{
	struct sp_destination *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->ops = ops;
	d->number = number;
	d->env = *env;
	d->limits = *limits;
	d->results.name = env->name;
	d->wanted = limits->capacity;
	d->most = SP_ENCODE_SAMPLES;
	d->most_requests = SP_TRANSFERS / of;
	d->trust = (struct trust){.profiles = 1, .bytes = SP_PUSH_REQUEST_BYTES};
	if (sp_backlog_limit(&d->backlog, limits->capacity) != 0) {
		free(d);
		return NULL;
	}
	return d;
}

static void end_request(struct sp_destination *d, unsigned slot)
{
	sp_message_fini(&d->request[slot].message);
	d->request[slot] = (struct request){0};
	d->requests--;
}

void sp_destination_free(struct sp_destination *d)
{
	if (d == NULL)
		return;
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++)
		if (d->request[slot].is_used) {
			d->env.stop(d->env.transport_arg, slot, &d->reply);
			end_request(d, slot);
		}
	sp_backlog_fini(&d->backlog);
	free(d);
}

void sp_destination_serve(struct sp_destination *d, const struct sp_core_ops *ops, uint32_t living,
			  uint32_t ended)
{
	d->ops = ops;
	d->wanted = d->limits.capacity * living + d->limits.types * ended;
}

static bool is_early(const struct sp_destination *d, const struct sp_queued *b)
{
	return now(d) < b->not_before_ns;
}

void sp_destination_put(struct sp_destination *d, struct sp_origin *origin,
			const struct sp_message *message, uint64_t born_ns,
			struct sp_account *account)
{
	struct sp_backlog *q = &d->backlog;
	struct sp_message taken = *message;
	uint32_t early = 0;

	for (uint32_t i = 0; i < q->n && early < SP_PUSH_EARLY; i++)
		early += is_early(d, &q->profile[i]);
	(void)sp_backlog_limit(q, d->wanted + early);
	while (sp_backlog_full(q))
		lose_profile(d, sp_backlog_oldest(q), SP_LOSS_QUEUE_FULL, 0);
	/* There was no memory to enlarge the queue. */
	if (q->n == q->allocated) {
		const struct sp_queued none = {
			.origin = origin, .message = taken, .account = account};

		count_loss(d, &none, taken.samples, SP_LOSS_QUEUE_FULL, 0);
		sp_message_fini(&taken);
		sp_account_release(account);
		return;
	}
	d->no_room++;
	sp_backlog_put(q, origin, &taken, born_ns, account);
}

/*
 * An upper bound for the wait until the next attempt. The queue should not overflow before it; with
 * a full queue there is one attempt per upload interval, so that a server that is back gets
 * profiles soon. In a flush, a few attempts must fit into the time that is left.
 */
static uint64_t longest_wait_ms(const struct sp_destination *d)
{
	const struct sp_backlog *q = &d->backlog;
	uint32_t waiting = q->n - q->under_way;
	uint32_t places = q->capacity > waiting ? q->capacity - waiting : 0;
	uint64_t ms;

	if (d->flushing) {
		ms = d->ops->flush_left_ms(d->ops->arg) / SP_PUSH_FLUSH_TRIES;
		return ms > SP_PUSH_FLUSH_WAIT_MS ? ms : SP_PUSH_FLUSH_WAIT_MS;
	}
	ms = d->limits.lasts_ms * places / q->capacity;
	return ms > d->limits.interval_ms ? ms : d->limits.interval_ms;
}

static void retry_later(struct sp_destination *d, const struct sp_reply *r)
{
	sp_push_results_warn(&d->results, d->ops, r, now(d), !sp_reply_unknown(r));
	sp_backoff_wait(&d->backoff, r->retry_after_s, longest_wait_ms(d), now(d),
			d->env.random(d->env.random_arg));
}

/* Cuts the message to half of its records. False: it has a single record, or cannot be cut. */
static bool halve(struct sp_destination *d, struct sp_queued *b)
{
	return records(b) > 1 && cut(d, b, b->message.first, records(b) / 2);
}

/*
 * The server finds the profile too large: halves it. If a single record is too large, only this
 * record is lost. The exporter forgets the sizes that it learnt during the search: the other
 * records may pass together. If the number of records is limited as well, the next part shows that
 * again. After SP_PUSH_REFUSALS refusals in a row the whole profile is lost: a server that takes
 * nothing of it is not asked for every record.
 */
static void too_large(struct sp_destination *d, struct sp_queued *b, int status)
{
	bool is_single = records(b) <= 1;

	b->was_too_large = true;
	b->status = status;
	if (++b->refusals < SP_PUSH_REFUSALS && halve(d, b))
		return;
	if (b->refusals >= SP_PUSH_REFUSALS || !is_single) {
		lose_profile(d, b, SP_LOSS_REFUSED, status);
		return;
	}
	b->most = d->most = SP_ENCODE_SAMPLES;
	b->was_too_large = false;
	lose_message(d, b, SP_LOSS_REFUSED, status);
}

/*
 * The server answered 429. A profile that is larger than the server's budget gets this answer for
 * ever, and the exporter cannot tell it from a profile that only came at a bad time. So all other
 * profiles go before this one, and after every second 429 it is halved. As long as the server
 * answers 429, there is one request per wait of the backoff, however many parts there are.
 */
static void limited(struct sp_destination *d, struct sp_queued *b)
{
	b->limited++;
	b->status = d->reply.status;
	if (d->flushing || b->limited % 2 == 0)
		(void)halve(d, b);
}

/*
 * The server has refused a profile that begins ahead of the server's clock. The profile waits until
 * it is only SP_PUSH_SKEW_BEHIND_MS ahead, which a server allows by default. If the server refuses
 * it again, it waits until the server's clock has reached its beginning. False: the server will
 * never take it.
 */
static bool put_off(const struct sp_destination *d, struct sp_queued *b, const struct sp_reply *r)
{
	int64_t age_ms = (int64_t)((now(d) - b->born_ns) / SP_NS_PER_MS);
	int64_t ahead_ms = -r->skew_ms - age_ms;

	if (b->not_before_ns == 0)
		ahead_ms -= SP_PUSH_SKEW_BEHIND_MS;
	if (!sp_reply_out_of_time(r) || !r->has_skew || ahead_ms <= 0)
		return false;
	b->not_before_ns = now(d) + ((uint64_t)ahead_ms + SP_PUSH_DATE_MS) * SP_NS_PER_MS;
	return true;
}

/* The request of a single profile has failed. True: the next request may begin at once. */
static bool failed(struct sp_destination *d, struct sp_queued *b, const struct sp_reply *r)
{
	bool is_limited = sp_reply_limited(r);

	if (sp_reply_unknown(r)) {
		retry_later(d, r);
		lose_message(d, b, SP_LOSS_UNKNOWN, 0);
		return false;
	}
	if (sp_reply_too_large(r)) {
		too_large(d, b, r->status);
		return true;
	}
	if (!sp_reply_again(r)) {
		if (put_off(d, b, r))
			sp_push_results_warn(&d->results, d->ops, r, now(d), true);
		else
			lose_message(d, b, SP_LOSS_REFUSED, r->status);
		return true;
	}
	if (d->limits.max_tries != 0 && b->tries >= d->limits.max_tries) {
		lose_message(d, b, r->status != 0 ? SP_LOSS_GIVEN_UP : SP_LOSS_UNANSWERED,
			     r->status);
		return false;
	}
	if (is_limited)
		limited(d, b);
	/* A server that answers 429 for this profile may take the next one. */
	if (is_limited && d->flushing && d->no_room != 0) {
		d->no_room--;
		sp_push_results_warn(&d->results, d->ops, r, now(d), true);
		return true;
	}
	retry_later(d, r);
	return false;
}

/* For an hour each request has one profile, so that an answer is clear. */
static void send_singly(struct sp_destination *d)
{
	d->trust.singly_until_ns = now(d) + SP_PUSH_LEARNT_NS;
}

/*
 * A request with several profiles has failed. Learns what the answer says about all of them. True:
 * the next request may begin at once.
 */
static bool failed_together(struct sp_destination *d, const struct request *q,
			    const struct sp_reply *r)
{
	if (sp_reply_too_large(r) && !sp_reply_partial(r)) {
		d->trust.bytes = q->message.body.len / 2;
		d->trust.bytes_ns = now(d);
		return true;
	}
	if (!sp_reply_unknown(r) && !sp_reply_again(r)) {
		send_singly(d);
		return true;
	}
	if (sp_reply_partial(r) || sp_reply_limited(r))
		send_singly(d);
	retry_later(d, r);
	return false;
}

/* Handles one profile of a failed request with several. */
static void fail_one_of_many(struct sp_destination *d, struct sp_queued *b,
			     const struct sp_reply *r)
{
	if (sp_reply_unknown(r))
		lose_message(d, b, SP_LOSS_UNKNOWN, 0);
	else if (sp_reply_partial(r))
		lose_message(d, b, SP_LOSS_SHARED, r->status);
	else if (sp_reply_again(r) && d->limits.max_tries != 0 && b->tries >= d->limits.max_tries)
		lose_message(d, b, r->status != 0 ? SP_LOSS_GIVEN_UP : SP_LOSS_UNANSWERED,
			     r->status);
}

static bool is_too_old(const struct sp_destination *d, const struct sp_queued *b)
{
	return now(d) - b->born_ns > SP_PUSH_MAX_AGE_NS;
}

/* How many profiles may be sent now: 0, 1, or 2 for two and more. */
static unsigned waiting(const struct sp_destination *d)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < d->backlog.n && n < 2; i++)
		n += !d->backlog.profile[i].under_way && !is_early(d, &d->backlog.profile[i]);
	return n;
}

/*
 * If the server's last request failed, or it has taken none yet, it gets one request at a time:
 * each request that hangs costs a profile. Otherwise another request begins beside those under way
 * as soon as two profiles wait.
 */
static bool may_begin(const struct sp_destination *d)
{
	unsigned n = waiting(d);

	if (n == 0 || d->requests == d->most_requests || !sp_backoff_over(&d->backoff, now(d)))
		return false;
	if (d->flushing && (d->is_over || d->ops->flush_left_ms(d->ops->arg) == 0))
		return false;
	if (d->requests == 0)
		return true;
	if (d->backoff.failures != 0 || d->is_probing)
		return false;
	return d->flushing || (d->trust.profiles > 1 && n > 1);
}

/* Whether this profile may be in a request with others. */
static bool is_trusted(const struct sp_destination *d, const struct sp_queued *b)
{
	const struct trust *t = &d->trust;
	size_t plain = t->plain > SP_PUSH_SMALL ? t->plain : SP_PUSH_SMALL;

	return t->has_type[b->message.type] && b->message.plain <= plain && b->limited == 0 &&
	       b->refusals == 0 && b->not_before_ns == 0 && records(b) <= d->most &&
	       now(d) - b->born_ns <= SP_PUSH_MAX_AGE_NS / 2;
}

static bool may_open(const struct sp_queued *b)
{
	return b->origin->ops->may_open(b->origin->ops->arg);
}

static uint32_t most_together(struct sp_destination *d)
{
	struct trust *t = &d->trust;

	if (t->bytes_ns != 0 && now(d) - t->bytes_ns > SP_PUSH_LEARNT_NS) {
		t->bytes = SP_PUSH_REQUEST_BYTES;
		t->bytes_ns = 0;
	}
	return d->env.join == NULL || d->backoff.failures != 0 || now(d) < t->singly_until_ns
		       ? 1
		       : t->profiles;
}

/*
 * Chooses the profiles of one request: `first`, and then others, oldest first, as far as the server
 * is trusted. A request uses the secrets and certificates that a process has named, so the exporter
 * must have the rights of every process whose profile is in it.
 */
static uint32_t choose(struct sp_destination *d, struct sp_queued *first, struct sp_queued **chosen)
{
	struct sp_backlog *q = &d->backlog;
	uint32_t most = most_together(d);
	size_t bytes = first->message.body.len;
	size_t plain = first->message.plain;
	uint32_t n = 1;

	chosen[0] = first;
	if (most == 1 || !is_trusted(d, first))
		return 1;
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++)
		plain += d->request[slot].plain;
	for (uint32_t i = 0; i < q->n && n < most; i++) {
		struct sp_queued *b = &q->profile[i];

		if (b == first || b->under_way || !is_trusted(d, b) ||
		    bytes + b->message.body.len > d->trust.bytes ||
		    plain + b->message.plain > SP_PUSH_REQUEST_PLAIN || !may_open(b))
			continue;
		bytes += b->message.body.len;
		plain += b->message.plain;
		chosen[n++] = b;
	}
	return n;
}

/* Makes one request of several profiles. False: out of memory. */
static bool join(struct sp_destination *d, struct request *q, struct sp_queued *const *chosen,
		 uint32_t n)
{
	const struct sp_message *part[SP_PUSH_REQUEST_PROFILES];

	for (uint32_t i = 0; i < n; i++)
		part[i] = &chosen[i]->message;
	if (d->env.join(d->env.join_arg, part, n, &q->message.body) != 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		q->plain += part[i]->plain;
	return true;
}

static void begin_with(struct sp_destination *d, struct sp_queued *first)
{
	struct sp_queued *chosen[SP_PUSH_REQUEST_PROFILES];
	uint32_t n = d->is_probing ? 0 : choose(d, first, chosen);
	struct request *q;
	unsigned slot = 0;

	while (d->request[slot].is_used)
		slot++;
	q = &d->request[slot];
	*q = (struct request){
		.is_used = true, .is_probe = n == 0, .era = d->backoff.era, .begun_ns = now(d)};
	d->requests++;
	if (n > 1 && !join(d, q, chosen, n))
		n = 1;
	q->profiles = n;
	for (uint32_t i = 0; i < n; i++) {
		struct sp_queued *b = chosen[i];

		if (b->tries != 0)
			b->origin->ops->counter_add(b->origin->ops->arg, SP_COUNT_PUSH_RETRIED, 1);
		sp_backlog_begin(&d->backlog, b, slot);
	}
	d->env.start(d->env.transport_arg, slot,
		     n == 0  ? NULL
		     : n > 1 ? &q->message
			     : &first->message,
		     d->limits.timeout_ms);
}

/* Begins all requests that may begin now. */
static void begin(struct sp_destination *d)
{
	struct sp_queued *b;

	while (may_begin(d) && (b = sp_backlog_next(&d->backlog, now(d))) != NULL) {
		if (is_too_old(d, b)) {
			lose_profile(d, b, SP_LOSS_TOO_OLD, 0);
			continue;
		}
		if (!may_open(b)) {
			lose_profile(d, b, SP_LOSS_UNSENT, 0);
			continue;
		}
		/*
		 * The server has found profiles of this size too large, so this one is cut before
		 * it is sent.
		 */
		if (records(b) > most_records(d) && cut(d, b, b->message.first, d->most))
			b->status = d->learnt_status;
		begin_with(d, b);
	}
}

static void took(struct sp_destination *d, struct sp_queued *b)
{
	const struct sp_core_ops *ops = b->origin->ops;
	struct sp_delivery *delivery = &b->origin->delivery[d->number];
	uint64_t samples = samples_of_message(b);

	ops->counter_add(ops->arg, SP_COUNT_UPLOADS, 1);
	ops->counter_add(ops->arg, is_of_waits(b) ? SP_COUNT_WAITS_SENT : SP_COUNT_SAMPLES_SENT,
			 sp_account_sent(b->account, d->number, samples));
	delivery->samples_sent += is_of_waits(b) ? 0 : samples;
	delivery->waits_sent += is_of_waits(b) ? samples : 0;
	d->trust.has_type[b->message.type] = true;
	if (b->message.plain > d->trust.plain)
		d->trust.plain = b->message.plain;
	if (b->was_too_large && b->most < most_records(d)) {
		d->most = b->most;
		d->learnt_status = b->status;
		d->learnt_ns = now(d);
	} else if (b->limited != 0 && b->most <= most_records(d) / 2) {
		/* The server has capacity again, so the next part may be larger. */
		b->most *= 2;
	}
	b->was_too_large = false;
	b->refusals = 0;
	go_on_with(d, b);
}

/*
 * An empty push has ended. If it was answered, the other side is not a forwarder without a server.
 * True: the next request may begin at once.
 */
static bool ended_probe(struct sp_destination *d, const struct request *q)
{
	bool is_answered = sp_reply_answered(&d->reply);

	tell_try(d, NULL, 0, now(d) - q->begun_ns);
	if (is_answered) {
		d->is_probing = false;
		return true;
	}
	sp_push_results_add(&d->results, d->ops, &d->reply);
	sp_backoff_count(&d->backoff, q->era, false);
	retry_later(d, &d->reply);
	return false;
}

/* Handles the profiles of a request that has ended. True: the next request may begin at once. */
static bool ended_profiles(struct sp_destination *d, unsigned slot, const struct request *q)
{
	bool is_good = sp_reply_good(&d->reply);
	bool is_one = q->profiles == 1;
	bool goes_on = is_good || is_one || failed_together(d, q, &d->reply);

	for (struct sp_queued *b; (b = sp_backlog_in(&d->backlog, slot)) != NULL;) {
		sp_backlog_end(&d->backlog, b);
		if (sp_reply_again(&d->reply))
			b->tries++;
		tell_try(d, b, samples_of_message(b), now(d) - q->begun_ns);
		if (is_good)
			took(d, b);
		else if (is_one)
			goes_on = failed(d, b, &d->reply);
		else
			fail_one_of_many(d, b, &d->reply);
	}
	return goes_on;
}

static void note_success(struct sp_destination *d)
{
	struct trust *t = &d->trust;

	t->profiles = t->profiles < SP_PUSH_REQUEST_PROFILES / SP_PUSH_GROWTH
			      ? t->profiles * SP_PUSH_GROWTH
			      : SP_PUSH_REQUEST_PROFILES;
	sp_push_results_log_success(&d->results, d->ops);
	if (d->reply.is_otlp && d->reply.text_len != 0)
		sp_push_results_log_remark(&d->results, d->ops, &d->reply, now(d));
}

/* The request in that slot has ended with d->reply. True: the next request may begin at once. */
static bool ended(struct sp_destination *d, unsigned slot)
{
	struct request q = d->request[slot];
	bool goes_on;

	/* We stopped the request before all of it was sent, so its profiles wait again. */
	if (d->reply.kind == SP_REPLY_ABORTED && (q.is_probe || !sp_reply_unknown(&d->reply))) {
		for (struct sp_queued *b; (b = sp_backlog_in(&d->backlog, slot)) != NULL;)
			sp_backlog_end(&d->backlog, b);
		end_request(d, slot);
		return false;
	}
	if (q.is_probe) {
		goes_on = ended_probe(d, &q);
	} else {
		bool is_good = sp_reply_good(&d->reply);

		sp_push_results_add(&d->results, d->ops, &d->reply);
		sp_backoff_count(&d->backoff, q.era, is_good);
		if (is_good)
			note_success(d);
		else
			d->trust.profiles = 1;
		d->is_probing = d->is_probing || sp_reply_unknown(&d->reply);
		goes_on = ended_profiles(d, slot, &q);
	}
	end_request(d, slot);
	/* A process does not wait for a server that is not there. */
	if (!goes_on && d->is_awaited && !sp_reply_soon(&d->reply))
		d->is_over = true;
	return goes_on;
}

static void drop_old(struct sp_destination *d)
{
	while (sp_backlog_has_waiting(&d->backlog) && is_too_old(d, sp_backlog_oldest(&d->backlog)))
		lose_profile(d, sp_backlog_oldest(&d->backlog), SP_LOSS_TOO_OLD, 0);
}

void sp_destination_run(struct sp_destination *d, unsigned most)
{
	bool goes_on = true;
	unsigned slot;

	drop_old(d);
	for (unsigned i = 0; i < most; i++) {
		if (goes_on)
			begin(d);
		if (d->requests == 0 || !d->env.poll(d->env.transport_arg, &slot, &d->reply))
			break;
		goes_on = ended(d, slot) && goes_on;
		drop_old(d);
	}
}

void sp_destination_abandon(struct sp_destination *d)
{
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++) {
		if (!d->request[slot].is_used)
			continue;
		d->env.stop(d->env.transport_arg, slot, &d->reply);
		(void)ended(d, slot);
	}
	while (sp_backlog_has_waiting(&d->backlog))
		lose_profile(d, sp_backlog_oldest(&d->backlog), SP_LOSS_UNSENT, 0);
}

void sp_destination_flush(struct sp_destination *d, bool is_awaited)
{
	d->flushing = true;
	d->is_awaited = is_awaited;
	d->is_over = false;
	d->no_room = d->backlog.n + SP_PUSH_FLUSH_LIMITED;
	d->backoff.until_ns = now(d);
}

bool sp_destination_flushed(struct sp_destination *d)
{
	uint64_t left_ns = d->ops->flush_left_ms(d->ops->arg) * SP_NS_PER_MS;

	d->is_over =
		d->is_over || d->backlog.n == 0 || left_ns == 0 ||
		(d->requests == 0 && (now(d) + left_ns <= d->backoff.until_ns || waiting(d) == 0));
	return d->is_over;
}

void sp_destination_log_unsent(const struct sp_destination *d)
{
	const struct sp_backlog *q = &d->backlog;
	uint64_t samples = 0;

	for (uint32_t i = 0; i < q->n; i++)
		samples += q->profile[i].samples;
	if (d->is_awaited && q->n != 0)
		sp_export_log(d->ops, SP_LOG_WARN,
			      "the process ends before %s has taken the last %s (samples: "
			      "%" PRIu64 ")",
			      d->env.name != NULL ? d->env.name : "the server",
			      q->n == 1 ? "profile" : "profiles", samples);
}

void sp_destination_resume(struct sp_destination *d)
{
	d->flushing = d->is_awaited = d->is_over = false;
}

void sp_destination_count_unsent(struct sp_destination *d)
{
	for (uint32_t i = 0; i < d->backlog.n; i++)
		count_loss(d, &d->backlog.profile[i], d->backlog.profile[i].samples, SP_LOSS_UNSENT,
			   0);
}

static uint32_t ms_until(uint64_t then_ns, uint64_t now_ns)
{
	uint64_t ms = then_ns > now_ns ? (then_ns - now_ns - 1) / SP_NS_PER_MS + 1 : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

uint32_t sp_destination_due_ms(const struct sp_destination *d)
{
	const struct sp_backlog *q = &d->backlog;
	uint64_t t = now(d);
	uint64_t due = d->backoff.until_ns;
	uint64_t early = UINT64_MAX;

	if (q->n == 0 && d->requests == 0)
		return UINT32_MAX;
	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way && q->profile[i].not_before_ns < early)
			early = q->profile[i].not_before_ns;
	if (early != UINT64_MAX && early > due)
		due = early;
	if (d->requests != 0 || d->is_over)
		due = t + SP_PUSH_LOOK_NS;
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++) {
		uint64_t end = d->request[slot].begun_ns + d->limits.timeout_ms * SP_NS_PER_MS;

		if (d->request[slot].is_used && end < due)
			due = end;
	}
	if (d->flushing && !d->is_over) {
		uint64_t end = t + d->ops->flush_left_ms(d->ops->arg) * SP_NS_PER_MS;

		due = end < due ? end : due;
	}
	return ms_until(due, t);
}

uint32_t sp_destination_queued(const struct sp_destination *d)
{
	return d->backlog.n;
}

uint32_t sp_destination_requests(const struct sp_destination *d)
{
	return d->requests;
}

const struct sp_push_results *sp_destination_results(const struct sp_destination *d)
{
	return &d->results;
}
