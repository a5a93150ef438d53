/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks in nanoseconds, for the sampler and the preloaded object: CLOCK_MONOTONIC for deadlines and durations,
 * CLOCK_REALTIME for moments that others read. APP; errno untouched.
 */
#ifndef SP_MONOTONIC_H
#define SP_MONOTONIC_H

#include <stdint.h>
#include <time.h>

#include "sampler/base/compiler.h"

static inline uint64_t sp_monotonic_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t sp_realtime_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/*
 * CLOCK_MONOTONIC_COARSE: the time of the kernel's last tick, which is some milliseconds ago.
 * Reading it takes a fifth of the time.
 */
static inline uint64_t sp_monotonic_coarse_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
