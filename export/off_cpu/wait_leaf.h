/* SPDX-License-Identifier: Apache-2.0 */
/* The frame that says what a thread waits in, and for: the system call, and the kind of thing or the thing itself. */
#ifndef SP_WAIT_LEAF_H
#define SP_WAIT_LEAF_H

#include "export/off_cpu/descriptor.h"
#include "export/off_cpu/task.h"

#define SP_WAIT_LEAF 160U

/*
 * Of a thread that is blocked at that place, such as "read (pipe)". With targets, which may be NULL, it says what the
 * descriptor is, such as "recvfrom tcp 10.0.0.5:5432".
 */
void sp_wait_leaf(struct sp_sockets *targets, const char *proc, const struct sp_task_place *place,
		  char text[SP_WAIT_LEAF]);

#endif
