/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring between the signal handlers of all threads (many producers, SIG) and the exporter (one
 * consumer). Records have variable length. A full ring drops the new record and counts it, because
 * a handler must never wait. put = drained + dropped, exactly.
 *
 * A record that a sampled block was freed must never be dropped: without it the block would stay in
 * the profile of memory in use for ever. So no other record may use the room that the live sampled
 * blocks will need. (A sample in the snapshot ring reserves that room one record late.)
 *
 * A record starts with one 8-byte header word: its kind and its length in bytes. Free memory is all
 * zero, so a zero header means "reserved but not yet committed" or "free"; the consumer stops
 * there.
 *
 * Both ends and all words are in memory that other processes may write to meanwhile. So each side
 * has a private view (struct sp_ring) of the values that must not change. Whatever the shared
 * memory contains, no side reads or writes outside of the ring, and every loop ends.
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
	char pad[56];          /* puts head and tail on cache lines of their own */
	_Atomic uint64_t tail; /* of the consumer; everything before it is free and zero */
	char pad2[56];
};

/* The words follow the ends on a page of their own. */
#define SP_RING_WORDS_AT 4096U
#define SP_RING_SIZE_MIN 8192U

/* The memory that a ring of that size (a power of two) needs. */
#define SP_RING_BYTES(size) (SP_RING_WORDS_AT + (size))

/* One side's view. All zero = a ring without memory: nothing can be put or taken. */
struct sp_ring {
	struct sp_ring_ends *ends;
	_Atomic uint64_t *word;
	uint64_t size; /* bytes, a power of two */

	/* Used by the consumer only. */
	uint64_t taken; /* its own copy of the tail */
	/* how often it found a record, or the whole ring, damaged and dropped it */
	uint64_t damaged;
	uint64_t unfinished; /* records of dead producers that sp_ring_pass() has passed */
};

/*
 * APP, and the exporter. Makes a view of the ring in that page-aligned memory. Its size is the
 * largest power of two that fits. A consumer goes on at the shared tail. 0, or -EINVAL if the
 * memory is too small.
 */
int sp_ring_at(struct sp_ring *r, void *part, uint64_t bytes);

/* How many sampled blocks are not reported as freed yet; NULL = frees are not reported. */
SP_HIDDEN const _Atomic uint64_t *_Atomic sp_ring_blocks;

/* A piece of a record, in whole words. The record is its pieces one after the other. */
struct sp_ring_part {
	const void *at;
	uint64_t bytes;
};

/* SIG. 0, or -ENOSPC (the caller counts). At least one word in all. */
SP_SIGSAFE int sp_ring_put_parts(struct sp_ring *r, enum sp_record_kind kind,
				 const struct sp_ring_part *part, unsigned n);

/* SIG. sp_ring_put_parts() for a record in one piece. */
SP_SIGSAFE int sp_ring_put(struct sp_ring *r, enum sp_record_kind kind, const void *record,
			   uint64_t bytes);

/*
 * SIG. Whether less than three quarters of the ring are in use or reserved for frees. A program may
 * have thousands of sampled allocations for each CPU sample. If the ring has no reserve, samples of
 * allocations are dropped, so that samples of CPU time still find room.
 */
SP_SIGSAFE bool sp_ring_has_reserve(const struct sp_ring *r);

/*
 * Consumer. Copies at most size bytes of the oldest record to out, sets *kind and removes the
 * record. Returns its bytes, or 0 if there is none. Only the consumer can change the copy, but its
 * content may be anything, its kind included (except a pad).
 */
uint64_t sp_ring_take(struct sp_ring *r, uint32_t *kind, void *out, uint64_t size);

/*
 * Consumer. Calls put() for at most max records in order, each valid during the call; returns their
 * number. Each is of a kind that struct sp_record has, has the length of that kind, and the name of
 * its thread ends with a NUL. Other records are counted as damaged and skipped.
 */
unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_record *record, void *arg),
		       void *arg, unsigned max);

/*
 * sp_ring_drain() for a ring of snapshots. A snapshot whose lengths contradict each other is
 * counted as damaged and skipped.
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
 * The channel to the exporter, for samples and records of unsampled CPU time: the rings of one
 * region and its counter of puts. A new exporter has a new region, with another channel. A thread
 * that still uses the old channel finishes its record there. A channel does not change while it is
 * in use.
 */
struct sp_channel {
	struct sp_ring ring;
	struct sp_ring snapshots; /* without memory if the handler makes no snapshots */
	/* span names, each before the first record with its id (names.h) */
	struct sp_ring names;
	uint32_t number; /* unique in this process and its ancestors */
	/*
	 * SP_COUNT_SAMPLES_PUT of the same region, so that the balance of each region is exact.
	 * NULL: the counter in use.
	 */
	_Atomic uint64_t *put;
	_Atomic uint32_t *deferred_work; /* of the region; NULL if there is none */
};

/* The channel of a process without a region: everything put there is dropped. */
extern struct sp_channel sp_channel_nowhere;
/* The channel in use; never NULL. */
extern _Atomic(struct sp_channel *) sp_channel_open;

/* Any context. A writer gets it once and uses it for all pieces of a record. */
static inline SP_SIGSAFE struct sp_channel *sp_channel_now(void)
{
	/* pairs with the release by which it was opened: its rings are set up */
	return atomic_load_explicit(&sp_channel_open, memory_order_acquire);
}

/* Any context. Counts a sample, or a record of unsampled time, that was put. */
static inline SP_SIGSAFE void sp_channel_count_put(const struct sp_channel *o)
{
	if (o->put != NULL)
		atomic_fetch_add_explicit(o->put, 1, memory_order_relaxed);
	else
		sp_count(SP_COUNT_SAMPLES_PUT);
}

#endif
