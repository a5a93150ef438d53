/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring between the signal handlers of all threads (many producers, SIG) and the exporter (one
 * consumer). Records have variable length. A full ring drops the new record and counts it, because
 * a handler must never wait. put = drained + dropped, exactly.
 *
 * That a block was freed has to be told, or it stays in the profile of memory in use for ever. So all other records of
 * the same ring leave as much room as the sampled blocks that are there need for that. A sample by a snapshot is in
 * another ring: where this one is full, the room for its block is kept only from the next record on.
 *
 * A record starts with one 8-byte header word: its kind and its length in bytes. Memory ahead of the
 * consumer is all zero, so a zero header means "reserved but not yet committed" or "free"; the consumer
 * stops there.
 *
 * Both ends and all words are in memory that other processes may write to meanwhile. So each side
 * has a private view (struct sp_ring) of what must not change, and whatever the shared memory
 * contains, nothing outside of it is read or written and every loop ends.
 */
#ifndef SP_RING_H
#define SP_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/region/record.h"

/* At the beginning of the ring's memory; all zero before the first record. */
struct sp_ring_ends {
	_Atomic uint64_t head; /* producers reserve here */
	char pad[56];          /* head and tail on cache lines of their own */
	_Atomic uint64_t tail; /* consumer; everything before it is free and zero */
	char pad2[56];
};

/* The words follow the ends on a page of their own. */
#define SP_RING_WORDS_AT 4096U
#define SP_RING_SIZE_MIN 8192U

/* What memory a ring of that size (a power of two) needs. */
#define SP_RING_BYTES(size) (SP_RING_WORDS_AT + (size))

/* One side's view. All zero = a ring without memory: nothing can be put or taken. */
struct sp_ring {
	struct sp_ring_ends *ends;
	_Atomic uint64_t *word;
	uint64_t size; /* bytes, a power of two */

	/* The consumer's. */
	uint64_t taken; /* the tail, whatever the shared one says */
	uint64_t
		damaged; /* how often what was found could not be, and it, or everything, was thrown away */
	uint64_t unfinished; /* records of dead producers that sp_ring_pass() has passed */
};

/*
 * APP, and the exporter. Makes a view of the ring in that page-aligned memory. Its size is the
 * largest power of two that fits. A consumer goes on where the last one stopped. 0, or -EINVAL if
 * it is too small.
 */
int sp_ring_at(struct sp_ring *r, void *part, uint64_t bytes);

/* How many blocks were sampled and not yet told as freed; NULL = nobody tells that. */
SP_HIDDEN const _Atomic uint64_t *_Atomic sp_ring_blocks;

/* Whole words; the record is the parts one after the other. */
struct sp_ring_part {
	const void *at;
	uint64_t bytes;
};

/* SIG. 0, or -ENOSPC (the caller counts). At least one word in all. */
SP_SIGSAFE int sp_ring_put_parts(struct sp_ring *r, enum sp_record_kind kind,
				 const struct sp_ring_part *part, unsigned n);

/* SIG. The same of a record in one piece. */
SP_SIGSAFE int sp_ring_put(struct sp_ring *r, enum sp_record_kind kind, const void *record,
			   uint64_t bytes);

/*
 * Consumer. Copies the oldest record to out, sets *kind and removes it. Its bytes, or 0 if there is
 * none. Of a record longer than size the rest is dropped. The copy is nobody else's, but what it says
 * may be anything, its kind included, but for a pad.
 */
uint64_t sp_ring_take(struct sp_ring *r, uint32_t *kind, void *out, uint64_t size);

/*
 * Consumer. Hands out at most max records in order, valid during the call; returns how many. Each is of
 * a kind that struct sp_record has, as long as that kind is, and its thread's name ends; what is not is
 * counted as damaged and passed.
 */
unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_record *record, void *arg),
		       void *arg, unsigned max);

/*
 * The same of a ring of snapshots. One whose lengths contradict each other is counted as damaged and passed.
 */
unsigned sp_snapshot_drain(struct sp_ring *r, void (*put)(const struct sp_snapshot *s, void *arg),
			   void *arg, unsigned max);

/*
 * Consumer, when no producer lives any more and nothing can be taken: skips a record that was
 * reserved and never finished, and counts it. False if there is none.
 */
bool sp_ring_pass(struct sp_ring *r);

/* The header word. */
#define SP_RING_HEADER(kind, bytes) ((uint64_t)(kind) << 56 | (bytes))
#define SP_RING_KIND(header) ((uint32_t)((header) >> 56))
#define SP_RING_LENGTH(header) ((header) & ((UINT64_C(1) << 56) - 1))

/*
 * The channel to the exporter, which takes samples and records of unsampled CPU time: the rings of
 * one region and its counter of puts. When the exporter is started again there is a new region,
 * with a channel of its own. A thread that still holds the old channel finishes with that one. It
 * does not change while it is in use.
 */
struct sp_channel {
	struct sp_ring ring;
	struct sp_ring snapshots; /* has no memory if none are to be made */
	struct sp_ring names;     /* span names, each before what has it (names.h) */
	uint32_t number; /* no other one of this process, or of its parents, has the same */
	/*
	 * SP_COUNT_SAMPLES_PUT of the same region, so that each region's balance is exact. NULL:
	 * the counter in use.
	 */
	_Atomic uint64_t *put;
	_Atomic uint32_t *deferred_work; /* of the region, NULL if there is none */
};

/* The channel of a process without a region: everything put there is dropped. */
extern struct sp_channel sp_channel_nowhere;
/* The one that is in use; never NULL. */
extern _Atomic(struct sp_channel *) sp_channel_open;

/* Any context. A writer gets it once and uses the same one for all of a record. */
static inline SP_SIGSAFE struct sp_channel *sp_channel_now(void)
{
	/* pairs with the release by which it was opened: its rings are set up */
	return atomic_load_explicit(&sp_channel_open, memory_order_acquire);
}

/* Any context. A sample or a record of unsampled time is in its ring. */
static inline SP_SIGSAFE void sp_channel_count_put(const struct sp_channel *o)
{
	if (o->put != NULL)
		atomic_fetch_add_explicit(o->put, 1, memory_order_relaxed);
	else
		sp_count(SP_COUNT_SAMPLES_PUT);
}

#endif
