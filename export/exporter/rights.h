/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever we work for may give up rights after it has started us, and its configuration names files that
 * we open. So before they are opened we become as weak as it is, for good. What it could take back at
 * any time (an effective user beside a saved one) it has not given up.
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
	uint64_t capabilities; /* permitted, and of use outside of the process's own namespace */
	unsigned groups;
	uint32_t group[SP_RIGHTS_GROUPS_MAX];
};

/* Out of the text of /proc/PID/status. False if it is none. */
bool sp_rights_parse(const char *status, struct sp_rights *r);

/* The calling thread has rights that the other one has not. */
bool sp_rights_exceed(const struct sp_rights *own, const struct sp_rights *other);

/*
 * The host's against the calling thread's. 0: they are not exceeded; 1: they are, see sp_rights_follow();
 * -ENOENT: the host has ended. Any other: they cannot be read.
 */
int sp_rights_compare(const struct sp_host *h);

/* After a comparison that said 1. 0, or -EPERM: we cannot give up enough. The calling thread's only. */
int sp_rights_follow(void);

#endif
