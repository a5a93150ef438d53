/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last intervals of a process with times of samples (stack_map.h). Whether a root was slow is known only at its end,
 * and its samples may be in the interval before that one. So these intervals are kept until there are too many. Context:
 * the exporter's worker, with its turn.
 */
#ifndef SP_RECENT_H
#define SP_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#include "export/profile/interval.h"

#define SP_RECENT_MAX 32U                  /* eight minutes of the default upload interval */
#define SP_RECENT_BYTES ((size_t)16 << 20) /* of all but the last one */

/* All 0 at first. */
struct sp_recent {
	struct sp_interval *interval[SP_RECENT_MAX]; /* oldest first */
	unsigned n;
	uint64_t lost_ns; /* times of samples are known from then on, by CLOCK_MONOTONIC */
};

/* Takes over a named interval, if it has times. False: it has none, and stays the caller's. */
bool sp_recent_put(struct sp_recent *r, struct sp_interval *interval);

/* An interval could not be named: its times are lost. */
void sp_recent_lose(struct sp_recent *r, const struct sp_interval *interval);

void sp_recent_fini(struct sp_recent *r);

#endif
