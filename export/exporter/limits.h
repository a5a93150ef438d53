/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program does before it begins to work, so that it harms no other process whatever goes
 * wrong.
 */
#ifndef SP_LIMITS_H
#define SP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Separates us from what we have inherited of the host. We write no core file, ignore the signals that
 * a terminal or a supervisor sends to all processes at once, and change to the directory "/". Soft
 * limits are raised to the host's hard limits.
 */
void sp_limits_detach(void);

/*
 * Calls fn on a stack of ordinary size and returns its result. The limit that we inherit from the
 * host (`ulimit -s`) may be too small for libraries.
 */
int sp_limits_on_large_stack(int (*fn)(void));

/* Address space that sp_limits_memory() leaves for the regions of all processes. */
#define SP_LIMITS_REGIONS (UINT64_C(8) << 30)

/* Limits memory and addresses, in a container by what it may have. */
void sp_limits_memory(void);

/*
 * For sp_limits_memory(): bytes of data that a process of these cgroups (/proc/self/cgroup) may have. root is where
 * cgroup v2 is mounted, or the folders of those of v1 are.
 */
uint64_t sp_limits_data(const char *cgroups, const char *root);

/*
 * Makes the kernel choose us instead of the host when memory runs out, unless that would kill both.
 */
void sp_limits_offer(void);

/*
 * For sp_limits_offer(): whether a process of this cgroup (a line of /proc/self/cgroup) dies alone. root
 * is where cgroup v2 is mounted. False if it cannot be told.
 */
bool sp_limits_dies_alone(const char *cgroup, const char *root);

#endif
