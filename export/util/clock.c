/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and random numbers. Context: the exporter. */
#include "export/util/clock.h"

#include "sampler/base/compiler.h"

uint64_t sp_clock_ns(clockid_t id)
{
	struct timespec t = {0};

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * SP_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t sp_clock_mono_ns(void)
{
	return sp_clock_ns(CLOCK_MONOTONIC);
}

int64_t sp_clock_real_ns(void)
{
	return (int64_t)sp_clock_ns(CLOCK_REALTIME);
}

uint64_t sp_clock_thread_ns(void)
{
	return sp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t sp_clock_seed(uint32_t pid)
{
	return sp_clock_ns(CLOCK_MONOTONIC) ^ sp_clock_ns(CLOCK_REALTIME) << 20 ^
	       (uint64_t)pid << 40;
}

uint64_t sp_clock_first_wait(uint64_t interval, uint64_t seed)
{
	return interval / 2 + sp_random_next(&seed) % (interval - interval / 2 + 1);
}
