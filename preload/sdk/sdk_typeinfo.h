/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of an object that is loaded, found by their run-time type information. A C++ class
 * with virtual functions has a name, a typeinfo that points to the name, and a vtable that points
 * to the typeinfo: they are there without a symbol, whatever was hidden, linked statically or
 * stripped. In the other direction they lead from a name to the functions of a class (Itanium C++
 * ABI, 2.5.2 and 2.9.5).
 *
 * Any bytes may look like a name, and any word like a pointer, so a class counts only with all that
 * the caller knows of it: its first base, how many functions it has, that they lie in the object's
 * own code, and that its two destructors are two functions. APP context; nothing is allocated, no
 * lock is held while memory is searched, and what is searched is bounded. Whoever calls sees to it
 * that the object stays loaded.
 */
#ifndef SP_SDK_TYPEINFO_H
#define SP_SDK_TYPEINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf/elf_walk.h"

#define SP_TYPEINFO_VTABLES_MAX 4U
#define SP_TYPEINFO_NAME_MAX 72U
#define SP_TYPEINFO_CLASSES_MAX 32U

enum sp_typeinfo_kind {
	SP_TYPEINFO_CLASS,   /* the class of that name */
	SP_TYPEINFO_PREFIX,  /* the class whose name begins so */
	SP_TYPEINFO_DERIVED, /* classes that have the class of that name as their only base */
};

/* A class to be found, and what is known of it. */
struct sp_typeinfo_class {
	enum sp_typeinfo_kind kind;
	/* Texts and no pointers, which the loader would have to relocate in every process. */
	char name[SP_TYPEINFO_NAME_MAX]; /* as it is mangled, with the marker in it */
	char base[SP_TYPEINFO_NAME_MAX]; /* the name of its first base; "" = not asked */
	unsigned slots_min;              /* virtual functions */
	unsigned slots_max;
	unsigned destructors; /* the slot of the first one of two */
};

struct sp_typeinfo_found {
	bool named; /* there is a typeinfo of that name and base */
	unsigned n; /* vtables that fit; if there are several, nobody knows which is right */
	const void *const *vptr[SP_TYPEINFO_VTABLES_MAX]; /* of slot 0 */
};

/*
 * Looks for n classes, all names of which contain the marker. False when there was more to search
 * than we do, and then nothing counts as found.
 */
bool sp_typeinfo_find(const struct sp_elf_image *image, const char *marker,
		      const struct sp_typeinfo_class *classes, struct sp_typeinfo_found *found,
		      unsigned n);

#endif
