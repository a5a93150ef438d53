/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that takes its time: it reads symbols, makes profiles of what the loop has collected and sends
 * them, one interval after the other. All of these are called with the exporter's turn (turn.h), and none of them
 * waits.
 */
#ifndef SP_WORKER_H
#define SP_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/modules.h"
#include "export/profile/interval.h"
#include "export/push/push.h"
#include "export/push/upload.h"

struct sp_worker;

/*
 * ops: of the process whose configuration applies to all. tell: called from the worker's thread, with its turn, when
 * something has happened that whoever asks may want to know. 0 or a negative errno: nothing can be sent.
 */
int sp_worker_start(const struct sp_core_ops *ops, void (*tell)(void *arg), void *arg,
		    struct sp_worker **out);

/*
 * Ends it and frees all. Not if it was given up: it may be anywhere, and has everything for itself then. No-op for
 * NULL.
 */
void sp_worker_stop(struct sp_worker *w);

/* Where profiles go, for whoever wants to know. */
struct sp_upload *sp_worker_upload(const struct sp_worker *w);

/*
 * Takes over an interval of that process, which counts it as unnamed until its profiles are queued or written, and a
 * copy of the modules that its addresses are in. If too many wait, the oldest is lost and counted.
 */
void sp_worker_put(struct sp_worker *w, struct sp_origin *origin, struct sp_interval *interval,
		   struct sp_modules *modules);

/* Something that the worker does out of the ordinary. */
enum sp_worker_order {
	SP_WORKER_NOTHING,
	SP_WORKER_FLUSH,      /* sp_upload_flush() as soon as all intervals are dealt with */
	SP_WORKER_FLUSH_LAST, /* the same where nobody waits for it */
	SP_WORKER_ABANDON,    /* sp_upload_abandon() */
};

/* Instead of any order before; SP_WORKER_NOTHING: a flush need not go on. left_ms: how much time there is. */
void sp_worker_order(struct sp_worker *w, enum sp_worker_order order, uint32_t left_ms);
/* Whether the last order was carried out. */
bool sp_worker_is_done(const struct sp_worker *w);

/*
 * It does not come to an end. Everything that it has is counted as unsent, and it gets nowhere any more; whoever has
 * its turn has to end the exporter.
 */
void sp_worker_give_up(struct sp_worker *w);

#endif
