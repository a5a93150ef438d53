/* SPDX-License-Identifier: Apache-2.0 */
/* A ring in the test's own memory: in the product rings exist only in its region. */
#ifndef TEST_OWN_MEMORY_H
#define TEST_OWN_MEMORY_H

#include <errno.h>
#include <stdint.h>

#include "sampler/base/arena.h"
#include "sampler/region/ring.h"

/* size: a power of two. 0 or a negative errno. */
static inline int ring_init(struct sp_ring *r, uint64_t size)
{
	void *memory = sp_arena_map(SP_RING_BYTES(size));

	return memory != NULL ? sp_ring_at(r, memory, SP_RING_BYTES(size)) : -ENOMEM;
}

#endif
