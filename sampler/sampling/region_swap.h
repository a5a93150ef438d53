/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes on in a new region, for a new exporter, while other threads and their handlers run. It is
 * needed when the exporter of the old region has ended, or does not serve this process. Nobody
 * waits: a thread that is writing to the old region finishes there, and its records are collected
 * later, so old regions stay mapped. put = drained + dropped stays exact, and so does drained =
 * sent + lost, as far as the old exporter had reported.
 */
#ifndef SP_REGION_SWAP_H
#define SP_REGION_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/region/region.h"

/*
 * APP, at activation: the first region that was made is in use from now on, with its rings and
 * counters. The caller sets up the names.
 */
void sp_region_swap_first(struct sp_region *r);

/*
 * APP, one thread at a time, when the exporter of the region in use no longer touches it. Returns
 * the descriptor of a new region, which is in use from then on, or a negative errno; then nothing
 * has changed. What was in the old rings is in the new ones. *lost is set to the number of samples
 * that the exporter had taken and neither sent nor counted as lost; they are counted as lost now.
 * With sends false (a folder as the sink) there are none.
 */
int sp_region_swap(bool sends, uint64_t *lost);

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
