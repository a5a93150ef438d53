/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the region by a new one while other threads sample (region_swap.h). Each lost record
 * must be counted, and no record may change its meaning. Both depend on the order of the steps.
 *
 * First the records that no exporter has taken are copied into the new rings while handlers still
 * write to the old ones, so that a module event stays before the samples that need it. The names of
 * spans are announced again, because the new exporter has not seen them. Then the handlers are
 * pointed to the new region, where they announce all objects again. Records that they still write
 * into an old ring are lost, because their position in the order is gone.
 *
 * The number of lost records is a difference: all records that were put, less the copied records,
 * less the records that the old exporter had sent or counted as lost. The old rings are not read
 * again; records that arrive late only raise the counter of puts in their region.
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
#include "sampler/region/root_durations.h"
#include "sampler/unwind/object_sig.h"

/* After this time no handler uses the old rings any more, unless its thread is stopped. */
#define SETTLE_NS (2 * SP_NS_PER_S)
/*
 * After this further time another region may get the addresses: address space is bounded, and a
 * process may outlive any number of siblings that start its exporters. If a thread was stopped in
 * its handler all the time, it finds the same rings there, but overwrites another record with its
 * unfinished one.
 */
#define REST_NS (60 * SP_NS_PER_S)

struct place {
	struct sp_region *region;
	struct sp_channel channel;
	uint64_t settle_ns; /* for a replaced region: from then on no thread writes there */
	bool is_discarded;  /* sp_region_discard(); puts of late writers are still counted */
};

static struct place place[SP_REGIONS_MAX];
static unsigned places;
static struct place *current; /* in use */
/*
 * The number of channels so far. A name stores the number of the last channel to which it was
 * announced. So a forked child continues the count of its parent: its first channel has a number
 * that no name has.
 */
static uint32_t channels;
/*
 * Lost records of former regions that are not counted yet. Negative for a moment if a record was
 * carried over before its handler counted it.
 */
static int64_t lost;

/* Holds one record of any kind; a snapshot is the longest. One thread at a time. */
static struct sp_snapshot record;
_Static_assert(sizeof(record) >= sizeof(struct sp_sample), "no record is longer than a snapshot");

/* name_id has the same offset in samples, snapshots, records of CPU time and slow roots. */
_Static_assert(offsetof(struct sp_sample, name_id) == offsetof(struct sp_cpu_time, name_id) &&
		       offsetof(struct sp_sample, name_id) ==
			       offsetof(struct sp_slow_root, name_id) &&
		       offsetof(struct sp_snapshot, sample) == 0,
	       "one place for the name");
static uint32_t name_of_record(void)
{
	return ((const struct sp_sample *)(const void *)&record)->name_id;
}

/*
 * The ring in that part of the region, at the position where its consumer stopped. If the region
 * has no such part, the ring has no memory.
 */
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
	/*
	 * A region at the same addresses has the rings at the same addresses, and a late handler
	 * must find them there at every instruction.
	 */
	if (is_again)
		return;
	ring_in(r, SP_REGION_RING, &p->channel.ring);
	ring_in(r, SP_REGION_SNAPSHOTS, &p->channel.snapshots);
	ring_in(r, SP_REGION_NAMES, &p->channel.names);
	p->channel.put = &r->counter[SP_COUNT_SAMPLES_PUT];
	p->channel.deferred_work = &r->deferred_work;
}

