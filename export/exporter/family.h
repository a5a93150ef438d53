/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this exporter: the one that has started it, and forked children of the same program,
 * which join by a socket. All of them have the same user and the same configuration; who has not starts
 * an exporter of its own.
 */
#ifndef SP_FAMILY_H
#define SP_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/exporter/member.h"

/* Fewer where the limits on descriptors and on addresses say so; the others are refused. */
#define SP_FAMILY_MAX 1024U

/* Zero it at first use. */
struct sp_family {
	struct sp_export_family ops;
	const struct sp_config *config;
	struct sp_member *members; /* oldest first */
	uint32_t count;            /* without those that have ended */
	uint32_t most;             /* members */
	uint64_t bytes;            /* of their regions, SP_LIMITS_REGIONS at most */
	struct sp_family_hook hook;
	int event;    /* an eventfd: a member asks for something */
	int epoll;    /* it, the listener, and the pidfds of the leader and of the members */
	int listener; /* -1 = nobody can join */
	uint64_t deaf_until_ns; /* nobody can be accepted until then; 0 = at once */
	uint64_t environment;   /* sp_family_environment() of ours */
	int leader; /* a pidfd of the process that executed the program; -1 = gone, or unknown */
	uint64_t linger_ns; /* until when somebody may come while there is nobody; 0 = not set */
};

/*
 * Takes over the descriptors; listener = SP_FAMILY_FD, or -1. 0 or a negative errno for the first process,
 * as sp_member_open(); sp_family_fini() is right after either.
 */
int sp_family_init(struct sp_family *f, const struct sp_host_descriptors *first, int listener,
		   const struct sp_config *config);

/* err: why those that are left cannot be served; 0 = they have been. */
void sp_family_fini(struct sp_family *f, int err);

#endif
