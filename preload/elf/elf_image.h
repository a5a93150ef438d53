/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object as it is loaded: its segments, and what can be read of them. A program may have unmapped pages of
 * its own, and behind the end of a truncated file there are none, so memory is read only after the kernel was
 * asked. APP context; whoever calls sees to it that the object stays loaded.
 */
#ifndef SP_ELF_IMAGE_H
#define SP_ELF_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
