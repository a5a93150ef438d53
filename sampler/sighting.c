/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the table of objects that the exporter was told of. Contexts: APP, forked child. */
#include "sampler/sighting.h"

static const _Atomic uint32_t never;

void sp_sighting_init(struct sp_ring *ring, const _Atomic uint32_t *again)
{
	sp_sighting_state.again = again != NULL ? again : &never;
	sp_sighting_state.ring = ring;
}

void sp_sighting_forked(void)
{
	sp_sighting_state.again = &never;
	atomic_fetch_add_explicit(&sp_sighting_state.forks, 1, memory_order_relaxed);
}
