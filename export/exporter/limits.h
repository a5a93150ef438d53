/* SPDX-License-Identifier: Apache-2.0 */
/* What the program does with itself before it begins, so that it harms nobody however it goes wrong. */
#ifndef SP_LIMITS_H
#define SP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * No core, no terminal's or supervisor's signal, no working directory of the host's; and of its limits
 * only the hard ones.
 */
void sp_limits_detach(void);

/*
 * Calls fn on a stack of ordinary size and returns what it does: that of the host's limit (`ulimit -s`),
 * which we inherit, may be smaller than what libraries need.
 */
int sp_limits_on_large_stack(int (*fn)(void));

/* Of the addresses that sp_limits_memory() leaves, for the regions of all processes that we work for. */
#define SP_LIMITS_REGIONS (UINT64_C(8) << 30)

/* So much memory at most, by how much symbols may take (SPANPROF_SYMBOL_CACHE_MB). */
void sp_limits_memory(uint32_t symbol_cache_mb);

/* Offers us to the kernel when memory runs out, instead of the host, where that does not kill both. */
void sp_limits_offer(void);

/*
 * For sp_limits_offer(): whether a process of this cgroup (a line of /proc/self/cgroup) dies alone. root
 * is where cgroup v2 is mounted. False if it cannot be told.
 */
bool sp_limits_dies_alone(const char *cgroup, const char *root);

#endif
