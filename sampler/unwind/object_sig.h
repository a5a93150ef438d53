/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that a walk passes: the object of an address, its identity, and the record by which
 * the exporter learns of it. Context: SIG; the setup runs in APP, or in a forked child while it has
 * one thread.
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
 * The identity of a loaded object: a number that stays the same while the object is mapped at one
 * address, and that no other object has at this address.
 *
 * Stored facts about an object (rules, module events) must not be used for another object that is
 * mapped at the same addresses later. A signal handler cannot read the loader's counts of dlopen
 * and dlclose, and a newer build of a library may get the same addresses as the build that it
 * replaces. But the newer build has another build id, which the linker computes from the contents.
 *
 * 0 for an object without a build id; nothing of such an object may be stored. permanent: the
 * loader never unmaps the object (the program itself), so it needs no build id.
 */
SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent);

/* Adds one more property of the object to the hash. */
static inline uint64_t sp_object_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/*
 * Module events announce loaded objects to the exporter. A sample has only addresses. When the
 * exporter resolves them, the object may be unmapped (dlclose), and another one may be mapped at
 * its addresses. So when a walk finds an object for the first time, the handler writes a record
 * with the object's identity, and this record goes through the ring before the sample. A sample's
 * addresses belong to the object that was last announced at these addresses before the sample.
 * dlopen and dlclose are not hooked for this and cost nothing.
 */

/*
 * APP. Sets the ring for records from now on; handlers may run meanwhile. The new ring has no
 * record yet, so each object is announced there when a walk finds it next. Whenever *again changes,
 * each object is announced once more; again == NULL: never, as in a forked child, whose parent has
 * announced the objects in another ring.
 */
void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again);

/*
 * Announces the object, unless it was announced before. The object is mapped now, because a frame
 * of this walk is in it. link_map is the loader's. False if the ring had no room for the record.
 * Then the sample of this walk must not go into the ring, and the next sample tries again.
 */
SP_SIGSAFE bool sp_module_event_announce(const void *link_map, const struct sp_object *object,
					 uint64_t identity);

/* This many announced objects are stored. */
#define SP_MODULE_EVENT_SLOTS 512U

struct sp_module_event_state {
	_Atomic(struct sp_ring *) ring; /* NULL until sp_module_event_move() */
	_Atomic(const _Atomic uint32_t *) again;
	_Atomic uint64_t moves; /* incremented by sp_module_event_move() */
};
extern struct sp_module_event_state sp_module_event_state;

struct sp_cached_object {
	uintptr_t start; /* [start, end): the addresses of the object */
	uintptr_t end;
	struct sp_object object;
	uint64_t identity;
};

/* A stack with more objects looks some of them up again. */
#define SP_OBJECT_CACHE_SIZE 4U

/*
 * The object cache of one walk. Most frames of a stack lie in a few objects, and each look-up in
 * the loader takes time, so each object is looked up once per walk. This is safe: an object with a
 * frame on this stack cannot be unmapped during the walk.
 */
struct sp_object_cache {
	unsigned n;          /* objects entered so far, replaced ones included */
	bool untold;         /* the ring had no room for the module event of an object */
	bool without_header; /* the object of the last look-up has no .eh_frame_hdr */
	struct sp_cached_object entry[SP_OBJECT_CACHE_SIZE];
	const struct sp_cached_object *last; /* an entry, or NULL */
};

/* APP, at activation: finds _dl_find_object through lookup(name). 0, or -ENOSYS. Idempotent. */
int sp_object_cache_init(void *(*lookup)(const char *name));

/* False if no object can be found, because there is no _dl_find_object. */
SP_SIGSAFE bool sp_object_cache_possible(void);

/* The object of pc; NULL = none. */
SP_SIGSAFE const struct sp_cached_object *sp_object_cache_find(struct sp_object_cache *cache,
							       uintptr_t pc);

static inline SP_SIGSAFE void sp_object_cache_begin(struct sp_object_cache *cache)
{
	cache->n = 0;
	cache->untold = false;
	cache->without_header = false;
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
