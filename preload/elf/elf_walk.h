/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects. A symbol is looked up by reading the dynamic symbol tables of the objects.
 * Unlike dlsym(RTLD_NEXT) this also finds objects opened with RTLD_LOCAL, does not touch the host's
 * dlerror() and never allocates. APP; takes the loader's lock, as any lazy binding does.
 */
#ifndef SP_ELF_WALK_H
#define SP_ELF_WALK_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The definition of name in the first object after ours in load order (as RTLD_NEXT, and in objects
 * opened since), default symbol version first. NULL = no object has one. If together is not NULL,
 * only an object that also defines each of those names (NULL-terminated) counts.
 */
void *sp_elf_find(const char *name, const char *const *together);

/*
 * The definitions in all objects after ours, without together. Returns their number; found has the
 * first max.
 */
unsigned sp_elf_find_all(const char *name, void **found, unsigned max);

/*
 * Whether an object before ours in load order defines the name, so that the loader binds all
 * references of the program to that definition.
 */
bool sp_elf_is_before(const char *name);

/*
 * The thread-local variables with one name in objects other than ours. An object of the program's
 * start has its thread-local storage at the same distance from the thread pointer in every thread,
 * from the thread's begin to its end. Only for these objects does at[] have distances. An object
 * that was opened later may have its storage anywhere, or in no thread yet.
 */
#define SP_ELF_TLS_MAX 4U
struct sp_elf_tls {
	unsigned n;       /* objects that define the name */
	bool before_ours; /* one is before ours in load order, and our references bind to it */
	unsigned listed;  /* definitions of pointer size in at[] */
	/*
	 * Distances from the thread pointer: at[] of those definitions, begin and end of all
	 * storage of objects of the start.
	 */
	intptr_t at[SP_ELF_TLS_MAX];
	intptr_t begin;
	intptr_t end;
};
void sp_elf_find_tls(const char *name, struct sp_elf_tls *out);

/*
 * The address range of an object, and a hash that tells it from a later object at the same
 * addresses; size 0 = no object.
 */
struct sp_elf_range {
	uintptr_t start;
	uintptr_t size;
	uint64_t print; /* hash of its path and its symbol table */
	_Atomic unsigned long long
		unloads; /* the loader's count of unloads when the object was last seen */
	bool permanent;  /* an object of the program's start, never unloaded */
};

/*
 * As sp_elf_find() with together = NULL, for n names in one walk. If object is not NULL, only its
 * definitions count. Only a found[i] that is NULL changes, and only if names[i] is defined.
 */
void sp_elf_find_each(const struct sp_elf_range *object, const char *const *names, void **found,
		      unsigned n);

/*
 * Removes each name whose found[i] is NULL from our own symbol table: from now on no search finds
 * the name in our object. To be called while there is one thread, before references to the names
 * are bound. Does nothing if the kernel refuses.
 */
void sp_elf_undefine(const char *const *names, void *const *found, unsigned n);

/*
 * The address range of the object that a walk visits; the walk keeps the object mapped. Without the
 * hash.
 */
struct sp_elf_range sp_elf_range_of(const struct dl_phdr_info *info);

/*
 * The tables of one object, as its dynamic section lists them; NULL = the object has no such table.
 */
struct sp_elf_tables {
	uintptr_t base;
	const ElfW(Sym) * sym;
	const char *str;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const uint16_t *versym;
	const ElfW(Rela) * rela;
	const ElfW(Rela) * jmprel;
	size_t relas;
	size_t jmprels;
};

/* For a walk. False if the object has no symbols or no names of symbols. */
bool sp_elf_read_tables(const struct dl_phdr_info *info, struct sp_elf_tables *o);

static inline bool sp_elf_within(const struct sp_elf_range *r, const void *address)
{
	return (uintptr_t)address - r->start < r->size;
}

/*
 * The path of the object at that address, as the loader has it; if it does not fit, the end of the
 * path. "" for the program, and if no object is there.
 */
void sp_elf_path_at(const void *address, char *path, size_t size);

/* The object at that address; size 0 = none. */
struct sp_elf_range sp_elf_object_at(const void *address);

