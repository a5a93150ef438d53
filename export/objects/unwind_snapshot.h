/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the stacks that the handler could not walk, from their snapshots, by libunwind's remote
 * interface. libunwind gets registers and stack from the copy, and code and unwind tables from the
 * files of the host's objects. Context: the exporter.
 */
#ifndef SP_UNWIND_SNAPSHOT_H
#define SP_UNWIND_SNAPSHOT_H

#include "export/objects/host_objects.h"
#include "sampler/base/arch_sig.h"
#include "sampler/region/record.h"

struct sp_unwinder;

/*
 * NULL when out of memory. Most of what it needs is allocated with the first snapshot. The objects
 * must outlive it.
 */
struct sp_unwinder *sp_unwinder_new(struct sp_host_objects *host);
void sp_unwinder_free(struct sp_unwinder *u);

/* As sp_host_objects_set_memory(); does nothing for NULL. */
void sp_unwinder_set_memory(struct sp_unwinder *u, const struct sp_host_memory *memory);

/*
 * Makes *s the sample of the snapshot, with 1 to max frames. The work is bounded, whatever the snapshot contains.
 * False if the walk ended too early.
 */
bool sp_unwinder_walk(struct sp_unwinder *u, const struct sp_snapshot *snap, unsigned max,
		      struct sp_sample *s);

/* A copy of the nearest part of a stack. */
struct sp_unwinder_stack {
	uint64_t at; /* the address of the first byte in the host */
	const uint8_t *copy;
	uint64_t bytes;
	bool has_more; /* perhaps: a walk that leaves the copy was cut */
};

/*
 * The same for a thread that is blocked in the kernel. Only sp, pc and the arguments of its system call are known,
 * and most frames need no more. If a frame needs the frame pointer, the walk finds the frame by its return address: a
 * word on the stack behind a call of just this function. If the function was called through a pointer, the walk ends.
 */
struct sp_unwinder_blocked {
	struct sp_regs regs;
	struct sp_unwinder_stack stack;
};
bool sp_unwinder_walk_blocked(struct sp_unwinder *u, const struct sp_unwinder_blocked *blocked,
			      unsigned max, struct sp_sample *s);

#endif
