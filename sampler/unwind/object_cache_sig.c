/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the dynamic loader which object holds an address. dl_iterate_phdr and dladdr take the
 * loader's lock, which the interrupted thread may hold; _dl_find_object takes none and is the one
 * lookup that glibc documents as async-signal-safe.
 *
 * Object data is read where it is mapped. If another thread unmaps an object (dlclose) while one of
 * its return addresses is still on this stack, the host is already broken. Nothing is read of an
 * object that _dl_find_object no longer reports.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 * sp_object_cache_init() is APP.
 */
#include "sampler/unwind/object_cache_sig.h"

#include <errno.h>
#include <sys/auxv.h>

#include "sampler/unwind/module_event.h"
#include "sampler/unwind/object_identity_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/*
 * struct dl_find_object of <dlfcn.h>, glibc 2.35 and later (checked: 2.36, x86-64; aarch64 has the
 * same layout, DLFO_STRUCT_HAS_EH_DBASE and _COUNT being 0 on both). Our own copy, because the
 * header of an older C library that we are built against lacks it.
 */
struct find_object_result {
	unsigned long long flags;
	void *map_start;
	void *map_end;
	void *link_map;
	void *eh_frame; /* the PT_GNU_EH_FRAME segment, that is .eh_frame_hdr; NULL if none */
	unsigned long long reserved[7];
};

typedef int find_object_fn(void *address, struct find_object_result *result);

/*
 * Set once, before the first timer exists. Looked up at run time, so that the library also loads
 * into older C libraries.
 */
static find_object_fn *find_object;

/* The loader's name for the program itself, which it never unloads. */
static const void *program_map;

/* Not inlined, so that the gate for calls through pointers can name it. */
__attribute__((noinline)) static bool loader_find(uintptr_t address,
						  struct find_object_result *found)
{
	/*
	 * One of the two calls through a pointer in the handler (the other is in signals_sig.c).
	 * glibc documents it as safe there.
	 */
	return find_object != NULL && find_object((void *)address, found) == 0;
}

static void note_program(void)
{
	struct find_object_result found;

	if (loader_find(getauxval(AT_ENTRY), &found))
		program_map = found.link_map;
}

int sp_object_cache_init(void *(*lookup)(const char *name))
{
	void *symbol = lookup("_dl_find_object");

	if (symbol == NULL)
		return -ENOSYS;
	find_object = (find_object_fn *)symbol;
	note_program();
	return 0;
}

SP_SIGSAFE bool sp_object_cache_possible(void)
{
	return find_object != NULL;
}

static bool contains(const struct sp_object *object, uintptr_t address)
{
	return object->start <= address && address < object->end;
}

/*
 * The call frame information for pc and the mapping that holds it. Where the segments of a program
 * are not adjacent (node), _dl_find_object answers with only the segment that holds the address it
 * was asked for. The segment of the call frame information then takes a second lookup.
 */
static bool look_up(struct sp_object_cache *cache, uintptr_t pc, struct sp_cached_object *cached)
{
	struct find_object_result found;
	struct sp_object *object = &cached->object;
	const void *map;

	if (!loader_find(pc, &found) || found.eh_frame == NULL)
		return false;
	map = found.link_map;
	cached->start = (uintptr_t)found.map_start;
	cached->end = (uintptr_t)found.map_end;
	object->eh_frame_hdr = (uintptr_t)found.eh_frame;
	object->start = cached->start;
	object->end = cached->end;
	if (!contains(object, object->eh_frame_hdr)) {
		if (!loader_find(object->eh_frame_hdr, &found))
			return false;
		object->start = (uintptr_t)found.map_start;
		object->end = (uintptr_t)found.map_end;
		if (!contains(object, object->eh_frame_hdr))
			return false;
	}
	cached->identity = sp_object_identity(object, map == program_map);
	if (map != program_map && !sp_module_event_note(map, object, cached->identity))
		cache->untold = true;
	return true;
}

SP_SIGSAFE const struct sp_cached_object *sp_object_cache_find(struct sp_object_cache *cache,
							       uintptr_t pc)
{
	struct sp_cached_object *cached;

	for (unsigned i = 0; i < cache->n && i < SP_OBJECT_CACHE_SIZE; i++) {
		if (cache->entry[i].start <= pc && pc < cache->entry[i].end)
			return &cache->entry[i];
	}
	cached = &cache->entry[cache->n % SP_OBJECT_CACHE_SIZE];
	/* The slot must not match any address while it is half filled. */
	cached->end = 0;
	if (!look_up(cache, pc, cached)) {
		cached->end = 0;
		return NULL;
	}
	cache->n++;
	return cached;
}
