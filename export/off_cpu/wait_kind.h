/* SPDX-License-Identifier: Apache-2.0 */
/* What a system call waits for: its name, the kind of thing, and whether a descriptor tells more. */
#ifndef SP_WAIT_KIND_H
#define SP_WAIT_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "export/off_cpu/task.h"
#include "sampler/region/thread_labels.h"

struct sp_wait_kind {
	const char *name; /* of the system call; NULL = not known here */
	const char *
		kind; /* "lock", "timer", "socket", "pipe", "file", "child", "events"; NULL = unknown */
	bool by_descriptor; /* the first argument is one, and its kind decides */
};

void sp_wait_kind_of(const struct sp_task_place *place, struct sp_wait_kind *out);

/* The kind of thing that a descriptor is, by its link in /proc/PID/fd; NULL = none of ours. */
const char *sp_wait_kind_of_link(const char *link);

/*
 * The frame of a wait at that place, such as "read (pipe)". With targets, which may be NULL, it says what the descriptor is, such as
 * "recvfrom tcp 10.0.0.5:5432".
 */
#define SP_WAIT_LEAF 160U
struct sp_wait_leaf {
	char text[SP_WAIT_LEAF];
	enum sp_waited waited; /* for: never for a processor */
};
struct sp_sockets;
void sp_wait_leaf(struct sp_sockets *targets, const char *proc, const struct sp_task_place *place,
		  struct sp_wait_leaf *leaf);

/* What a wait of that kind is for, in the account of a span; NULL is a kind, too. */
enum sp_waited sp_wait_kind_waited(const char *kind);

#endif
