/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that becomes spanprof-exporter, from its clone to its execve. Until then it shares
 * the memory of the host, including the thread pointer. So nothing here may touch errno or any
 * other variable of the host's threads, and all of it is raw system calls on a stack of our own.
 */
#ifndef SP_EXPORTER_CHILD_H
#define SP_EXPORTER_CHILD_H

#include <stdatomic.h>
#include <stddef.h>

#include "preload/exporter/exporter_process.h"

/*
 * Shares memory; the parent waits until execve; no debugger follows. The low byte, the exit signal,
 * is 0: no SIGCHLD at its end.
 */
#define SP_CHILD_SHARING (CLONE_VM | CLONE_VFORK | CLONE_UNTRACED)

#define SP_CLOSE_RANGE_NR 436L /* the same on all architectures; headers may be older */

/* The memory of one start: guard, stack of the parent, guard, stack of the exporter's process. */
#define SP_BIRTH_STACK ((size_t)65536) /* a multiple of any page size */
#define SP_BIRTH_BYTES (4 * SP_BIRTH_STACK)

/*
 * One start. It lies at the upper end of the first stack, so that it outlives each of the
 * processes.
 */
struct sp_exporter_birth {
	struct sp_exporter_start start;
	char *memory;
	void *parent_stack; /* tops, both NULL with the flags of fork */
	void *child_stack;
	unsigned long flags; /* of the exporter's clone: SP_CHILD_SHARING, or those of fork */
	long host;           /* process ids */
	long exporter;

	/* Written by children. Visible to others only if memory is shared. */
	_Atomic uint32_t shared; /* 1 = memory is shared */
	_Atomic int32_t result;  /* 0, or a negative errno */
};

/*
 * In the exporter's parent. Makes the process and, if memory is shared, waits until it executes the
 * program. 0 or a negative errno. If memory is not shared, 0 says only that there is a process.
 */
int sp_exporter_bear(struct sp_exporter_birth *birth);

/* In a process with a descriptor table of its own: closes the descriptor `first` and all above. */
void sp_child_close_from(long first);

/* Ends the calling process, which must be one of ours. */
_Noreturn void sp_child_exit(int status);

#endif
