/* SPDX-License-Identifier: Apache-2.0 */
/* The time line of one thread in a request, from samples with times. */
#ifndef SP_REPORT_TIME_LINE_H
#define SP_REPORT_TIME_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/slowest.h"

/* A time in which the thread did the same all along. */
struct sp_segment {
	uint64_t from_ns, to_ns; /* since the epoch */
	uint32_t node;           /* leaf of its stack, a node of slowest.times; 0 = unknown */
	enum sp_part part;       /* SP_PART_OFF_CPU: it waited, and no look shows for what */
};

/* Each sample begins at most two segments, and one more may follow the last sample. */
static inline size_t sp_segments_max(size_t moments)
{
	return 2 * moments + 1;
}

/*
 * Makes segments from the samples of one thread, which are sorted by time. is_main: the thread is
 * the request's, so its line goes from the request's beginning to its end; the line of another
 * thread goes from its first sample to its last. Returns the number of segments.
 */
size_t sp_time_line_make(const struct sp_moment *moment, size_t n, uint64_t begin_ns,
			 uint64_t end_ns, bool is_main, struct sp_segment *out);

#endif
