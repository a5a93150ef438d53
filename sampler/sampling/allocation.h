/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of allocations. Another object (preload/alloc) chooses them, in proportion to the bytes;
 * this file writes a record for each, with the stack and the label of the span, like a sample of
 * CPU time. The exporter computes the weight of a sample from its size.
 */
#ifndef SP_ALLOCATION_H
#define SP_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/thread/thread.h"

/* Deeper stacks are cut: the frames lie on the host's stack for a moment. */
#define SP_ALLOCATION_FRAMES 128U

/* The registers of the program's function that called the allocator, as after the call's return. */
struct sp_allocation_caller {
	uintptr_t pc; /* the call's return address */
	uintptr_t sp;
	uintptr_t fp;
};

/* At activation: the largest number of frames. */
void sp_allocation_init(uint32_t depth);

/*
 * Puts a sample into the ring: the calling thread, whose block is t, has allocated these bytes;
 * block is the number of the allocation (preload/alloc). May be called in any context of the host,
 * its signal handlers included, while sampling is on and no seccomp filter is installed. False if
 * the sample was lost. errno preserved.
 */
SP_SIGSAFE bool sp_allocation_sample(struct sp_thread *t, uint64_t bytes, uint64_t block,
				     const struct sp_allocation_caller *caller);

/* Puts a record into the ring: the allocation with that number was freed. In the same contexts. */
SP_SIGSAFE void sp_allocation_freed(uint64_t block);

#endif
