/* SPDX-License-Identifier: Apache-2.0 */
/* CLOCK_MONOTONIC in nanoseconds, for the core's own deadlines. APP; errno untouched. */
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

/* As of the last tick, some milliseconds ago, in a fifth of the time. CLOCK_MONOTONIC_COARSE. */
static inline uint64_t sp_monotonic_coarse_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
