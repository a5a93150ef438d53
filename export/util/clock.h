/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and simple random numbers of the exporter. */
#ifndef SP_CLOCK_H
#define SP_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "sampler/base/random.h"

/* The clock's time in nanoseconds; 0 if the clock does not exist. */
uint64_t sp_clock_ns(clockid_t id);
uint64_t sp_clock_mono_ns(void);
int64_t sp_clock_real_ns(void);
uint64_t sp_clock_thread_ns(void); /* CPU time of the calling thread */

/* Not for secrets: spreads the pushes and retries of many processes. */
uint64_t sp_clock_seed(uint32_t pid);

/*
 * How long to wait for the first push: processes that start together must not push together. At
 * least half an interval, at most a whole one.
 */
uint64_t sp_clock_first_wait(uint64_t interval, uint64_t seed);

#endif
