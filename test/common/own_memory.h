/* SPDX-License-Identifier: Apache-2.0 */
/* A ring and a table of names in memory of the test's own: the product has them in its region alone. */
#ifndef TEST_OWN_MEMORY_H
#define TEST_OWN_MEMORY_H

#include <errno.h>
#include <stdint.h>

#include "sampler/base/arena.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"

/* size: a power of two. 0 or a negative errno. */
static inline int ring_init(struct sp_ring *r, uint64_t size)
{
	void *memory = sp_arena_map(SP_RING_BYTES(size));

	return memory != NULL ? sp_ring_at(r, memory, SP_RING_BYTES(size)) : -ENOMEM;
}

/* 0 or a negative errno. */
static inline int names_init(uint32_t max_names)
{
	size_t bytes = sp_names_bytes(max_names);
	void *memory = sp_arena_map(bytes);

	return memory != NULL ? sp_names_init_at(memory, bytes, max_names) : -ENOMEM;
}

#endif
