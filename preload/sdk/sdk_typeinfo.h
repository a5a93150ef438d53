/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the classes of a loaded object by their run-time type information. A C++ class with virtual
 * functions has a name, a typeinfo that points to the name, and a vtable that points to the
 * typeinfo. Hidden, statically linked and stripped code has them, too, without symbols. Followed
 * backwards, the pointers lead from the name to the functions of the class (Itanium C++ ABI, 2.5.2
 * and 2.9.5).
 *
 * Any bytes may look like a name, and any word like a pointer. So we compare each candidate with
 * the facts that the caller knows: its first base and the number of its functions. Its functions
 * must also lie in the object's own code, and its two destructors must differ. APP context; nothing
 * is allocated, no lock is held during the search, and the search is bounded. The caller makes sure
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
	SP_TYPEINFO_PREFIX,  /* the class whose name begins with name */
	SP_TYPEINFO_DERIVED, /* classes whose only base is the class of that name */
};

/* A class to find, and what the caller knows of it. */
struct sp_typeinfo_class {
	enum sp_typeinfo_kind kind;
	/* Texts instead of pointers, which the loader would have to relocate in every process. */
	char name[SP_TYPEINFO_NAME_MAX]; /* mangled; contains the marker */
	char base[SP_TYPEINFO_NAME_MAX]; /* the name of its first base; "" = any */
	unsigned slots_min;              /* virtual functions */
	unsigned slots_max;
	unsigned destructors; /* the slot of the first of the two destructors */
};

struct sp_typeinfo_found {
	bool named; /* a typeinfo with that name and base exists */
	unsigned n; /* vtables that fit; with more than one, the right one is unknown */
	const void *const *vptr[SP_TYPEINFO_VTABLES_MAX]; /* each points to slot 0 */
};

/*
 * Looks for n classes, whose names all contain the marker. False if the search reached its bound;
 * then found is empty.
 */
bool sp_typeinfo_find(const struct sp_elf_image *image, const char *marker,
		      const struct sp_typeinfo_class *classes, struct sp_typeinfo_found *found,
		      unsigned n);

#endif
