/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host may give up rights after it has started us, and its configuration names files that we
 * open: with our rights it could read files that it may not read. So before such files are opened
 * we give up the same rights, for good. Rights that the host could take back at any time (a saved
 * user id) do not count as given up.
 *
 * The kernel keeps rights for each thread. So each thread compares its own rights with the host's
 * before it opens a file, and gives up its own.
 */
#ifndef SP_RIGHTS_H
#define SP_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"

#define SP_RIGHTS_GROUPS_MAX 65536 /* linux/limits.h: NGROUPS_MAX */

struct sp_rights {
	uint32_t uid[3]; /* real, effective, saved */
	uint32_t gid[3];
	uint64_t capabilities; /* permitted, and valid outside of its user namespace */
	unsigned groups;
	uint32_t group[SP_RIGHTS_GROUPS_MAX];
};

/* Reads the rights from the text of /proc/PID/status. False if the text has not that form. */
bool sp_rights_parse(const char *status, struct sp_rights *r);

/* Whether `own` has rights that `other` has not. */
bool sp_rights_exceed(const struct sp_rights *own, const struct sp_rights *other);

/*
 * Compares the calling thread's rights with the host's, and calls sp_rights_hide() if processes of
 * the host's user may not read the host. 0: ours do not exceed the host's; 1: they do, see
 * sp_rights_follow(); -ENOENT: the host has ended; others: the host's rights cannot be read.
 */
int sp_rights_compare(const struct sp_host *h);

/* sp_confinement_filters() of the process that was compared last; 0 = unknown. */
uint64_t sp_rights_filters(void);

/*
 * From now on other processes of our user may not read our memory, descriptors and environment, nor
 * trace us: we hold data of a process that they may not read.
 */
void sp_rights_hide(void);

/*
 * After a comparison that returned 1: gives up the rights that exceed the host's. 0, or -EPERM if
 * we cannot give up enough. Changes the calling thread only.
 */
int sp_rights_follow(void);

#endif
