/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the region by a new one while other threads sample (region_swap.h). Records must neither
 * be lost uncounted nor get another meaning, and this depends on the order of the steps.
 *
 * First what nobody has taken goes into the new rings while handlers still write to the old ones, so
 * that a module event stays before the samples that need it. The names of spans are told anew, as those
 * that the old exporter took are known to nobody. Then the handlers are pointed to the new region,
 * where they announce all objects again. What they still write into an old ring is lost: its place in the
 * order is gone.
 *
 * All that is lost is one number: what was put, less what was carried over and what the old exporter had
 * sent or told as lost. No old ring is looked at any more; what comes late is seen by its region's counter
 * of puts alone.
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
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/object_sig.h"

/* A handler that still uses an old ring is done by then, unless its thread is stopped. */
#define SETTLE_NS (2 * SP_NS_PER_S)
/*
 * So long after that, the addresses are those of another region: address space is bounded, and a process may outlive
 * any number of siblings that start its exporters. A thread that was stopped in its handler all the time has the same
 * rings there. Only what it had begun to write would be in another record's place.
 */
#define REST_NS (60 * SP_NS_PER_S)

struct place {
	struct sp_region *region;
	struct sp_channel channel;
	uint64_t settle_ns; /* of one that was replaced: nobody writes there any more */
	bool is_discarded;  /* sp_region_discard(); late writers are still counted */
};

static struct place place[SP_REGIONS_MAX];
static unsigned places;
static struct place *current; /* the one in use */
/* A forked child counts on, so that its first channel is none in which its parent told a name. */
static uint32_t channels;
/*
 * Records of former regions that are lost and not yet told. Negative for a moment, if one was carried over before
 * its handler counted it.
 */
static int64_t lost;

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

/* Where its consumer stopped. Without memory if there is no such part. */
static void ring_in(const struct sp_region *r, enum sp_region_parts part, struct sp_ring *ring)
{
	uint64_t bytes = 0;
	void *at = sp_region_part(r, part, &bytes);

	(void)sp_ring_at(ring, at, bytes);
}

static void open_channel(struct place *p, struct sp_region *r)
{
	bool is_again = p->region == r;

	p->region = r;
	p->is_discarded = false;
	p->channel.number = ++channels;
	/* Then the rings are where they were, and a late handler must find them there at every instruction. */
	if (is_again)
		return;
	ring_in(r, SP_REGION_RING, &p->channel.ring);
	ring_in(r, SP_REGION_SNAPSHOTS, &p->channel.snapshots);
	ring_in(r, SP_REGION_NAMES, &p->channel.names);
	p->channel.put = &r->counter[SP_COUNT_SAMPLES_PUT];
	p->channel.deferred_work = &r->deferred_work;
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
	open_channel(p, r);
	places = 1;
	current = p;
	sp_counters_move(r->counter, r->spans);
	lead_handlers(p);
}

/*
 * Takes at most as much as the ring holds, because others may be filling it. How many of the records that were
 * counted when they were put (sp_channel_count_put()) were carried over.
 */
static uint64_t carry_over(struct sp_ring *from, struct place *to, struct sp_ring *ring)
{
	uint64_t carried = 0;
	uint64_t bytes = 0;
	uint32_t kind;
	uint64_t len;

	while (bytes < from->size &&
	       (len = sp_ring_take(from, &kind, &record, sizeof(record))) != 0) {
		bool is_sample = kind == SP_RECORD_SAMPLE || kind == SP_RECORD_SNAPSHOT;
		bool counts = is_sample || kind == SP_RECORD_CPU_TIME;

		bytes += len + sizeof(uint64_t);
		len = len < sizeof(record) ? len : sizeof(record);
		/* That the block was freed may be told in the old ring, where it would stay: in use for ever. */
		if (is_sample)
			record.sample[offsetof(struct sp_sample, block) / sizeof(uint64_t)] = 0;
		if ((!counts || sp_names_tell(&to->channel, name_of_record())) &&
		    sp_ring_put(ring, (enum sp_record_kind)kind, &record, len) == 0)
			carried += counts;
	}
	return carried;
}

/* Whoever sent or told of them is gone, and of what kind they were is not known. */
static void tell_lost(void)
{
	if (lost <= 0)
		return;
	sp_count_add(SP_COUNT_SAMPLES_DRAINED, (uint64_t)lost);
	sp_count_add(SP_COUNT_SAMPLES_UNSENT, (uint64_t)lost);
	lost = 0;
}

void sp_region_swap_look(void)
{
	uint64_t now = places > 1 ? sp_monotonic_ns() : 0;

	for (struct place *p = place; p < place + places; p++) {
		if (p == current)
			continue;
		lost += (int64_t)sp_counters_collect(p->region->counter, p->region->spans);
		if (p->is_discarded || now < p->settle_ns)
			continue;
		p->is_discarded = true;
		sp_region_discard(p->region);
	}
	tell_lost();
}

