/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object cache of one walk. Most frames of a stack lie in a few objects, and each lookup in the
 * loader costs time, so each object is looked up once per walk. That is safe: an object with a
 * frame on this stack cannot go away during the walk. Context: SIG (find), APP (init).
 */
#ifndef SP_OBJECT_CACHE_SIG_H
#define SP_OBJECT_CACHE_SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/unwind/ehframe_sig.h"

struct sp_cached_object {
	uintptr_t start; /* [start, end): the addresses that belong to it */
	uintptr_t end;
	struct sp_object object;
	uint64_t identity; /* object_identity_sig.h; 0 = none */
};

/* A stack that passes more objects looks some of them up again. */
#define SP_OBJECT_CACHE_SIZE 4U

struct sp_object_cache {
	unsigned n;  /* entered so far, replaced ones included */
	bool untold; /* the module event of one of them found no room in the ring (module_event.h) */
	struct sp_cached_object entry[SP_OBJECT_CACHE_SIZE];
	const struct sp_cached_object *last; /* of them, or NULL */
};

/* APP, at activation: finds _dl_find_object through lookup(name). 0, or -ENOSYS. Idempotent. */
int sp_object_cache_init(void *(*lookup)(const char *name));

/* False if no object can be found at all. */
SP_SIGSAFE bool sp_object_cache_possible(void);

/* The object that pc is in, or NULL. */
SP_SIGSAFE const struct sp_cached_object *sp_object_cache_find(struct sp_object_cache *cache,
							       uintptr_t pc);

static inline SP_SIGSAFE void sp_object_cache_begin(struct sp_object_cache *cache)
{
	cache->n = 0;
	cache->untold = false;
	cache->last = NULL;
}

/* The same as sp_object_cache_find(), but checks the object of the last frame first. */
static inline SP_SIGSAFE const struct sp_cached_object *
sp_object_cache_at(struct sp_object_cache *cache, uintptr_t pc)
{
	const struct sp_cached_object *cached = cache->last;

	if (cached == NULL || pc < cached->start || pc >= cached->end)
		cached = cache->last = sp_object_cache_find(cache, pc);
	return cached;
}

#endif
