/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes on in a new region, for a new exporter, while other threads and their handlers run. It is
 * needed when the exporter of the old region has ended, or does not serve this process. Nobody
 * waits: a thread that is writing to the old region finishes there, and what it put is counted as lost
 * later, so the addresses of old regions stay, and only after a minute does another region come there.
 * put = drained + dropped stays exact, and so does drained = sent + lost + records of unsampled time.
 */
#ifndef SP_REGION_SWAP_H
#define SP_REGION_SWAP_H

#include <stdint.h>

#include "sampler/region/region.h"

/*
 * APP, at activation: the first region that was made is in use from now on, with its rings and
 * counters.
 */
void sp_region_swap_first(struct sp_region *r);

/* What was put, is not in the new region, and was neither sent nor told as lost by the exporter that has ended. */
struct sp_region_loss {
	uint64_t samples;
	uint64_t waits;
};

/*
 * APP, one thread at a time, when the exporter of the region in use no longer touches it. Returns
 * the descriptor of a new region, which is in use from then on, or a negative errno; then nothing
 * has changed. -EADDRNOTAVAIL: it is possible again a minute after other regions were replaced. What was in the old rings is in the new ones, as far as it has room. *loss is counted as
 * lost now. The addresses of a former region may be those of the new one, but for that of kept, by which somebody
 * knows it; NULL = none.
 */
int sp_region_swap(const struct sp_region *kept, struct sp_region_loss *loss);

/* APP, when no exporter will follow: how many records were put and neither sent nor told as lost. */
uint64_t sp_region_swap_unsent(void);

/*
 * APP, one thread at a time. Counts what was still written to old regions. Cheap if there are none.
 */
void sp_region_swap_look(void);

/*
 * Forked child: forgets the regions of the parent. Also right if another thread of the parent was
 * swapping.
 */
void sp_region_swap_forked(void);

#endif
