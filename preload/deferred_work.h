/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred work: what has to be done in a process that samples, and by nobody but itself: threads that were
 * never seen being born, CPU accounts, old spans, the sampling signal. The exporter says when, by the
 * region's work bits, and the next hook of any thread does it.
 */
#ifndef SP_DEFERRED_WORK_H
#define SP_DEFERRED_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/region.h"

/* APP, while sampling is on. Somebody asks for something, or the exporter has not yet begun. */
static inline bool sp_deferred_work_is_due(void)
{
	struct sp_region *r = sp_region_now();

	return atomic_load_explicit(&r->deferred_work, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&r->exporter, memory_order_relaxed) != SP_EXPORTER_WORKING;
}

/*
 * APP, inside the reentrancy guard. Does what is asked for, unless another thread is at it. errno preserved.
 */
void sp_deferred_work_run(void);

/* APP, before a flush: what was still written to regions of former exporters is told to this one. */
void sp_deferred_work_account(void);

/*
 * APP, inside the reentrancy guard: a flush found nobody to answer it. True if there is another exporter
 * now, which can be asked; if not, that is said.
 */
bool sp_deferred_work_revive(void);

/*
 * APP. Waits until no thread is at any of this, the start of another exporter among it, and lets none
 * begin before leave(). False after that time: then there is nothing to leave.
 */
bool sp_deferred_work_keep_off(uint64_t most_ns);
void sp_deferred_work_leave(void);

/* Forked child: whoever was at it is not here. */
void sp_deferred_work_forked(void);

/* APP. Brings what the region says of this process up to date, before a flush too. */
void sp_deferred_work_publish(void);

#endif
