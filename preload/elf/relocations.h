/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces functions in the tables (GOT) through which loaded objects refer to other objects. For
 * any context but signal handlers; takes the loader's lock of dl_iterate_phdr(). Allocates nothing.
 */
#ifndef SP_RELOCATIONS_H
#define SP_RELOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf/elf_walk.h"

/*
 * Returns the address that replaces `now` as the importing object's address for that name, or NULL
 * for no change. If the loader has not bound the name (lazy), `now` is an address in the importing
 * object itself. `now` is NULL if the loader is still relocating the object; then the result only
 * says whether a change may be needed afterwards. Called under the loader's lock.
 */
typedef const void *sp_relocations_choose(const struct sp_elf_range *importer, const char *name,
					  const void *now, bool lazy);

/*
 * Calls choose for each function that an object imports or refers to by name. False if an object in
 * which a change may be needed is still being relocated, as far as we can tell.
 */
bool sp_relocations_visit(sp_relocations_choose *choose);

/*
 * The address to which the loader has bound that object's reference to the variable. Several
 * objects may define the variable; this address is the one that the object's own code uses. NULL =
 * the object has no such reference.
 */
const void *sp_relocations_reference(const struct sp_elf_range *object, const char *name);

/*
 * Whether the object at that address imports a function or variable whose name begins with prefix.
 */
bool sp_relocations_imports(const void *address, const char *prefix);

/* Whether the loader has relocated the object at that address, as far as we can tell. */
bool sp_relocations_done(const void *address);

#endif
