/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host may give up rights after it has started us, and its configuration names files that we
 * open: with our rights it could read what it may not. So before such files are opened we give up
 * the same rights, for good. Rights that the host could take back at any time (a saved user id) do
 * not count as given up.
 *
 * The kernel keeps rights for each thread. So whichever thread is about to open something compares its own, and
 * follows by itself: the other one may be in the middle of a file, and does the same before its next one.
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

/* Out of the text of /proc/PID/status. False if it is none. */
bool sp_rights_parse(const char *status, struct sp_rights *r);

/* Whether the first has rights that the second has not. */
bool sp_rights_exceed(const struct sp_rights *own, const struct sp_rights *other);

/*
 * Compares the calling thread's rights with the host's. 0: they do not exceed them; 1: they do, see
 * sp_rights_follow(); -ENOENT: the host has ended; others: the rights cannot be read.
 */
int sp_rights_compare(const struct sp_host *h);

/*
 * After a comparison that returned 1. 0, or -EPERM: we cannot give up enough. Changes the calling
 * thread only.
 */
int sp_rights_follow(void);

#endif
