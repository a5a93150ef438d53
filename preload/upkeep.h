/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be looked after in a process that samples, and by nobody but itself: threads that were
 * never seen being born, CPU accounts, old spans, the sampling signal. The exporter says when, by the
 * region's upkeep bits, and the next hook of any thread does it.
 */
#ifndef SP_UPKEEP_H
#define SP_UPKEEP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sampler/region.h"

/* APP, while sampling is on. Somebody asks for something, or the exporter has not yet begun. */
static inline bool sp_upkeep_is_due(void)
{
	return atomic_load_explicit(&sp_region->upkeep, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&sp_region->exporter, memory_order_relaxed) !=
		       SP_EXPORTER_WORKING;
}

/* APP, inside the guard. Does what is asked for, unless another thread is at it. errno preserved. */
void sp_upkeep_run(void);

/* Forked child: whoever was at it is not here. */
void sp_upkeep_forked(void);

/* APP. Brings what the region says of this process up to date. */
void sp_upkeep_publish(void);

#endif
