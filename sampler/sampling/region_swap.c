/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the region by a new one while other threads sample (region_swap.h). Records must neither
 * be lost uncounted nor get another meaning, and this depends on the order of the steps.
 *
 * First the rings: their content goes into the new rings while handlers still write to the old ones, so
 * that a module event stays before the samples that need it. The names of spans are told anew, as those
 * that the old exporter took are known to nobody. Second the handlers are pointed to the new region,
 * where they announce all objects again. What they wrote into the old rings in between, some microseconds'
 * worth, is counted as lost, because it has no right place in the order any more. Last the
 * counters.
 *
 * Whether anything is missing is found by the balance of each old region: what was put into its
 * rings, less what was taken out. An exporter that was killed may have taken records without
 * counting them.
 */
#include "sampler/sampling/region_swap.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/arena.h"
#include "sampler/base/counters.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/channel.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/module_event.h"
#include "sampler/unwind/snapshot.h"

/* A handler that still uses an old ring is done by then, unless its thread is stopped. */
#define SETTLE_NS (2 * SP_NS_PER_S)

struct place {
	struct sp_region *region;
	struct sp_channel channel;
	uint64_t drained_before; /* drained by former exporters, when this began */
	uint64_t carried_in;     /* records that it got from the region before */
	uint64_t put_elsewhere;  /* of the counter's puts, those into other regions */

	/* Only of a region that was replaced. */
	struct sp_ring ring; /* its consumer is the host now */
	struct sp_ring snapshots;
	int64_t balance;    /* records that were put there and are not accounted for */
	uint64_t settle_ns; /* the time after which nobody writes there any more */
	bool is_discarded;  /* sp_region_discard(); late writers are still counted */
};

static struct place place[SP_REGIONS_MAX];
static unsigned places; /* the last one is in use */
/* A forked child counts on, so that its first channel is none in which its parent told a name. */
static uint32_t channels;

/* One record of any kind, none of which is longer; one thread at a time. */
static struct sp_snapshot record;
_Static_assert(sizeof(record) >= sizeof(struct sp_sample), "no record is longer than a snapshot");

/* Samples, snapshots and CPU time have it at the same place. */
_Static_assert(offsetof(struct sp_sample, name_id) == offsetof(struct sp_cpu_time, name_id) &&
		       offsetof(struct sp_snapshot, sample) == 0,
	       "one place for the name");
static uint32_t name_of_record(void)
{
	return ((const struct sp_sample *)(const void *)&record)->name_id;
}

static void open_channel(struct place *p)
{
	uint64_t bytes = 0;
	void *part = sp_region_part(p->region, SP_REGION_RING, &bytes);

	(void)sp_ring_at(&p->channel.ring, part, bytes);
	part = sp_region_part(p->region, SP_REGION_SNAPSHOTS, &bytes);
	if (part != NULL)
		(void)sp_ring_at(&p->channel.snapshots, part, bytes);
	part = sp_region_part(p->region, SP_REGION_NAMES, &bytes);
	(void)sp_ring_at(&p->channel.names, part, bytes);
	p->channel.number = ++channels;
	p->channel.put = &p->region->counter[SP_COUNT_SAMPLES_PUT];
	p->channel.deferred_work = &p->region->deferred_work;
}

/*
 * From here on handlers use the new rings. The ring for module events first: a handler that finds
 * the new channel announces its objects there too.
 */
static void lead_handlers(struct place *p)
{
	sp_module_event_move(&p->channel.ring, &p->region->generation);
	/* pairs with sp_channel_now() */
	atomic_store_explicit(&sp_channel_open, &p->channel, memory_order_release);
}

void sp_region_swap_first(struct sp_region *r)
{
	struct place *p = &place[0];

	memset(p, 0, sizeof(*p));
	p->region = r;
	open_channel(p);
	places = 1;
	sp_counters_move(r->counter, r->spans);
	lead_handlers(p);
}

/* What was counted when it was put. Unsampled time is nothing that would be sent. */
static void count_lost(uint32_t kind)
{
	sp_count(SP_COUNT_SAMPLES_DRAINED);
	sp_count(kind == SP_RECORD_CPU_TIME ? SP_COUNT_UNSAMPLED_DRAINED : SP_COUNT_SAMPLES_UNSENT);
}

