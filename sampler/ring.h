/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring between the signal handlers of all threads (many producers, SIG) and the background
 * thread (one consumer, BG). Records have variable length; a full ring loses the new record and
 * counts it. put = drained + dropped, exactly.
 *
 * A record starts with one 8-byte header word. Memory ahead of the consumer is all zero, so a
 * zero header means "reserved but not yet committed" or "free"; the consumer stops there.
 */
#ifndef SP_RING_H
#define SP_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/sample.h"

struct sp_ring {
	_Atomic uint64_t head; /* producers reserve here */
	char pad[56];          /* head and tail on cache lines of their own */
	_Atomic uint64_t tail; /* consumer; everything before it is free and zero */
	uint64_t size;         /* bytes, a power of two */
	_Atomic uint64_t *word;
};

/* APP, at activation. size must be a power of two and hold at least two samples. 0 or -ENOMEM. */
int sp_ring_init(struct sp_ring *r, uint64_t size);

/* Forgets everything in it. Only while no producer and no consumer runs (forked child). */
void sp_ring_reset(struct sp_ring *r);

/* Whole words; the record is the parts one after the other. */
struct sp_ring_part {
	const void *at;
	uint64_t bytes;
};

/* SIG. 0, or -ENOSPC (the caller counts). At least one word in all. */
SP_SIGSAFE int sp_ring_put_parts(struct sp_ring *r, const struct sp_ring_part *part, unsigned n);

/* SIG. Copies the used part of the sample. 0, or -ENOSPC (the caller counts). */
SP_SIGSAFE int sp_ring_put(struct sp_ring *r, const struct sp_sample *s);

/*
 * BG. Copies the oldest record to out and removes it. Its bytes, or 0 if there is none. Records are
 * not longer than size.
 */
uint64_t sp_ring_take(struct sp_ring *r, void *out, uint64_t size);

/* BG. Hands out at most max samples in order; returns how many. */
unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_sample *s, void *arg),
		       void *arg, unsigned max);

#define SP_RING_PAD (UINT64_C(1) << 63)

#endif
