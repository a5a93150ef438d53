/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the table of objects that the exporter was told of. Contexts: APP, BG, forked child. */
#include "sampler/sighting.h"

#include <stdatomic.h>

void sp_sighting_init(struct sp_ring *ring)
{
	sp_sighting_state.ring = ring;
}

void sp_sighting_again(void)
{
	atomic_fetch_add_explicit(&sp_sighting_state.generation, 1, memory_order_relaxed);
}
