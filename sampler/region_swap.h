/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on in a new region, for a new exporter, while other threads and their handlers run: the old one's
 * exporter has ended, or does not serve this process. Nobody waits for anybody: who was just writing to
 * the old region finishes there, and what he has written is looked after later. So old regions stay
 * mapped. put = drained + dropped stays exact, and drained = sent + lost as far as the exporter had told.
 */
#ifndef SP_REGION_SWAP_H
#define SP_REGION_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/region.h"

/*
 * APP, at activation: a region that was made here is the one in use from now on, with its rings, counters
 * and all. Names are the caller's.
 */
void sp_region_swap_first(struct sp_region *r);

/*
 * APP, one thread at a time; the exporter of the region in use does not touch it any more. Returns the
 * descriptor of a new region, which is in use, or a negative errno; then all is as before. What lay in
 * the old rings is in the new ones. *lost is set to the number of samples that the exporter had taken and
 * neither sent nor counted as lost; they are counted as lost now. Where it sends nothing there are none.
 */
int sp_region_swap(bool sends, uint64_t *lost);

/* APP, one thread at a time. Looks after what was still written to old regions. Cheap without any. */
void sp_region_swap_look(void);

/* Forked child: all that was its parent's. Also where another thread was swapping. */
void sp_region_swap_forked(void);

#endif
