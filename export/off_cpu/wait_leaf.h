/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaf frame of a waiting thread. It names the system call, and the kind of descriptor or the descriptor itself.
 */
#ifndef SP_WAIT_LEAF_H
#define SP_WAIT_LEAF_H

#include "export/off_cpu/descriptor.h"
#include "export/off_cpu/task.h"

#define SP_WAIT_LEAF 160U

/*
 * Writes the leaf of a thread that is blocked at that place, such as "read (pipe)". If targets is not NULL, the leaf
 * names the descriptor, such as "recvfrom tcp 10.0.0.5:5432".
 */
void sp_wait_leaf(struct sp_sockets *targets, const char *proc, const struct sp_task_place *place,
		  char text[SP_WAIT_LEAF]);

#endif