/*
 * From here on handlers use the new rings. The ring for module events is changed first, so that a
 * handler that finds the new channel announces its objects in the new ring, too.
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
 * Copies at most as many bytes as the ring holds, because threads may still be filling it. Returns
 * how many of the copied records their writer counted (sp_channel_count_put()).
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
		bool is_root = kind == SP_RECORD_SLOW_ROOT;

		bytes += len + sizeof(uint64_t);
		len = len < sizeof(record) ? len : sizeof(record);
		/*
		 * The record that says that the block was freed may stay in the old ring. Then the
		 * block would be in use for ever.
		 */
		if (is_sample)
			record.sample[offsetof(struct sp_sample, block) / sizeof(uint64_t)] = 0;
		if (((!counts && !is_root) || sp_names_announce(&to->channel, name_of_record())) &&
		    sp_ring_put(ring, (enum sp_record_kind)kind, &record, len) == 0)
			carried += counts;
		else if (is_root)
			sp_count(SP_COUNT_DROP_SLOW_ROOTS);
	}
	return carried;
}

/* Counts the lost records: their exporter is gone, and their kinds are unknown. */
static void tell_lost(void)
{
	if (lost <= 0)
		return;
	sp_count_add(SP_COUNT_SAMPLES_DRAINED, (uint64_t)lost);
	sp_count_add(SP_COUNT_SAMPLES_UNSENT, (uint64_t)lost);
	lost = 0;
}

void sp_region_swap_count_late(void)
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

/*
 * The number of put records that were neither sent nor counted as lost. Impossible numbers come
 * from another writer of the shared memory.
 */
static int64_t unaccounted(const struct sp_region *r, uint64_t put)
{
	uint64_t known = sp_count_read(SP_COUNT_SAMPLES_UNSENT) + told(r, SP_COUNT_SAMPLES_SENT) +
			 told(r, SP_COUNT_SAMPLES_UNSENT) + told(r, SP_COUNT_UNSAMPLED_DRAINED);

	return put < SP_COUNT_MOST && known < SP_COUNT_MOST ? (int64_t)(put - known) : 0;
}

/* Slow roots that the old exporter has taken, and has neither written nor counted as left out. */
static uint64_t roots_in_hand(const struct sp_region *old)
{
	uint64_t taken = told(old, SP_COUNT_SLOW_ROOTS_DRAINED);
	uint64_t known =
		told(old, SP_COUNT_SLOW_ROOTS_SENT) + told(old, SP_COUNT_SLOW_ROOTS_FASTER) +
		told(old, SP_COUNT_SLOW_ROOTS_OTHER) + told(old, SP_COUNT_SLOW_ROOTS_UNSENT);

	return taken < SP_COUNT_MOST && known < taken ? taken - known : 0;
}

/*
 * The new exporter continues the counts of the old one, as if the old one had taken only the
 * records that it sent or counted as lost.
 */
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
	atomic_fetch_add_explicit(&r->exporter_counter[SP_COUNT_SLOW_ROOTS_UNSENT],
				  roots_in_hand(old), memory_order_relaxed);
	waits = waits < SP_COUNT_MOST && known < waits ? waits - known : 0;
	atomic_fetch_add_explicit(&r->exporter_counter[SP_COUNT_WAITS_UNSENT], waits,
				  memory_order_relaxed);
	return waits;
}

/*
 * If address space is limited, sp_arena_share() is a 32nd of the limit. All regions together get
 * four such shares, an eighth.
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

/* NULL = all entries are in use, or were a short time ago. */
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

static void copy_durations(const struct sp_region *old, const struct sp_region *r)
{
	uint64_t bytes;
	const struct sp_root_durations *from = sp_region_part(old, SP_REGION_ROOTS, &bytes);
	struct sp_root_durations *to = sp_region_part(r, SP_REGION_ROOTS, &bytes);

	if (from != NULL && bytes >= sizeof(*to))
		sp_root_durations_copy(from, to);
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
	/*
	 * Late puts into the previous region are counted before another region replaces the current
	 * one.
	 */
	sp_region_swap_count_late();
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
	/* In a forked child the entry has its parent's region, maybe at the same address. */
	if (is_new)
		memset(to, 0, sizeof(*to));
	open_channel(to, r);
	loss->waits = inherit(from->region, r);
	carried = carry_all(from->region, to);
	copy_durations(from->region, r);
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
