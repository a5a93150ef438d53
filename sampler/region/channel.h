/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel to the exporter, which takes samples and records of unsampled CPU time: the rings of
 * one region and its counter of puts. When the exporter is started again there is a new region,
 * with a channel of its own. A thread that still holds the old channel finishes with that one.
 */
#ifndef SP_CHANNEL_H
#define SP_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/region/ring.h"

/* Does not change while it is in use. */
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
