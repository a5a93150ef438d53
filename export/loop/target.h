/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that is profiled: its samples are drained, aggregated, and handed to the worker once in each upload
 * interval. All that is asked of it while it does nothing is in this structure itself, as there may be hundreds of
 * them, and what data points to has to come from far into the processor's caches.
 */
#ifndef SP_TARGET_H
#define SP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/loop/waits.h"
#include "export/loop/worker.h"
#include "export/push/push.h"

struct sp_target {
	struct sp_target *next; /* for a list of the owner */
	const struct sp_core_ops *ops;
	struct sp_origin origin;
	unsigned asked;    /* SP_WAIT_ bits of news() that are not yet served */
	unsigned awaited;  /* those that are, and wait for the worker */
	uint64_t late_ns;  /* since when their time is over; 0 = it is not */
	bool is_full;      /* the last drain left samples in the rings for want of room */
	bool has_more;     /* it left something there for whatever reason */
	bool has_taken;    /* something was, or may have been, collected since the profile began */
	bool is_told;      /* that profiling has begun */
	bool report_due;   /* a report on the last profile is due */
	bool ended;        /* the process has ended; queued profiles are still to be sent */
	bool is_retired;   /* and nothing of it has to be opened any more */
	bool is_left;      /* what is put into its rings from now on is its next exporter's */
	uint64_t tick_ns;  /* when the profile that is being collected ends */
	uint64_t drain_ns; /* when its rings are looked into next */
	struct sp_waits *waits; /* NULL = nobody wants them, or they are over */
	struct sp_target_data *data;
};

/* 0 or -ENOMEM; sp_target_fini() is right after either. */
int sp_target_init(struct sp_target *t, const struct sp_core_ops *ops, struct sp_worker *worker);
/* The process has ended: frees what is needed only for more profiles. */
void sp_target_retire(struct sp_target *t);
/* When none of its profiles is queued. */
void sp_target_fini(struct sp_target *t);

/*
 * Takes the process's requests, and then its samples, as long as there is room for them in the profile that
 * is being collected. True if there may be more.
 */
bool sp_target_drain(struct sp_target *t);

/* Where little room is left after a drain, what was collected is handed over before its time. */
void sp_target_make_room(struct sp_target *t);

/* An upload interval has ended: hands over what was collected, and begins the next one. */
void sp_target_tick(struct sp_target *t);

/* The same with all that its rings hold, where the process is about to end. */
void sp_target_finish(struct sp_target *t);

/* Samples that were drained and are in no profile are counted as lost. */
void sp_target_abandon(struct sp_target *t);

/* It was flushed and has taken no sample since, so it is probably about to end. */
bool sp_target_ending(const struct sp_target *t);

/* Logs losses and writes the status file. */
void sp_target_report(struct sp_target *t);

/* When something is due, by CLOCK_MONOTONIC; 0 = at once. */
uint64_t sp_target_due_ns(const struct sp_target *t);

#endif
