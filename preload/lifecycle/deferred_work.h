/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred work: what only a process itself can do, although it has no thread of ours: enrol
 * threads that no hook saw being created, settle CPU accounts, give up old spans, check the
 * sampling signal. The exporter asks for it by the work bits of the region, and the next hook of
 * any thread does it.
 */
#ifndef SP_DEFERRED_WORK_H
#define SP_DEFERRED_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/region/region.h"

/* For the one below: an exporter that does not work yet was not checked just before. */
bool sp_deferred_work_may_check(void);

/*
 * APP, while sampling is on. Something is asked for, or the exporter does not work, and it is time
 * to see why.
 */
static inline bool sp_deferred_work_is_due(void)
{
	struct sp_region *r = sp_region_now();

	return atomic_load_explicit(&r->deferred_work, memory_order_relaxed) != 0 ||
	       (atomic_load_explicit(&r->exporter, memory_order_relaxed) != SP_EXPORTER_WORKING &&
		sp_deferred_work_may_check());
}

/*
 * APP, inside the reentrancy guard. Does what is asked for, unless another thread is doing it.
 * errno preserved.
 */
void sp_deferred_work_run(void);

/* APP, before a flush: collects what was still written to the regions of former exporters. */
void sp_deferred_work_account(void);

/*
 * APP, after a flush: writes what the exporter has to tell and may not write itself. There may be no
 * later hook that could.
 */
void sp_deferred_work_tell(void);

/*
 * APP, inside the reentrancy guard, after a flush that no exporter answered. True if there is
 * another exporter now, which can be asked. If not, that is logged.
 */
bool sp_deferred_work_revive(void);

/*
 * APP. Waits until no thread does any of this, the start of another exporter included, and lets
 * none begin before sp_deferred_work_leave(). False if that took too long; then there is nothing to
 * leave.
 */
bool sp_deferred_work_keep_off(uint64_t most_ns);
void sp_deferred_work_leave(void);

/*
 * APP, one thread at a time. Enrols threads that no hook saw; if there are many, the next hook of any
 * thread goes on.
 */
void sp_deferred_work_scan(void);

/* APP. A seccomp filter of the program is in: sampling is off for good, and that is told. */
void sp_deferred_work_filtered(void);

/* Forked child: it has had no restart of its exporter. */
void sp_deferred_work_forked(void);

/* APP. Writes the current state of this process into the region, also before a flush. */
void sp_deferred_work_publish(void);

#endif
