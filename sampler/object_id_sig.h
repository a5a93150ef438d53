/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which object is mapped here: a number that stays the same as long as the same object is mapped at
 * the same place, and that no other object gets there. Context: SIG. Called by unwind_sig.c.
 *
 * The loader's own counts of dlopen and dlclose cannot be read in a signal handler, and the
 * addresses that _dl_find_object gives may all return when a library is replaced by a newer build
 * of itself. What a linker computes from an object's contents, the build id, does not return.
 */
#ifndef SP_OBJECT_ID_SIG_H
#define SP_OBJECT_ID_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/ehframe_sig.h"

/*
 * The number, or 0 for an object without a build id, of which nothing may be remembered. permanent
 * says that the loader never unmaps it (the program itself), so that it needs no build id.
 */
SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent);

#endif
