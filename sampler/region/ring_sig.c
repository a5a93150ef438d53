/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producer side of the ring. A producer reserves space by a compare-and-swap of the head, writes
 * the record, and commits it by a store of the header. Runs in the signal handler of any thread;
 * lock-free and bounded.
 */
#include "sampler/region/ring.h"

#include <errno.h>

#include "sampler/region/names.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Losing this many races in a row takes hundreds of threads in the handler: drop and count. */
#define PUT_TRIES 128

const _Atomic uint64_t *_Atomic sp_ring_blocks;

/*
 * The room that other records must not use, because the records of freed blocks need it. Each block
 * needs a header and a word, and the end of the ring, which the free part contains at most once,
 * needs one more word. The number of blocks may be negative: a handler of the host that interrupts
 * a count may fork.
 */
static uint64_t kept_from(enum sp_record_kind kind)
{
	const _Atomic uint64_t *blocks =
		atomic_load_explicit(&sp_ring_blocks, memory_order_relaxed);
	uint64_t n;

	if (blocks == NULL || kind == SP_RECORD_FREED || kind == SP_RECORD_SNAPSHOT ||
	    kind == SP_RECORD_NAME)
		return 0;
	n = atomic_load_explicit(blocks, memory_order_relaxed);
	return (int64_t)n > 0 ? (2 * n + 1) * sizeof(uint64_t) : 0;
}

/*
 * Reserves `need` bytes. If they do not fit before the ring's end, the rest up to the end is
 * reserved too, as padding.
 *
 * A producer that reads this head also sees the count of blocks of the records before it: each
 * block was counted before the place of its sample was reserved. So the exchange of the head
 * releases, and every load of it that leads to an exchange acquires.
 */
static int reserve(struct sp_ring *r, enum sp_record_kind kind, uint64_t need, uint64_t *at,
		   uint64_t *skip)
{
	uint64_t head = atomic_load_explicit(&r->ends->head, memory_order_acquire);

	for (int i = 0; i < PUT_TRIES; i++) {
		/* pairs with the release of tail in free_taken(): the freed words are zero */
		uint64_t tail = atomic_load_explicit(&r->ends->tail, memory_order_acquire);
		uint64_t end = r->size - (head & (r->size - 1));

		/*
		 * The consumer has passed the head that we read: the head is stale, the ring is not
		 * full.
		 */
		if ((int64_t)(head - tail) < 0) {
			head = atomic_load_explicit(&r->ends->head, memory_order_acquire);
			continue;
		}
		*skip = end < need ? end : 0;
		if (head - tail + *skip + need + kept_from(kind) > r->size)
			return -ENOSPC;
		*at = head;
		if (atomic_compare_exchange_weak_explicit(&r->ends->head, &head,
							  head + *skip + need, memory_order_acq_rel,
							  memory_order_acquire))
			return 0;
	}
	return -ENOSPC;
}

SP_SIGSAFE bool sp_ring_has_reserve(const struct sp_ring *r)
{
	uint64_t tail;
	uint64_t head;

	if (r->ends == NULL)
		return false;
	/* The tail is read first: a head is never behind a tail that was read before it. */
	tail = atomic_load_explicit(&r->ends->tail, memory_order_relaxed);
	head = atomic_load_explicit(&r->ends->head, memory_order_relaxed);
	return head - tail + kept_from(SP_RECORD_SAMPLE) < r->size / 4 * 3;
}

/* The pieces may be the stack of any thread, with red zones that the sanitizers must not report. */
SP_RAW static void copy(_Atomic uint64_t *to, const struct sp_ring_part *part)
{
	const volatile uint64_t *from = part->at;
	const uint64_t words = part->bytes / sizeof(*from);

	for (uint64_t i = 0; i < words; i++)
		atomic_store_explicit(&to[i], from[i], memory_order_relaxed);
}

SP_SIGSAFE int sp_ring_put_parts(struct sp_ring *r, enum sp_record_kind kind,
				 const struct sp_ring_part *part, unsigned n)
{
	_Atomic uint64_t *to;
	uint64_t len = 0;
	uint64_t mask;
	uint64_t skip;
	uint64_t at;

	for (unsigned i = 0; i < n; i++)
		len += part[i].bytes;
	if (r->word == NULL || reserve(r, kind, len + sizeof(uint64_t), &at, &skip) != 0)
		return -ENOSPC;
	mask = r->size / sizeof(uint64_t) - 1;
	if (skip != 0) {
		/* pairs with the acquire in sp_ring_take() */
		atomic_store_explicit(&r->word[(at / 8) & mask],
				      SP_RING_HEADER(SP_RECORD_PAD, skip), memory_order_release);
		at += skip;
	}
	to = &r->word[(at / 8) & mask] + 1;
	for (unsigned i = 0; i < n; i++) {
		copy(to, &part[i]);
		to += part[i].bytes / sizeof(*to);
	}
	/* pairs with the acquire in sp_ring_take(): the record before its header */
	atomic_store_explicit(&r->word[(at / 8) & mask], SP_RING_HEADER(kind, len),
			      memory_order_release);
	return 0;
}

SP_SIGSAFE int sp_ring_put(struct sp_ring *r, enum sp_record_kind kind, const void *record,
			   uint64_t bytes)
{
	struct sp_ring_part part = {record, bytes};

	return sp_ring_put_parts(r, kind, &part, 1);
}

struct sp_channel sp_channel_nowhere;
_Atomic(struct sp_channel *) sp_channel_open = &sp_channel_nowhere;

_Atomic(struct sp_names *) sp_names;

/*
 * Puts the record into the ring first and marks the name afterwards. So a thread that finds the
 * mark puts its sample after the record.
 */
SP_SIGSAFE bool sp_names_announce(struct sp_channel *o, uint32_t id)
{
	struct sp_name *name = sp_names_of(id);
	struct sp_name_head head;
	struct sp_ring_part part[2];

	/* pairs with the release below: the record is in the ring */
	if (name == NULL || atomic_load_explicit(&name->told, memory_order_acquire) == o->number)
		return true;
	head = (struct sp_name_head){id, name->len};
	part[0] = (struct sp_ring_part){&head, sizeof(head)};
	part[1] = (struct sp_ring_part){name->bytes, SP_NAME_WORDS(name->len)};
	if (sp_ring_put_parts(&o->names, SP_RECORD_NAME, part, 2) != 0)
		return false;
	atomic_store_explicit(&name->told, o->number, memory_order_release);
	return true;
}
