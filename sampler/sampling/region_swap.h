/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes on in a new region, for a new exporter, while other threads and their handlers run. It is
 * needed when the exporter of the old region has ended, or does not serve this process. Nobody
 * waits: a thread that is writing to the old region finishes there, and its records are collected
 * later, so old regions stay mapped. put = drained + dropped stays exact, and so does drained =
 * sent + lost + records of unsampled time.
 */
#ifndef SP_REGION_SWAP_H
#define SP_REGION_SWAP_H

#include <stdint.h>

#include "sampler/region/region.h"

/*
 * APP, at activation: the first region that was made is in use from now on, with its rings and
 * counters. The caller sets up the names.
 */
void sp_region_swap_first(struct sp_region *r);

/* What an exporter had taken and neither sent nor counted as lost when it ended. */
struct sp_region_loss {
	uint64_t samples;
	uint64_t waits;
};

/*
 * APP, one thread at a time, when the exporter of the region in use no longer touches it. Returns
 * the descriptor of a new region, which is in use from then on, or a negative errno; then nothing
 * has changed. What was in the old rings is in the new ones. *lost is counted as lost now.
 */
int sp_region_swap(struct sp_region_loss *lost);

/* APP, when no exporter will follow: how many samples were taken and neither sent nor told as lost. */
uint64_t sp_region_swap_unsent(void);

/*
 * APP, one thread at a time. Collects what was still written to old regions. Cheap if there are
 * none.
 */
void sp_region_swap_look(void);

/*
 * Forked child: forgets the regions of the parent. Also right if another thread of the parent was
 * swapping.
 */
void sp_region_swap_forked(void);

#endif