static uint64_t told(const struct sp_region *r, enum sp_counter c)
{
	return atomic_load_explicit(&r->exporter_counter[c], memory_order_relaxed);
}

/* Of put records, those that nobody has sent or told as lost. Numbers that cannot be are somebody else's. */
static int64_t unaccounted(const struct sp_region *r, uint64_t put)
{
	uint64_t known = sp_count_read(SP_COUNT_SAMPLES_UNSENT) + told(r, SP_COUNT_SAMPLES_SENT) +
			 told(r, SP_COUNT_SAMPLES_UNSENT) + told(r, SP_COUNT_UNSAMPLED_DRAINED);

	return put < SP_COUNT_MOST && known < SP_COUNT_MOST ? (int64_t)(put - known) : 0;
}

/* The new exporter goes on with the counts of the old one, as if that had taken only what it has sent or told as lost. */
static uint64_t inherit(const struct sp_region *old, struct sp_region *r)
{
	uint64_t waits = told(old, SP_COUNT_WAITS);
	uint64_t known = told(old, SP_COUNT_WAITS_SENT) + told(old, SP_COUNT_WAITS_UNSENT);

	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		atomic_store_explicit(&r->exporter_counter[c], told(old, (enum sp_counter)c),
				      memory_order_relaxed);
	atomic_store_explicit(&r->exporter_counter[SP_COUNT_SAMPLES_DRAINED],
			      told(old, SP_COUNT_SAMPLES_SENT) +
				      told(old, SP_COUNT_SAMPLES_UNSENT) +
				      told(old, SP_COUNT_UNSAMPLED_DRAINED),
			      memory_order_relaxed);
	waits = waits < SP_COUNT_MOST && known < waits ? waits - known : 0;
	atomic_fetch_add_explicit(&r->exporter_counter[SP_COUNT_WAITS_UNSENT], waits,
				  memory_order_relaxed);
	return waits;
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
	return *made != NULL || is_room_for(all) ? sp_region_make(bytes, made) : -ENOSPC;
}

/* NULL = all are in use, or were a moment ago. */
static struct place *next_place(const struct sp_region *kept)
{
	uint64_t now = sp_monotonic_ns();

	for (struct place *p = place; p < place + places; p++)
		if (p->is_discarded && p->region != kept && now >= p->settle_ns + REST_NS)
			return p;
	return places < SP_REGIONS_MAX ? &place[places] : NULL;
}

static uint64_t carry_all(const struct sp_region *old, struct place *to)
{
	struct sp_ring ring;
	uint64_t carried;

	ring_in(old, SP_REGION_RING, &ring);
	carried = carry_over(&ring, to, &to->channel.ring);
	ring_in(old, SP_REGION_SNAPSHOTS, &ring);
	return carried + carry_over(&ring, to, &to->channel.snapshots);
}

int sp_region_swap(const struct sp_region *kept, struct sp_region_loss *loss)
{
	int saved = errno;
	struct place *from = current;
	struct place *to;
	struct sp_region *r;
	bool is_new;
	uint64_t carried;
	uint64_t put;
	int fd;

	if (places == 0)
		return -ENOSPC;
	/* Before another region is there, what was counted late in the former one. */
	sp_region_swap_look();
	to = next_place(kept);
	if (to == NULL)
		return -EADDRNOTAVAIL;
	is_new = to == place + places;
	r = is_new ? NULL : to->region;
	fd = make_like(from->region, &r);
	errno = saved;
	if (fd == -ENOSPC && places > 1)
		fd = -EADDRNOTAVAIL;
	if (fd < 0)
		return fd;
	/* A parent had another one there, maybe at the same address. */
	if (is_new)
		memset(to, 0, sizeof(*to));
	open_channel(to, r);
	loss->waits = inherit(from->region, r);
	carried = carry_all(from->region, to);
	lead_handlers(to);
	sp_counters_move(r->counter, r->spans);
	put = sp_counters_collect(from->region->counter, from->region->spans);
	lost = unaccounted(from->region, put) - (int64_t)carried;
	loss->samples = lost > 0 ? (uint64_t)lost : 0;
	tell_lost();
	from->settle_ns = sp_monotonic_ns() + SETTLE_NS;
	places += is_new;
	current = to;
	sp_region_use(r);
	return fd;
}

uint64_t sp_region_swap_unsent(void)
{
	int64_t n = unaccounted(sp_region_now(), sp_count_read(SP_COUNT_SAMPLES_PUT));

	return n > 0 ? (uint64_t)n : 0;
}

void sp_region_swap_forked(void)
{
	places = 0;
	lost = 0;
	sp_module_event_move(&sp_channel_nowhere.ring, NULL);
	atomic_store_explicit(&sp_channel_open, &sp_channel_nowhere, memory_order_relaxed);
}
