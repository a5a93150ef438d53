/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a loaded object: a number that stays the same as long as the same object is
 * mapped at the same place, and that no other object gets there. Context: SIG.
 *
 * What is remembered of an object (rules, module events) must not be used for another object that
 * was mapped at its addresses later. The loader's counts of dlopen and dlclose cannot be read in a
 * signal handler, and a library that is replaced by a newer build of itself may get the very same
 * addresses. The build id, which the linker computes from the contents, differs.
 */
#ifndef SP_OBJECT_IDENTITY_SIG_H
#define SP_OBJECT_IDENTITY_SIG_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/unwind/cursor_sig.h"
#include "sampler/unwind/ehframe_sig.h"

/*
 * The identity, or 0 for an object without a build id; nothing of such an object may be remembered.
 * permanent says that the loader never unmaps it (the program itself), so that it needs no build
 * id.
 */
SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent);

/* Mixes one more property of the object into the number. */
static inline uint64_t sp_object_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/*
 * The object's program headers where they are mapped. NULL if they are not where linkers put them.
 */
SP_SIGSAFE const ElfW(Phdr) * sp_object_headers(const struct sp_object *object, unsigned *n);

/* The bytes of its build id where they are mapped. The cursor is failed if there is none. */
SP_SIGSAFE struct sp_cursor sp_object_build_id(const struct sp_object *object);

#endif
