/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing functions in the tables through which loaded objects refer to other objects. Any thread
 * but a signal handler; takes the loader's lock of dl_iterate_phdr. Nothing is allocated.
 */
#ifndef SP_RELOCATIONS_H
#define SP_RELOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf_walk.h"

/*
 * What the importing object is to find under that name instead of now, NULL to leave it. now is an
 * address in the importing object itself (lazy) while the loader has not looked the name up.
 */
typedef const void *sp_relocations_choose(const char *name, const void *now, bool lazy);

/* An object in which something was replaced. Called under the loader's lock. */
typedef void sp_relocations_changed(const struct sp_elf_range *importer, const char *name);

/*
 * Offers every function that an object imports, or refers to by name, to choose. False when an object
 * was passed over because the loader is still at work on it.
 */
bool sp_relocations_visit(sp_relocations_choose *choose, sp_relocations_changed *changed);

/*
 * Where the loader made that object look for the variable of that name, which several objects may
 * define: the one that its own code uses. NULL if it refers to none by name.
 */
const void *sp_relocations_reference(const struct sp_elf_range *object, const char *name);

#endif
