/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the loader for objects.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS. sp_met_init
 * is APP.
 *
 * Object data is read where it is mapped. If another thread unmaps an object (dlclose) while one
 * of its return addresses is still on this stack, the host is already broken; we read nothing of
 * an object that _dl_find_object no longer reports.
 */
#include "sampler/met_sig.h"

#include <errno.h>
#include <sys/auxv.h>

#include "sampler/object_id_sig.h"
#include "sampler/sighting.h"

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

/* Set once, before the first timer exists. Looked up so that we load into older C libraries too. */
static find_object_fn *find_object;

/* The loader's name for the program itself, which it never unloads. */
static const void *program_map;

/* Not inlined, so that the gate for calls through pointers can name it. */
__attribute__((noinline)) static bool loader_find(uintptr_t address,
						  struct find_object_result *found)
{
	/* The one call through a pointer in a signal handler: glibc documents it as safe there. */
	return find_object != NULL && find_object((void *)address, found) == 0;
}

static void note_program(void)
{
	struct find_object_result found;

	if (loader_find(getauxval(AT_ENTRY), &found))
		program_map = found.link_map;
}

int sp_met_init(void *(*lookup)(const char *name))
{
	void *symbol = lookup("_dl_find_object");

	if (symbol == NULL)
		return -ENOSYS;
	find_object = (find_object_fn *)symbol;
	note_program();
	return 0;
}

SP_SIGSAFE bool sp_met_possible(void)
{
	return find_object != NULL;
}

static bool contains(const struct sp_object *object, uintptr_t address)
{
	return object->start <= address && address < object->end;
}

/*
 * The call frame information for pc and the mapping that holds it. For a program whose segments
 * do not follow each other without gaps (node), _dl_find_object answers with the one segment that
 * holds the address it was asked for, so the data's own segment takes a second question.
 */
static bool meet(struct sp_met_list *list, uintptr_t pc, struct sp_met *met)
{
	struct find_object_result found;
	struct sp_object *object = &met->object;
	const void *map;

	if (!loader_find(pc, &found) || found.eh_frame == NULL)
		return false;
	map = found.link_map;
	met->start = (uintptr_t)found.map_start;
	met->end = (uintptr_t)found.map_end;
	object->eh_frame_hdr = (uintptr_t)found.eh_frame;
	object->start = met->start;
	object->end = met->end;
	if (!contains(object, object->eh_frame_hdr)) {
		if (!loader_find(object->eh_frame_hdr, &found))
			return false;
		object->start = (uintptr_t)found.map_start;
		object->end = (uintptr_t)found.map_end;
		if (!contains(object, object->eh_frame_hdr))
			return false;
	}
	met->identity = sp_object_identity(object, map == program_map);
	if (map != program_map && !sp_sighting_note(map, object, met->identity))
		list->untold = true;
	return true;
}

SP_SIGSAFE const struct sp_met *sp_met_find(struct sp_met_list *list, uintptr_t pc)
{
	struct sp_met *met;

	for (unsigned i = 0; i < list->n && i < SP_MET_MAX; i++) {
		if (list->met[i].start <= pc && pc < list->met[i].end)
			return &list->met[i];
	}
	met = &list->met[list->n % SP_MET_MAX];
	/* A slot that was filled but half must not be found. */
	met->end = 0;
	if (!meet(list, pc, met)) {
		met->end = 0;
		return NULL;
	}
	list->n++;
	return met;
}
