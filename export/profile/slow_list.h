/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest local roots of an upload interval (SPANPROF_SLOW), and the thresholds by which the host tells them
 * (sampler/region/root_durations.h). Everything that the host says is bounded and clamped here: names, roots, bytes,
 * counts.
 *
 * Of a name with N roots in an interval the slowest hundredth is listed, at least one root and at most 20; where
 * SPANPROF_SLOW gives the name a duration, all roots that last as long. More records than that come from the host,
 * because the threshold was set by the interval before. Each of them is counted once: written, left out for slower
 * ones, over the limit, or lost.
 *
 * Context: the exporter, with its turn; sp_slow_batch_json() without it.
 */
#ifndef SP_SLOW_LIST_H
#define SP_SLOW_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/pprof.h"
#include "export/profile/root_values.h"

#define SP_SLOW_ROOTS_OF_NAME 20U    /* of a name without a duration, in an interval */
#define SP_SLOW_ROOTS_MAX 1000U      /* of all names in an interval */
#define SP_SLOW_BYTES_MAX (4U << 20) /* what an interval's roots take in JSON */

struct sp_slow_list;

/* Of a process that lives. NULL when out of memory. */
struct sp_slow_list *sp_slow_list_new(const struct sp_core_ops *ops);
void sp_slow_list_free(struct sp_slow_list *l);

/* A record of the host, which may say anything. No-op for NULL. */
void sp_slow_list_put(struct sp_slow_list *l, const struct sp_slow_root *r);

/* The roots of an interval, with what is known of their names. Texts of names are the process's. */
struct sp_slow_batch;

/*
 * The interval has ended: its slowest roots, and new thresholds. values: what is known of their attributes; NULL =
 * nothing. NULL = there are no slow roots. No-op for NULL.
 */
struct sp_slow_batch *sp_slow_list_end(struct sp_slow_list *l, const struct sp_root_values *values);

/*
 * Reads the histograms, so that sp_slow_list_latency() knows all roots that have ended. Of fewer than 100 roots only the
 * slowest one is slow, if it lasted longer than the others. Percentiles are those of all roots since the process began, and
 * exact to the width of a bucket. No-op for NULL.
 */
void sp_slow_list_update(struct sp_slow_list *l);
enum sp_latency sp_slow_list_latency(const struct sp_slow_list *l, const struct sp_root_end *end);

/* What it has is counted as lost. No-op for NULL. */
void sp_slow_list_abandon(struct sp_slow_list *l);

/*
 * A sample with that span id was taken then, by CLOCK_MONOTONIC. True if the span is a root of the batch: *real_ns is
 * that moment since the epoch. Reckoned from the root's end, so it fits to the root even if the wall clock was set.
 */
bool sp_slow_batch_time(const struct sp_slow_batch *b, uint64_t span_id, uint64_t monotonic_ns,
			int64_t *real_ns);

/* How many of the roots began before that, by CLOCK_MONOTONIC. */
uint32_t sp_slow_batch_begun_before(const struct sp_slow_batch *b, uint64_t monotonic_ns);

void sp_slow_batch_free(struct sp_slow_batch *b);
uint32_t sp_slow_batch_roots(const struct sp_slow_batch *b);
/* The id of one of these roots. */
uint64_t sp_slow_batch_id(const struct sp_slow_batch *b, uint32_t root);
size_t sp_slow_batch_bytes(const struct sp_slow_batch *b);

/*
 * A line of JSON: an ExportTraceServiceRequest of OpenTelemetry with a span for each root, the slowest of each name
 * first. 0 or -ENOMEM. *out is the caller's to free.
 */
int sp_slow_batch_json(const struct sp_slow_batch *b, struct sp_bytes *out);

#endif
