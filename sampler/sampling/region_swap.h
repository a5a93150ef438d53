/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues in a new region, for a new exporter, while other threads and their handlers run. This
 * is needed if the exporter of the old region has ended, or does not serve this process. No thread
 * waits: a thread that is writing to the old region finishes its record there, and the record is
 * later counted as lost. So old regions stay mapped, and only after a minute may another region get
 * their addresses. put = drained + dropped stays exact, and so does drained = sent + lost + records
 * of unsampled time.
 */
#ifndef SP_REGION_SWAP_H
#define SP_REGION_SWAP_H

#include <stdint.h>

#include "sampler/region/region.h"

/* APP, at activation: from now on the first region is in use, with its rings and counters. */
void sp_region_swap_first(struct sp_region *r);

/*
 * Records that were put, are not in the new region, and were neither sent nor counted as lost by
 * the exporter that has ended.
 */
struct sp_region_loss {
	uint64_t samples;
	uint64_t waits;
};

/*
 * APP, one thread at a time, when no exporter uses the current region any more. Returns the
 * descriptor of a new region, which is in use from then on, or a negative errno; then nothing has
 * changed. -EADDRNOTAVAIL: a swap is possible again a minute after earlier ones. Records in the old
 * rings are copied to the new ones while there is room. The other records are counted as lost, and
 * *loss has their numbers. The new region may reuse the addresses of a former one, except kept,
 * because the keeper is found by its region's address; NULL = none.
 */
int sp_region_swap(const struct sp_region *kept, struct sp_region_loss *loss);

/*
 * APP, when no exporter will follow: the number of put records that were neither sent nor counted
 * as lost.
 */
uint64_t sp_region_swap_unsent(void);

/*
 * APP, one thread at a time. Counts the records that threads have put into old regions since. Cheap
 * if there are none.
 */
void sp_region_swap_count_late(void);

/*
 * Forked child: forgets the parent's regions. Correct even if another thread of the parent was
 * swapping.
 */
void sp_region_swap_forked(void);

#endif
