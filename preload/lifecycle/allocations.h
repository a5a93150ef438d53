/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libspanprof.so that libspanprof-alloc.so calls, the object that replaces the
 * allocator (preload/alloc). They are weak symbols, so both objects may be preloaded in any order,
 * and without libspanprof.so they are NULL. Both objects are of the same build, so one version in
 * the names suffices.
 */
#ifndef SP_ALLOCATIONS_H
#define SP_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/config/config.h"
#include "sampler/region/region.h"
#include "sampler/sampling/allocation.h"

/*
 * INIT, before or after our own constructor. allocated: returns the number of bytes that the
 * calling thread has allocated since it began. image: the address where that object is mapped.
 * memory: the table of blocks, which a forked child has to find zeroed (MADV_WIPEONFORK). blocks:
 * the number of sampled blocks that are not freed yet, a word in `memory`.
 */
void spanprof_v1_allocations(enum sp_allocations_object object, const void *image,
			     uint64_t (*allocated)(void), const _Atomic uint64_t *blocks,
			     void *memory, size_t bytes) __attribute__((weak));

/*
 * Any context of the host. Takes a sample of an allocation of the calling thread, unless bytes is
 * 0. *block is the number of the allocated block; 0 = its free will not be reported. It becomes 0
 * if the sample was lost: then the free must not be reported. Returns the mean number of bytes
 * until the next sample; 0 = nothing is sampled now, and asking again later costs little. errno
 * preserved.
 */
uint32_t spanprof_v1_allocated(uint64_t bytes, uint64_t *block,
			       const struct sp_allocation_caller *caller) __attribute__((weak));

/* The same contexts. The block of that number was freed. errno preserved. */
void spanprof_v1_freed(uint64_t block) __attribute__((weak));

/* Any context. The object that has called spanprof_v1_allocations(). */
enum sp_allocations_object sp_allocations_object(void);

/*
 * APP, one thread at a time, at activation: if the configuration wants samples of allocations and
 * there can be none, logs why.
 */
void sp_allocations_check(const struct sp_config *config);

#endif