/* The part of sp_elf_alive() for objects that can be unloaded. */
bool sp_elf_stayed(struct sp_elf_range *object);

/*
 * Whether the same object is still loaded. Only the first call after an object was unloaded
 * searches; other calls take a lock of the loader for a moment, and no lock if the object is never
 * unloaded.
 */
static inline bool sp_elf_alive(struct sp_elf_range *object)
{
	return object->permanent || sp_elf_stayed(object);
}

/* How many objects the loader has loaded so far. Takes a lock of the loader for a moment. */
unsigned long long sp_elf_adds(void);

/*
 * INIT. Marks as permanent the objects that are loaded now, except those that a constructor has
 * opened.
 */
void sp_elf_startup(void);

/* The definition of name in that object; NULL if it has none. */
void *sp_elf_find_in(const struct sp_elf_range *object, const char *name);

/*
 * The function `name` of the object with that ELF header, such as the vDSO; NULL if it has none.
 * Does not ask the loader, whose lock another thread of the parent may have held when this process
 * was forked.
 */
void *sp_elf_find_at(const void *header, const char *name);

/* The variable `name` of that object, and its size in bytes; NULL if the object has none. */
void *sp_elf_variable_in(const struct sp_elf_range *object, const char *name, size_t *size);

/* Whether the object that defines name at that address also defines each of the other names. */
bool sp_elf_belongs(const char *name, const void *address, const char *const *together);

/*
 * Whether the object at that address needs the other object, directly or through others
 * (DT_NEEDED).
 */
bool sp_elf_needs(const void *address, const struct sp_elf_range *other);

/* Path of our own object as the loader knows it; may be relative. "" = unknown. */
const char *sp_elf_own_path(void);

/*
 * A loaded object: its segments, and their words that can be read. A program may have unmapped some
 * of its pages, and a truncated file has no pages behind its end, so we ask the kernel before we
 * read. The caller makes sure that the object stays loaded.
 */
#define SP_ELF_SEGMENTS_MAX 16U
/*
 * No object with an SDK is nearly that large; a search of this many bytes takes a tenth of a
 * second.
 */
#define SP_ELF_IMAGE_SEARCH_MAX (128UL << 20)

struct sp_elf_segment {
	uintptr_t start;
	uintptr_t size;      /* bytes in memory */
	uintptr_t from_file; /* bytes that came from the file */
	bool writable;
	bool executable;
	bool relro; /* the loader has made this part of a writable segment read-only */
};

struct sp_elf_image {
	bool fixed; /* a program that can be loaded at one address only */
	unsigned n;
	struct sp_elf_segment segment[SP_ELF_SEGMENTS_MAX];
};

/*
 * The object at that address. False if there is none, or if it has more segments than segment[]
 * holds.
 */
bool sp_elf_image_at(const void *address, struct sp_elf_image *image);

/* The segment that contains size bytes from address on; NULL = none. */
const struct sp_elf_segment *sp_elf_image_segment(const struct sp_elf_image *image,
						  uintptr_t address, uintptr_t size);

/* Whether every page of that memory can be read. The memory need not belong to an object. */
bool sp_elf_image_readable(uintptr_t from, uintptr_t size);

/* Reads a word of the object. False if the word is not the object's, or cannot be read. */
bool sp_elf_image_word(const struct sp_elf_image *image, uintptr_t address, uintptr_t *word);

/*
 * Finds the first words in the object's writable memory that hold this address, at most max.
 * Returns their number; 0 if the object has more memory than SP_ELF_IMAGE_SEARCH_MAX.
 */
unsigned sp_elf_image_references(const struct sp_elf_image *image, const void *address,
				 const void *const *place[], unsigned max);

/*
 * Begin and end of a section that no fork may interrupt, such as a walk over the objects. Sections
 * may be nested. If forks take longer than a second, the section begins nevertheless.
 */
void sp_fork_barrier_enter(void);
void sp_fork_barrier_exit(void);

/* dl_iterate_phdr() in such a section. */
int sp_fork_barrier_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);

/*
 * APP: from now on forks wait for sections. Before this call, and without __register_atfork(), they
 * do not.
 */
void sp_fork_barrier_start(void);

#endif
