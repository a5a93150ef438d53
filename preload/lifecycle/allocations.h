/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libspanprof.so is for libspanprof-alloc.so, the object that stands for the allocator (preload/alloc). That one
 * finds these functions as weak symbols: without libspanprof.so it has nobody to tell, in whichever order both are
 * preloaded. Both objects are of the same build, so the version in the names is that of the whole.
 */
#ifndef SP_ALLOCATIONS_H
#define SP_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/config/config.h"
#include "sampler/sampling/allocation.h"

/* What the allocator's object says of itself when it is loaded. */
enum sp_allocations_object {
	SP_ALLOCATIONS_ABSENT,
	SP_ALLOCATIONS_LOADED,
	SP_ALLOCATIONS_SANITIZED, /* it leaves a program with a sanitizer alone */
	SP_ALLOCATIONS_HIDDEN, /* the program, or what is preloaded before, has another allocator */
};

/*
 * INIT, before or after our own constructor. allocated: how many bytes the calling thread has allocated since it began.
 * blocks: the ends of so many may still be told. It lies with the blocks in that memory, which is to be empty in a copy.
 */
void spanprof_v1_allocations(enum sp_allocations_object object, uint64_t (*allocated)(void),
			     const _Atomic uint64_t *blocks, void *memory, size_t bytes)
	__attribute__((weak));

/*
 * Any context of the host. Takes a sample of an allocation of the calling thread, unless bytes is 0: of the block of
 * that number, 0 if nobody will tell when it is freed. It becomes 0 if the sample was lost, and then nobody may. Returns
 * how many bytes are to be allocated until the next one, in the mean; 0 = nothing is sampled now, and asking again later
 * costs little. errno preserved.
 */
uint32_t spanprof_v1_allocated(uint64_t bytes, uint64_t *block,
			       const struct sp_allocation_caller *caller) __attribute__((weak));

/* The same contexts. The block of that number is no more. errno preserved. */
void spanprof_v1_freed(uint64_t block) __attribute__((weak));

/* APP, one thread at a time, at activation: says why allocations are not sampled, if they are to be. */
void sp_allocations_check(const struct sp_config *config);

#endif
