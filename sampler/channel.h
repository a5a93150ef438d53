/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel to the exporter, where samples and records of unsampled CPU time go: the rings and the
 * balance of one region. Another region, after the exporter was started again, has another channel; who has
 * the old one meanwhile goes on with it.
 */
#ifndef SP_CHANNEL_H
#define SP_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/counters.h"
#include "sampler/ring.h"

/* Does not change while it is in use. */
struct sp_channel {
	struct sp_ring ring;
	struct sp_ring snapshots; /* has no memory if none are to be made */
	/*
	 * SP_COUNT_SAMPLES_PUT of the same region, or NULL: that of all. So each region's balance is right.
	 */
	_Atomic uint64_t *put;
	_Atomic uint32_t *deferred_work; /* of the region, NULL if there is none */
};

/* That of a process without a region: all that is put there is dropped. */
extern struct sp_channel sp_channel_nowhere;
/* The one that is in use; never NULL. */
extern _Atomic(struct sp_channel *) sp_channel_open;

/* Any context. Whoever puts something down takes it once, and uses that for all of it. */
static inline SP_SIGSAFE struct sp_channel *sp_channel_now(void)
{
	/* pairs with the release of who opened it: its rings before itself */
	return atomic_load_explicit(&sp_channel_open, memory_order_acquire);
}

/* Any context. A sample or a record of unsampled time is in its ring. */
static inline SP_SIGSAFE void sp_channel_count_put(const struct sp_channel *o)
{
	/* pairs with the acquire in sp_counters_collect(): who finds it counted finds it in the ring */
	if (o->put != NULL)
		atomic_fetch_add_explicit(o->put, 1, memory_order_release);
	else
		sp_count(SP_COUNT_SAMPLES_PUT);
}

#endif
