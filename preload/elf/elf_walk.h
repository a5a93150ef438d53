/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects. Symbols are looked up in their dynamic symbol tables, by reading these. Unlike
 * dlsym(RTLD_NEXT) this also finds objects opened with RTLD_LOCAL, does not touch the host's
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
 * The definition of name in the first object after ours in load order (what RTLD_NEXT means, and
 * whatever was opened since), default symbol version first. NULL if there is none. When together
 * is not NULL, an object counts only if it also defines each of those names (NULL-terminated).
 */
void *sp_elf_find(const char *name, const char *const *together);

/* The same without together, of every object: how many there are, the first max of them in found. */
unsigned sp_elf_find_all(const char *name, void **found, unsigned max);

/* Whether an object before ours in load order defines the name, so that all references of the program mean that one. */
bool sp_elf_is_before(const char *name);

/*
 * The thread-local variables of one name in objects other than ours. An object that was there when the
 * program started has its thread-local storage at the same distance from the thread pointer in every
 * thread, and every thread has it from its begin to its end. So only of these objects the places are
 * told. An object that was opened later may have its storage anywhere, or in no thread yet.
 */
#define SP_ELF_TLS_MAX 4U
struct sp_elf_tls {
	unsigned n;       /* how many objects define the name */
	bool before_ours; /* one of them is before ours in load order: our own references mean it */
	unsigned listed;  /* how many of pointer size are in at[] */
	/* distances from the thread pointer: of those, and of all storage of objects of the start */
	intptr_t at[SP_ELF_TLS_MAX];
	intptr_t begin;
	intptr_t end;
};
void sp_elf_find_tls(const char *name, struct sp_elf_tls *out);

/*
 * Where an object is mapped, and how to recognise a later object at the same place; size 0 = no
 * object.
 */
struct sp_elf_range {
	uintptr_t start;
	uintptr_t size;
	uint64_t print; /* hash of its path and its symbol table */
	_Atomic unsigned long long
		unloads; /* the loader's count of unloads when it was last seen */
	bool permanent;  /* here since program start: never unloaded */
};

/*
 * As sp_elf_find() without together, for n names at once, which takes one walk; with an object only what that
 * one defines. found[i] is left as it is if it is known already, or if no object defines names[i].
 */
void sp_elf_find_each(const struct sp_elf_range *object, const char *const *names, void **found,
		      unsigned n);

/*
 * Takes those names out of our own object's table of symbols of which found[i] is NULL: from now on nobody finds
 * them in us. One thread, before it matters what they mean. Does nothing if the kernel does not let us.
 */
void sp_elf_undefine(const char *const *names, void *const *found, unsigned n);

/* In a walk, which keeps the object mapped: where it is, without how to recognise it. */
struct sp_elf_range sp_elf_range_of(const struct dl_phdr_info *info);

/* The tables of one object, as its dynamic section says; NULL = it has none. */
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

/* In a walk. False without symbols and their names. */
bool sp_elf_read_tables(const struct dl_phdr_info *info, struct sp_elf_tables *o);

static inline bool sp_elf_within(const struct sp_elf_range *r, const void *address)
{
	return (uintptr_t)address - r->start < r->size;
}

/*
 * The path of the object that address lies in, as the loader has it; of one that does not fit the
 * end. "" for the program, and if there is no object.
 */
void sp_elf_path_at(const void *address, char *path, size_t size);

/* The object that address lies in, whichever it is. */
struct sp_elf_range sp_elf_object_at(const void *address);

/* For sp_elf_alive(), for an object that can be unloaded. */
bool sp_elf_stayed(struct sp_elf_range *object);

/*
 * Whether the same object is still there. Only the first call after something was unloaded takes a
 * search; others take a lock of the loader for a moment, and none if the object can never be
 * unloaded.
 */
static inline bool sp_elf_alive(struct sp_elf_range *object)
{
	return object->permanent || sp_elf_stayed(object);
}

/* How many objects were ever loaded. Takes a lock of the loader for a moment. */
unsigned long long sp_elf_adds(void);

/* INIT. Of the objects that are loaded now, those are permanent that no constructor has opened. */
void sp_elf_startup(void);

/* The definition of name in that object; NULL if it has none. */
void *sp_elf_find_in(const struct sp_elf_range *object, const char *name);

/* The same of a variable, and its size in bytes. */
void *sp_elf_variable_in(const struct sp_elf_range *object, const char *name, size_t *size);

/* The object that defines name at that address also defines each of those names. */
bool sp_elf_belongs(const char *name, const void *address, const char *const *together);

/*
 * The object that address lies in needs the other object, directly or through others (DT_NEEDED).
 */
bool sp_elf_needs(const void *address, const struct sp_elf_range *other);

/* Path of our own object as the loader knows it; may be relative. "" if unknown. */
const char *sp_elf_own_path(void);

/*
 * An object as it is loaded: its segments, and what can be read of them. A program may have unmapped pages of
 * its own, and behind the end of a truncated file there are none, so memory is read only after the kernel was
 * asked. Whoever calls sees to it that the object stays loaded.
 */
#define SP_ELF_SEGMENTS_MAX 16U
/* No object that holds an SDK comes near it; a search of so much takes a tenth of a second. */
#define SP_ELF_IMAGE_SEARCH_MAX (128UL << 20)

struct sp_elf_segment {
	uintptr_t start;
	uintptr_t size;      /* in memory */
	uintptr_t from_file; /* of which these came with the file */
	bool writable;
	bool executable;
	bool relro; /* a part of a writable one, which the loader has made read-only */
};

struct sp_elf_image {
	bool fixed; /* a program that can be loaded at one place only */
	unsigned n;
	struct sp_elf_segment segment[SP_ELF_SEGMENTS_MAX];
};

/* The object that address lies in. False if there is none, or it has more segments than we hold. */
bool sp_elf_image_at(const void *address, struct sp_elf_image *image);

/* The segment in which so many bytes lie; NULL if there is none. */
const struct sp_elf_segment *sp_elf_image_segment(const struct sp_elf_image *image,
						  uintptr_t address, uintptr_t size);

/* Whether all pages of that memory can be read, wherever it is. */
bool sp_elf_image_readable(uintptr_t from, uintptr_t size);

/* A word of the object. False if it is not the object's, or cannot be read. */
bool sp_elf_image_word(const struct sp_elf_image *image, uintptr_t address, uintptr_t *word);

/*
 * The first words in the object's writable memory that are this address, at most max of them. Returns
 * how many; none if that is more memory than we search.
 */
unsigned sp_elf_image_references(const struct sp_elf_image *image, const void *address,
				 const void *const *place[], unsigned max);

/*
 * A section that a fork must not divide, such as a walk over the objects. May be nested. Bounded: where a
 * fork takes longer than a second, the section begins nevertheless.
 */
void sp_fork_barrier_enter(void);
void sp_fork_barrier_leave(void);

/* dl_iterate_phdr() in such a section. */
int sp_fork_barrier_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);

/* APP: from now on forks wait. Before, and without __register_atfork(), they do not. */
void sp_fork_barrier_start(void);

#endif
