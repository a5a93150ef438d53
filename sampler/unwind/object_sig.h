/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that a walk passes: which one holds an address, what tells it from others, and how the exporter
 * learns of it. Context: SIG; what sets it up is APP, or a forked child while it has one thread.
 */
#ifndef SP_OBJECT_SIG_H
#define SP_OBJECT_SIG_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/ehframe_sig.h"

/*
 * The identity of a loaded object: a number that stays the same as long as the same object is
 * mapped at the same place, and that no other object gets there.
 *
 * What is remembered of an object (rules, module events) must not be used for another object that
 * was mapped at its addresses later. The loader's counts of dlopen and dlclose cannot be read in a
 * signal handler, and a library that is replaced by a newer build of itself may get the very same
 * addresses. The build id, which the linker computes from the contents, differs.
 *
 * 0 for an object without a build id; nothing of such an object may be remembered. permanent says that the
 * loader never unmaps it (the program itself), so that it needs no build id.
 */
SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent);

/* Mixes one more property of the object into the number. */
static inline uint64_t sp_object_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/*
 * Module events announce loaded objects to the exporter. A sample holds addresses only. When the
 * exporter resolves them, the object may be unmapped (dlclose), and another one may be mapped at
 * its addresses. So the handler writes a record with the object's identity when a walk finds the
 * object for the first time, and this record goes through the ring before the sample. A sample's
 * addresses mean the object that was announced last before it at these addresses. dlopen and
 * dlclose are not hooked for this and cost nothing.
 */

/*
 * APP. Sets the ring that records go to from then on; handlers may run meanwhile. Nothing has been
 * announced in that ring yet, so each object is announced there when a walk finds it next. Whenever
 * *again changes, each object is announced once more in the same way; NULL = never, as in a forked child, whose
 * parent has announced its objects elsewhere.
 */
void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again);

/*
 * Announces the object unless that was done before. It is mapped now, because a frame of this
 * walk is in it. link_map is the loader's. False if the record found no room in the ring. The next sample tries
 * again, and the sample of this walk must then not go into the ring.
 */
SP_SIGSAFE bool sp_module_event_note(const void *link_map, const struct sp_object *object,
				     uint64_t identity);

/* So many of them are remembered. */
#define SP_MODULE_EVENT_SLOTS 512U

struct sp_module_event_state {
	_Atomic(struct sp_ring *) ring; /* NULL until sp_module_event_move() */
	_Atomic(const _Atomic uint32_t *) again;
	_Atomic uint64_t moves; /* incremented by sp_module_event_move() */
};
extern struct sp_module_event_state sp_module_event_state;

struct sp_cached_object {
	uintptr_t start; /* [start, end): the addresses that belong to it */
	uintptr_t end;
	struct sp_object object;
	uint64_t identity;
};

/* A stack that passes more objects looks some of them up again. */
#define SP_OBJECT_CACHE_SIZE 4U

/*
 * The object cache of one walk. Most frames of a stack lie in a few objects, and each lookup in the
 * loader costs time, so each object is looked up once per walk. That is safe: an object with a
 * frame on this stack cannot go away during the walk.
 */
struct sp_object_cache {
	unsigned n;  /* entered so far, replaced ones included */
	bool untold; /* the module event of one of them found no room in the ring */
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
