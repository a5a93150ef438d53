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

#define SP_TYPEINFO_SEGMENTS_MAX 16U
#define SP_TYPEINFO_VTABLES_MAX 4U
#define SP_TYPEINFO_NAME_MAX 72U

struct sp_typeinfo_segment {
	uintptr_t start;
	uintptr_t size;      /* in memory */
	uintptr_t from_file; /* of which these came with the file */
	bool writable;
	bool executable;
	bool relro; /* a part of a writable one, which the loader has made read-only */
};

/* An object as it is loaded. */
struct sp_typeinfo_image {
	unsigned n;
	struct sp_typeinfo_segment segment[SP_TYPEINFO_SEGMENTS_MAX];
};

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

/* The object that address lies in. False if there is none, or it has more segments than we hold. */
bool sp_typeinfo_image_at(const void *address, struct sp_typeinfo_image *image);

/*
 * Looks for n classes, all names of which contain the marker. False when there was more to search
 * than we do, and then nothing counts as found.
 */
bool sp_typeinfo_find(const struct sp_typeinfo_image *image, const char *marker,
		      const struct sp_typeinfo_class *classes, struct sp_typeinfo_found *found,
		      unsigned n);

/*
 * The only word in the object's writable memory that is this address; NULL if there are none or
 * several.
 */
const void *const *sp_typeinfo_only_reference(const struct sp_typeinfo_image *image,
					      const void *address);

#endif
