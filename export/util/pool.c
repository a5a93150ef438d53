/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bump allocator (pool.h), for a profile that is being made and for the symbolizer's names.
 * Context: the exporter.
 */
#include "export/util/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define SP_POOL_CHUNK ((size_t)64 * 1024)

struct sp_pool_chunk {
	struct sp_pool_chunk *next;
	size_t used;
	size_t size;
	alignas(max_align_t) unsigned char bytes[];
};

static struct sp_pool_chunk *chunk_new(struct sp_pool *p, size_t size)
{
	size_t room = size > SP_POOL_CHUNK ? size : SP_POOL_CHUNK;
	struct sp_pool_chunk *c = calloc(1, sizeof(*c) + room);

	if (c == NULL)
		return NULL;
	c->size = room;
	c->next = p->top;
	p->top = c;
	p->bytes += sizeof(*c) + room;
	return c;
}

void *sp_pool_get(struct sp_pool *p, size_t size)
{
	struct sp_pool_chunk *c = p->top;
	void *got;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (c == NULL || c->size - c->used < size)
		c = chunk_new(p, size);
	if (c == NULL)
		return NULL;
	got = c->bytes + c->used;
	c->used += size;
	return got;
}

void sp_pool_fini(struct sp_pool *p)
{
	while (p->top != NULL) {
		struct sp_pool_chunk *c = p->top;

		p->top = c->next;
		free(c);
	}
	p->bytes = 0;
}
