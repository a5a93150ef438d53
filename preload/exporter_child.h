/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that becomes the program spanprof-exporter, from its birth to its execve. Until then it
 * shares the host's memory, thread pointer included: nothing here may touch errno or any other
 * variable of the host's threads, so all of it is raw system calls on a stack of our own.
 */
#ifndef SP_EXPORTER_CHILD_H
#define SP_EXPORTER_CHILD_H

#include <stdatomic.h>
#include <stddef.h>

#include "preload/exporter_process.h"

/* Shares memory, and the parent waits until execve; no SIGCHLD at its end, no debugger follows. */
#define SP_CHILD_SHARING (CLONE_VM | CLONE_VFORK | CLONE_UNTRACED)

#define SP_CLOSE_RANGE_NR 436L /* everywhere; headers may be older */

/* The memory of one start: nobody's, stack of the parent, nobody's, stack of the exporter's process. */
#define SP_BIRTH_STACK                                                                             \
	((size_t)65536) /* a multiple of any page; only what is touched takes memory */
#define SP_BIRTH_BYTES (4 * SP_BIRTH_STACK)

/* One start. It lies at the upper end of the first stack, where no process's end takes it away. */
struct sp_exporter_birth {
	struct sp_exporter_start start;
	char *memory;
	void *parent_stack; /* tops, both NULL with the flags of fork */
	void *child_stack;
	unsigned long flags; /* of clone: SP_CHILD_SHARING, or those of fork */
	long host;           /* process ids */
	long exporter;

	/* Written by children, and seen by others only where memory is shared. */
	_Atomic uint32_t shared; /* it is */
	_Atomic uint32_t done;   /* the parent will not use the second stack any more; a futex */
	_Atomic int32_t result;  /* 0, or a negative errno */
};

/*
 * On the exporter's parent. Makes the process, and where memory is shared waits until it is the
 * program. 0 or a negative errno; 0 where it is not shared says only that there is a process.
 */
int sp_exporter_bear(struct sp_exporter_birth *birth);

/* In the calling process, which has a table of descriptors of its own: closes first and all above. */
void sp_child_close_from(long first);

/* Ends the calling process, which is one of ours. */
_Noreturn void sp_child_exit(int status);

#endif
