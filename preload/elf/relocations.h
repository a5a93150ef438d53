/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces functions in the tables (GOT) through which loaded objects refer to other objects. Any
 * thread but a signal handler; takes the loader's lock of dl_iterate_phdr. Allocates nothing.
 */
#ifndef SP_RELOCATIONS_H
#define SP_RELOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf/elf_walk.h"

/*
 * Returns what the importing object shall find under that name instead of now, or NULL to leave it.
 * While the loader has not bound the name (lazy), now is an address in the importing object itself; NULL if the
 * loader is still relocating the object, and then the answer says only whether anything may have to be
 * changed once it has. Called under the loader's lock.
 */
typedef const void *sp_relocations_choose(const struct sp_elf_range *importer, const char *name,
					  const void *now, bool lazy);

/*
 * Offers each function that an object imports, or refers to by name, to choose. False if the loader is still
 * relocating an object, as far as that can be told, in which something may have to be changed.
 */
bool sp_relocations_visit(sp_relocations_choose *choose);

/*
 * The address that the loader bound that object's reference to the variable of that name to.
 * Several objects may define it; this is the one that the object's own code uses. NULL if it has no
 * such reference.
 */
const void *sp_relocations_reference(const struct sp_elf_range *object, const char *name);

/* The loader has relocated the object around that address, as far as that can be told. */
bool sp_relocations_done(const void *address);

#endif
