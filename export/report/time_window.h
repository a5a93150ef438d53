/* SPDX-License-Identifier: Apache-2.0 */
/* Of which time the profiles are that are read. */
#ifndef SP_REPORT_TIME_WINDOW_H
#define SP_REPORT_TIME_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds since the epoch; from inclusive, to exclusive, 0 = no bound. */
struct sp_time_window {
	uint64_t from_ns;
	uint64_t to_ns;
};

/*
 * Reads one point in time: "2026-11-22T19:30[:05][Z]" (local time without Z), "19:30[:05]" (today),
 * or "-15m" (so long before now; s, m, h or d). False if it is none of them.
 */
bool sp_time_point_read(const char *text, time_t now, uint64_t *ns);

static inline bool sp_time_window_is_set(const struct sp_time_window *w)
{
	return w->from_ns != 0 || w->to_ns != 0;
}

/* True if the middle of the interval is within. What has no time is in no bounded window. */
bool sp_time_window_has(const struct sp_time_window *w, uint64_t time_ns, uint64_t duration_ns);

#endif