/*
 * Empties an old ring, into that one or, if to is NULL, counting what it drops. Takes at most as
 * much as the ring holds, because others may be filling it. Returns how many samples and records it
 * took out.
 */
static uint64_t empty(struct sp_ring *from, struct place *to, struct sp_ring *ring)
{
	uint64_t taken = 0;
	uint64_t bytes = 0;
	uint32_t kind;
	uint64_t len;

	while (bytes < from->size &&
	       (len = sp_ring_take(from, &kind, &record, sizeof(record))) != 0) {
		bool counts = kind != SP_RECORD_MODULE_EVENT;

		bytes += len + sizeof(uint64_t);
		taken += counts;
		len = len < sizeof(record) ? len : sizeof(record);
		if (to != NULL && (!counts || sp_names_tell(&to->channel, name_of_record())) &&
		    sp_ring_put(ring, (enum sp_record_kind)kind, &record, len) == 0)
			to->carried_in += counts;
		else if (counts)
			count_lost(kind);
	}
	return taken;
}

static void carry_over(struct place *from, struct place *to)
{
	uint64_t taken = empty(&from->ring, to, &to->channel.ring);

	taken += empty(&from->snapshots, to, &to->channel.snapshots);
	from->balance -= (int64_t)taken;
}

static bool is_empty(const struct sp_ring *r)
{
	return r->ends == NULL ||
	       atomic_load_explicit(&r->ends->head, memory_order_relaxed) == r->taken;
}

/* Skips a record that nobody will finish. What it was to be is unknown. */
static void pass_unfinished(struct sp_ring *r)
{
	if (!is_empty(r))
		(void)sp_ring_pass(r);
}

/*
 * What is missing was taken by the exporter, which did not live to count it. Of what kind it was is
 * not known any more: all of it counts as lost samples. A record that is in the ring and not yet
 * counted can make the balance smaller, never larger.
 */
static void settle(struct place *p)
{
	if (!is_empty(&p->ring) || !is_empty(&p->snapshots) || p->balance <= 0)
		return;
	sp_count_add(SP_COUNT_SAMPLES_DRAINED, (uint64_t)p->balance);
	sp_count_add(SP_COUNT_SAMPLES_UNSENT, (uint64_t)p->balance);
	p->balance = 0;
}

static void look_after(struct place *p)
{
	bool is_over = sp_monotonic_ns() >= p->settle_ns;
	uint64_t put;

	/* Counters first: each record is in the ring before it is counted. */
	put = sp_counters_collect(p->region->counter, p->region->spans);
	p->balance += (int64_t)put;
	place[places - 1].put_elsewhere += put;
	if (is_over) {
		pass_unfinished(&p->ring);
		pass_unfinished(&p->snapshots);
	}
	p->balance -= (int64_t)empty(&p->ring, NULL, NULL);
	p->balance -= (int64_t)empty(&p->snapshots, NULL, NULL);
	settle(p);
	if (is_over && !p->is_discarded && is_empty(&p->ring) && is_empty(&p->snapshots)) {
		p->ring = p->snapshots = (struct sp_ring){0};
		p->is_discarded = true;
		sp_region_discard(p->region);
	}
}

void sp_region_swap_look(void)
{
	for (unsigned i = 0; i + 1 < places; i++)
		look_after(&place[i]);
}

static uint64_t told(const struct sp_region *r, enum sp_counter c)
{
	return atomic_load_explicit(&r->exporter_counter[c], memory_order_relaxed);
}

/* Of what the exporter had taken, what it had neither sent nor counted as lost. */
static uint64_t in_its_hands(uint64_t taken, uint64_t accounted)
{
	return taken < SP_COUNT_MOST && accounted < taken ? taken - accounted : 0;
}

