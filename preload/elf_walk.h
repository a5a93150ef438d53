/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol look-up in the dynamic symbol tables of the loaded objects, by reading them. Unlike
 * dlsym(RTLD_NEXT) it also finds objects opened with RTLD_LOCAL, leaves the host's dlerror() alone
 * and never allocates. APP; takes the loader's lock as any lazy binding does.
 */
#ifndef SP_ELF_WALK_H
#define SP_ELF_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The definition of name in the first object after ours in load order (what RTLD_NEXT means, and
 * whatever was opened since), default symbol version first. NULL if there is none. When together
 * is not NULL, an object counts only if it also defines each of those names (NULL-terminated).
 */
void *sp_elf_find(const char *name, const char *const *together);

/* The same without together, of every object: how many there are, the first max of them in found. */
unsigned sp_elf_find_all(const char *name, void **found, unsigned max);

/* Where an object is mapped, and how it is told from a later one there; size 0 = no object. */
struct sp_elf_range {
	uintptr_t start;
	uintptr_t size;
	uint64_t print; /* of its path and its tables: the same place may hold another one later */
	_Atomic unsigned long long unloads; /* when it was last seen */
	bool permanent;                     /* here since program start: never unloaded */
};

static inline bool sp_elf_within(const struct sp_elf_range *r, const void *address)
{
	return (uintptr_t)address - r->start < r->size;
}

/* The object that address lies in, whichever it is. */
struct sp_elf_range sp_elf_object_at(const void *address);

/* For the one below, of an object that can be unloaded. */
bool sp_elf_stayed(struct sp_elf_range *object);

/*
 * It is still the same object. Only the first question after something was unloaded takes a search;
 * the others take a lock of the loader, shortly, and none where it can never be unloaded.
 */
static inline bool sp_elf_alive(struct sp_elf_range *object)
{
	return object->permanent || sp_elf_stayed(object);
}

/* How many objects were ever loaded. Takes a lock of the loader, shortly. */
unsigned long long sp_elf_adds(void);

/* INIT. The objects that are loaded now are permanent. */
void sp_elf_startup(void);

/* The definition of name in the object that lies there; NULL if it has none. */
void *sp_elf_find_in(const struct sp_elf_range *object, const char *name);

/* The object of address, which name is defined at, also defines each of those names. */
bool sp_elf_belongs(const char *name, const void *address, const char *const *together);

/* From the object of address one comes to the other object by what each needs (DT_NEEDED). */
bool sp_elf_needs(const void *address, const struct sp_elf_range *other);

/* Path of our own object as the loader knows it; may be relative. "" if unknown. */
const char *sp_elf_own_path(void);

#endif
