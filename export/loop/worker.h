/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread for work that may take long: it reads symbols, makes profiles of the collected samples
 * and sends them, one interval after the other. The caller of each function has the exporter's turn
 * (turn.h), and none of them waits.
 */
#ifndef SP_WORKER_H
#define SP_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/modules.h"
#include "export/profile/interval.h"
#include "export/profile/slow_list.h"
#include "export/push/push.h"
#include "export/push/upload.h"

struct sp_worker;

/*
 * ops: of the process whose configuration applies to all. tell: called from the worker's thread,
 * with its turn, when something has happened that the collector waits for. 0 or a negative errno:
 * nothing can be sent.
 */
int sp_worker_start(const struct sp_core_ops *ops, void (*tell)(void *arg), void *arg,
		    struct sp_worker **out);

/*
 * Ends the thread and frees everything. Not after sp_worker_give_up(): the thread may be anywhere
 * and keeps its memory. No-op for NULL.
 */
void sp_worker_stop(struct sp_worker *w);

/* The upload, which knows where profiles go. */
struct sp_upload *sp_worker_upload(const struct sp_worker *w);

/*
 * Takes over an interval of a process, and a copy of the modules that its addresses are in. origin
 * counts the interval as unnamed until its profiles are queued or written. If too many intervals
 * wait, the oldest is lost and counted.
 */
void sp_worker_put(struct sp_worker *w, struct sp_origin *origin, struct sp_interval *interval,
		   struct sp_modules *modules);

/*
 * As sp_worker_put(), for the slow roots of an interval that began at time_ns (CLOCK_REALTIME).
 * They go into the folder.
 */
void sp_worker_put_slow(struct sp_worker *w, struct sp_origin *origin, struct sp_slow_batch *slow,
			int64_t time_ns);

/* An order to the worker, besides its usual work. */
enum sp_worker_order {
	SP_WORKER_NOTHING,
	SP_WORKER_FLUSH,      /* sp_upload_flush() as soon as all intervals are named */
	SP_WORKER_FLUSH_LAST, /* as SP_WORKER_FLUSH, but no process waits for it */
	SP_WORKER_ABANDON,    /* sp_upload_abandon() */
};

/*
 * Replaces any earlier order; SP_WORKER_NOTHING: a flush need not go on. left_ms: how much time is
 * left.
 */
void sp_worker_order(struct sp_worker *w, enum sp_worker_order order, uint32_t left_ms);
/* Whether the last order was carried out. */
bool sp_worker_is_done(const struct sp_worker *w);

/*
 * The worker does not come to an end. Counts everything that it has as unsent. The worker never
 * gets its turn again; the caller has to end the exporter.
 */
void sp_worker_give_up(struct sp_worker *w);

#endif