/* The new exporter goes on with the counts of the old one. */
static struct sp_region_loss inherit(struct place *from, struct place *to)
{
	const struct sp_region *old = from->region;
	struct sp_region *r = to->region;
	uint64_t drained = told(old, SP_COUNT_SAMPLES_DRAINED);
	const struct sp_region_loss lost = {
		.samples = in_its_hands(drained, told(old, SP_COUNT_SAMPLES_SENT) +
							 told(old, SP_COUNT_SAMPLES_UNSENT) +
							 told(old, SP_COUNT_UNSAMPLED_DRAINED)),
		.waits = in_its_hands(told(old, SP_COUNT_WAITS),
				      told(old, SP_COUNT_WAITS_SENT) +
					      told(old, SP_COUNT_WAITS_UNSENT)),
	};

	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		atomic_store_explicit(&r->exporter_counter[c], told(old, (enum sp_counter)c),
				      memory_order_relaxed);
	atomic_fetch_add_explicit(&r->exporter_counter[SP_COUNT_SAMPLES_UNSENT], lost.samples,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&r->exporter_counter[SP_COUNT_WAITS_UNSENT], lost.waits,
				  memory_order_relaxed);
	to->drained_before = drained;
	from->balance +=
		(int64_t)(from->carried_in + from->drained_before - drained - from->put_elsewhere);
	return lost;
}

/*
 * If address space is limited, sp_arena_share() is a 32nd of it. All regions together get an
 * eighth.
 */
#define SHARES_MAX 4U
static bool is_room_for(uint64_t bytes)
{
	uint64_t share = sp_arena_share(UINT64_MAX);

	return share == UINT64_MAX || (places + 1) * bytes <= SHARES_MAX * share;
}

static int make_like(const struct sp_region *old, struct sp_region **made)
{
	uint64_t bytes[SP_REGION_PARTS];
	uint64_t all = 0;

	for (unsigned i = 0; i < SP_REGION_PARTS; i++) {
		(void)sp_region_part(old, (enum sp_region_parts)i, &bytes[i]);
		all += bytes[i];
	}
	return is_room_for(all) ? sp_region_make(bytes, made) : -ENOMEM;
}

/* The host becomes the consumer of the old rings, starting where the exporter stopped. */
static void take_over_rings(struct place *p)
{
	uint64_t bytes = 0;
	void *part = sp_region_part(p->region, SP_REGION_RING, &bytes);

	(void)sp_ring_at(&p->ring, part, bytes);
	part = sp_region_part(p->region, SP_REGION_SNAPSHOTS, &bytes);
	if (part != NULL)
		(void)sp_ring_at(&p->snapshots, part, bytes);
}

int sp_region_swap(struct sp_region_loss *lost)
{
	int saved = errno;
	struct place *from = &place[places - 1];
	struct place *to = &place[places];
	struct sp_region *r = NULL;
	int fd;

	if (places == 0 || places == SP_REGIONS_MAX)
		return -ENOMEM;
	fd = make_like(from->region, &r);
	errno = saved;
	if (fd < 0)
		return fd;
	memset(to, 0, sizeof(*to));
	to->region = r;
	open_channel(to);
	*lost = inherit(from, to);
	take_over_rings(from);
	carry_over(from, to);
	lead_handlers(to);
	sp_counters_move(r->counter, r->spans);
	from->settle_ns = sp_monotonic_ns() + SETTLE_NS;
	places++;
	sp_region_use(r);
	sp_region_swap_look();
	return fd;
}

uint64_t sp_region_swap_unsent(void)
{
	const struct sp_region *r = sp_region_now();
	uint64_t put = sp_count_read(SP_COUNT_SAMPLES_PUT);
	uint64_t accounted = sp_count_read(SP_COUNT_UNSAMPLED) +
			     sp_count_read(SP_COUNT_SAMPLES_UNSENT) +
			     told(r, SP_COUNT_SAMPLES_SENT) + told(r, SP_COUNT_SAMPLES_UNSENT);

	return in_its_hands(put, accounted);
}

void sp_region_swap_forked(void)
{
	places = 0;
	sp_module_event_move(&sp_channel_nowhere.ring, NULL);
	atomic_store_explicit(&sp_channel_open, &sp_channel_nowhere, memory_order_relaxed);
}
