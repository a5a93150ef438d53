/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits and settings at the start of the program, so that it harms no other process if something
 * goes wrong.
 */
#ifndef SP_LIMITS_H
#define SP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Separates us from the settings that we have inherited from the host. We write no core file,
 * ignore the signals that a terminal or a supervisor sends to all processes at once, and change to
 * the directory "/". Soft limits are raised to the host's hard limits.
 */
void sp_limits_detach(void);

/*
 * Calls fn on a stack of ordinary size and returns its result. The stack limit of the host (`ulimit
 * -s`), which we have inherited, may be too small for libraries.
 */
int sp_limits_on_large_stack(int (*fn)(void));

/* The part of our address space for the regions of all processes. */
#define SP_LIMITS_REGIONS (UINT64_C(8) << 30)

/* Limits our memory and addresses; in a container to a share of its limit. */
void sp_limits_memory(void);

/*
 * The bytes of data that sp_limits_memory() allows a process of these cgroups. cgroups is the text
 * of /proc/self/cgroup; root is the mount point of cgroup v2, or the folder with those of v1.
 */
uint64_t sp_limits_data(const char *cgroups, const char *root);

/*
 * Makes the kernel choose us instead of the host when memory runs out, unless that would kill both.
 */
void sp_limits_offer(void);

/*
 * For sp_limits_offer(): whether a process of this cgroup (a line of /proc/self/cgroup) dies alone.
 * root is the mount point of cgroup v2. False if unknown.
 */
bool sp_limits_dies_alone(const char *cgroup, const char *root);

#endif
