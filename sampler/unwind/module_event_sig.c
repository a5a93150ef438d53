/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Announces each object once, from its headers where they are mapped.
 *
 * The thread runs in the object, or will return into it, so object and link map stay mapped during
 * the call. For the same reason, of two objects at one address, all samples of the first are in the
 * ring before the second can be mapped.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include <link.h>
#include <stddef.h>

#include "sampler/unwind/module_event.h"
#include "sampler/unwind/object_identity_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define PATH_STEP UINT64_C(0x100000001b3)

struct sp_module_event_state sp_module_event_state;

/* An object without a build id is told from others at its address by its file name. */
static uint64_t by_name(const struct link_map *map, const struct sp_object *object)
{
	uint64_t hash = sp_object_identity(object, true);

	for (unsigned i = 0; map->l_name[i] != '\0' && i < SP_MODULE_EVENT_PATH_MAX; i++)
		hash = (hash ^ (unsigned char)map->l_name[i]) * PATH_STEP;
	return hash;
}

static struct sp_module_event_slot *ways_of(uintptr_t start)
{
	uint64_t hash = (uint64_t)start * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	return &sp_module_event_state.slot[hash % (SP_MODULE_EVENT_SLOTS / SP_MODULE_EVENT_WAYS) *
					   SP_MODULE_EVENT_WAYS];
}

static bool is_told(uintptr_t start, uint64_t stamp)
{
	struct sp_module_event_slot *way = ways_of(start);

	for (unsigned i = 0; i < SP_MODULE_EVENT_WAYS; i++)
		/* pairs with the release in remember(): its record is in the ring before our sample */
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == start)
			return atomic_load_explicit(&way[i].stamp, memory_order_acquire) == stamp;
	return false;
}

/*
 * Whatever was announced at these addresses before is unmapped. If it comes back, it has to be
 * announced again.
 */
static void forget_overlapped(const struct sp_object *object)
{
	for (unsigned i = 0; i < SP_MODULE_EVENT_SLOTS; i++) {
		struct sp_module_event_slot *slot = &sp_module_event_state.slot[i];
		uintptr_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
		uintptr_t end = atomic_load_explicit(&slot->end, memory_order_relaxed);

		if (start != 0 && start < object->end && object->start < end)
			atomic_store_explicit(&slot->stamp, 0, memory_order_relaxed);
	}
}

/*
 * Stores the object in its own entry, in a free one, or in that of another object, which will be
 * announced once more.
 */
static void remember(const struct sp_object *object, uint64_t stamp)
{
	struct sp_module_event_slot *way = ways_of(object->start);
	struct sp_module_event_slot *to = &way[stamp >> 32 & (SP_MODULE_EVENT_WAYS - 1)];

	for (unsigned i = SP_MODULE_EVENT_WAYS; i-- > 0;)
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == 0)
			to = &way[i];
	for (unsigned i = 0; i < SP_MODULE_EVENT_WAYS; i++)
		if (atomic_load_explicit(&way[i].start, memory_order_relaxed) == object->start)
			to = &way[i];
	/*
	 * A stamp never matches an object with another start, so an entry with words of two writers
	 * does no harm.
	 */
	atomic_store_explicit(&to->end, object->end, memory_order_relaxed);
	atomic_store_explicit(&to->start, object->start, memory_order_relaxed);
	/* pairs with the acquire in is_told() */
	atomic_store_explicit(&to->stamp, stamp, memory_order_release);
}

/* False if the exporter could not look the object up by what the record says of it. */
static bool describe(const struct link_map *map, const struct sp_object *object,
		     struct sp_module_event *s)
{
	unsigned headers = 0;
	const ElfW(Phdr) *header = sp_object_headers(object, &headers);
	struct sp_cursor id = sp_object_build_id(object);
	unsigned i = 0;

	s->bias = map->l_addr;
	s->phdr = (uintptr_t)header;
	s->loads = 0;
	for (; headers != 0 && s->loads < SP_MODULE_EVENT_LOADS; headers--, header++) {
		if (header->p_type != PT_LOAD)
			continue;
		s->load[s->loads].vaddr = header->p_vaddr;
		s->load[s->loads].memsz = header->p_memsz;
		s->load[s->loads].offset = header->p_offset;
		s->load[s->loads++].flags = header->p_flags;
	}
	s->build_id_len = 0;
	while (sp_cursor_left(&id) != 0 && s->build_id_len < SP_MODULE_EVENT_ID_MAX)
		s->build_id[s->build_id_len++] = sp_cursor_u8(&id);
	while (map->l_name[i] != '\0' && i < SP_MODULE_EVENT_PATH_MAX - 1) {
		s->path[i] = map->l_name[i];
		i++;
	}
	s->path[i] = '\0';
	return s->loads != 0 && i != 0 && map->l_name[i] == '\0' && sp_cursor_left(&id) == 0;
}

/* Not inlined: the record would lie on the stack of every step of a walk. */
__attribute__((noinline)) static bool tell(const struct link_map *map,
					   const struct sp_object *object, uint64_t stamp)
{
	struct sp_ring *ring =
		atomic_load_explicit(&sp_module_event_state.ring, memory_order_relaxed);
	struct sp_module_event event;

	if (describe(map, object, &event) &&
	    sp_ring_put(ring, SP_RECORD_MODULE_EVENT, &event, sizeof(event)) != 0)
		return false;
	forget_overlapped(object);
	remember(object, stamp);
	return true;
}

SP_SIGSAFE bool sp_module_event_note(const void *link_map, const struct sp_object *object,
				     uint64_t identity)
{
	const struct link_map *map = link_map;
	const _Atomic uint32_t *again;
	uint64_t generation;
	uint64_t stamp;

	/* pairs with sp_module_event_move() */
	if (atomic_load_explicit(&sp_module_event_state.ring, memory_order_acquire) == NULL ||
	    map == NULL || map->l_name == NULL)
		return true;
	if (identity == 0)
		identity = by_name(map, object);
	/*
	 * Pairs with sp_module_event_move(): an object that counts as not announced after a move is
	 * announced in the new ring, or in a later one.
	 */
	generation = atomic_load_explicit(&sp_module_event_state.moves, memory_order_acquire) << 32;
	again = atomic_load_explicit(&sp_module_event_state.again, memory_order_relaxed);
	generation |= atomic_load_explicit(again, memory_order_relaxed);
	stamp = sp_object_mix(identity, generation) | 1;
	return is_told(object->start, stamp) || tell(map, object, stamp);
}
