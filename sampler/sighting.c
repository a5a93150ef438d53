/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the table of objects that the exporter was told of. Contexts: APP, forked child. */
#include "sampler/sighting.h"

static const _Atomic uint32_t never;

void sp_sighting_init(struct sp_ring *ring, const _Atomic uint32_t *again)
{
	atomic_store_explicit(&sp_sighting_state.again, again != NULL ? again : &never,
			      memory_order_relaxed);
	/* pairs with the acquire in sp_sighting_note(), of a ring that was NULL */
	atomic_store_explicit(&sp_sighting_state.ring, ring, memory_order_release);
}

void sp_sighting_move(struct sp_ring *ring, const _Atomic uint32_t *again)
{
	sp_sighting_init(ring, again);
	/* pairs with the acquire in sp_sighting_note(): what is told anew goes to the new ring */
	atomic_fetch_add_explicit(&sp_sighting_state.moves, 1, memory_order_release);
}

void sp_sighting_forked(void)
{
	atomic_store_explicit(&sp_sighting_state.again, &never, memory_order_relaxed);
	atomic_fetch_add_explicit(&sp_sighting_state.moves, 1, memory_order_relaxed);
}
