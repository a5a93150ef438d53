/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of allocations. An object of its own (preload/alloc) chooses which ones, as many as there are bytes; here
 * each becomes a record with the stack and the label of the span, like a sample of CPU time. What it stands for
 * follows from its size and is computed by the exporter.
 */
#ifndef SP_ALLOCATION_H
#define SP_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/thread/thread.h"

/* Stacks are cut here: the frames lie on the host's stack for a moment. */
#define SP_ALLOCATION_FRAMES 128U

/* The program's function that has called the allocator, as that call returns. */
struct sp_allocation_caller {
	uintptr_t pc; /* the return address */
	uintptr_t sp;
	uintptr_t fp;
};

/* At activation: the most frames of a stack. */
void sp_allocation_init(uint32_t depth);

/*
 * The calling thread, whose that struct is, has allocated so many bytes, in the block of that number (preload/alloc).
 * In any context of the host, its signal handlers included, as long as sampling is on and no seccomp filter is in.
 * False if the sample was lost. errno preserved.
 */
SP_SIGSAFE bool sp_allocation_sample(struct sp_thread *t, uint64_t bytes, uint64_t block,
				     const struct sp_allocation_caller *caller);

/* The same contexts. The block of that number is no more. */
SP_SIGSAFE void sp_allocation_freed(uint64_t block);

#endif
