/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process that is profiled: the exporter drains its samples, aggregates them, and hands them to
 * the worker once in each upload interval. There may be hundreds of idle processes, and `data` has
 * to come from memory far from the processor's caches. So the fields that are read while a process
 * is idle are in this structure itself.
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
	struct sp_target *next; /* of the owner's list */
	const struct sp_core_ops *ops;
	struct sp_origin origin;
	unsigned asked;   /* SP_WAIT_ bits of news() that are not served yet */
	unsigned awaited; /* requests that are served and wait for the worker */
	uint64_t late_ns; /* since when the flush time has been over; 0 = it is not */
	/* the last drain left samples in the rings because the tables were full */
	bool is_full;
	bool has_more;   /* the last drain left samples in the rings, for any reason */
	bool has_taken;  /* something was, or may have been, collected since the profile began */
	bool is_told;    /* the log tells that profiling has begun */
	bool report_due; /* a report on the last profile is due */
	bool ended;      /* the process has ended; queued profiles are still to be sent */
	/* the process has ended, and none of its files will be opened any more */
	bool is_retired;
	bool is_left;           /* the next exporter takes the samples that it puts from now on */
	uint64_t tick_ns;       /* when the profile that is being collected ends */
	uint64_t drain_ns;      /* the time of the next drain */
	struct sp_waits *waits; /* NULL = not wanted, or over */
	struct sp_target_data *data;
};

/* 0 or -ENOMEM; sp_target_fini() has to be called after both. */
int sp_target_init(struct sp_target *t, const struct sp_core_ops *ops, struct sp_worker *worker);
/* The process has ended: frees the memory that only further profiles would need. */
void sp_target_retire(struct sp_target *t);
/* To be called when none of its profiles is queued. */
void sp_target_fini(struct sp_target *t);

/*
 * Takes the process's requests, and then its samples, as long as the tables of the current profile
 * have room. True if there may be more.
 */
bool sp_target_drain(struct sp_target *t);

/* Hands over the collected samples early if the tables have little room left. */
void sp_target_make_room(struct sp_target *t);

/* An upload interval has ended: hands over the collected samples, and begins the next interval. */
void sp_target_tick(struct sp_target *t);

/* The process is about to end: takes all samples from its rings and hands them over. */
void sp_target_finish(struct sp_target *t);

/* Counts the samples that were drained and are in no profile as lost. */
void sp_target_abandon(struct sp_target *t);

/* The process was flushed and has taken no sample since, so it is probably about to end. */
bool sp_target_ending(const struct sp_target *t);

/* Logs losses and writes the status file. */
void sp_target_report(struct sp_target *t);

/* When the next work is due, by CLOCK_MONOTONIC; 0 = at once. */
uint64_t sp_target_due_ns(const struct sp_target *t);

#endif
