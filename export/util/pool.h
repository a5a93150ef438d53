/* SPDX-License-Identifier: Apache-2.0 */
/* A bump allocator: many small zeroed pieces with stable addresses, freed together. */
#ifndef SP_POOL_H
#define SP_POOL_H

#include <stddef.h>

struct sp_pool_chunk;

/* Zero it at first use. */
struct sp_pool {
	struct sp_pool_chunk *top;
	size_t bytes; /* taken from malloc so far */
};

/* Zeroed memory, aligned for any type; NULL when out of memory. */
void *sp_pool_get(struct sp_pool *p, size_t size);

void sp_pool_fini(struct sp_pool *p);

#endif
