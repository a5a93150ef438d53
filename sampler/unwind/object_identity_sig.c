/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the identity of an object from its place and its build id, read where it is mapped: ELF
 * header, program headers, notes.
 *
 * A page of code may be execute-only, and reading it would be a fault in the host. The ELF header
 * is read only if its mapping also holds .eh_frame_hdr, which is readable data, and everything else
 * that is read lies inside that mapping.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/object_identity_sig.h"

#include <elf.h>
#include <stddef.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define NAME_BYTES 4U
#define NOTES_MAX 8U
/*
 * Linkers put the program headers right behind the ELF header. Only what lies in the page of the
 * ELF header is read, as that page is known to be readable.
 */
#define HEADERS_END 4096U
#define ID_BYTES_MAX 64U

static struct sp_cursor bytes_at(const struct sp_object *object, uint64_t offset, uint64_t n)
{
	struct sp_cursor c = sp_cursor_over(object->start, object->end);

	sp_cursor_skip(&c, offset);
	if (n > sp_cursor_left(&c))
		c.failed = true;
	else
		c.end = c.at + n;
	return c;
}

/* The build id among these notes. Names and values are padded to 4 bytes. */
static struct sp_cursor find_id(struct sp_cursor c)
{
	for (unsigned n = 0; n < NOTES_MAX && sp_cursor_left(&c) > 0; n++) {
		uint64_t name = sp_cursor_unsigned(&c, 4);
		uint64_t bytes = sp_cursor_unsigned(&c, 4);
		uint64_t type = sp_cursor_unsigned(&c, 4);

		if (name == NAME_BYTES && type == NT_GNU_BUILD_ID && bytes != 0 &&
		    bytes <= ID_BYTES_MAX) {
			sp_cursor_skip(&c, NAME_BYTES);
			c.failed = c.failed || bytes > sp_cursor_left(&c);
			c.end = c.failed ? c.end : c.at + bytes;
			return c;
		}
		sp_cursor_skip(&c, (name + 3) & ~UINT64_C(3));
		sp_cursor_skip(&c, (bytes + 3) & ~UINT64_C(3));
	}
	c.failed = true;
	return c;
}

SP_SIGSAFE const ElfW(Phdr) * sp_object_headers(const struct sp_object *object, unsigned *n)
{
	static const unsigned char magic[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64};
	const ElfW(Ehdr) *elf = (const void *)object->start;

	*n = 0;
	if (object->end - object->start < HEADERS_END)
		return NULL;
	for (unsigned i = 0; i < sizeof(magic); i++) {
		if (elf->e_ident[i] != magic[i])
			return NULL;
	}
	if (elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phoff % _Alignof(ElfW(Phdr)) != 0 ||
	    elf->e_phoff > HEADERS_END ||
	    elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > HEADERS_END)
		return NULL;
	*n = elf->e_phnum;
	return (const void *)(object->start + elf->e_phoff);
}

/* Only notes inside the first segment count, because that one is known to be mapped. */
SP_SIGSAFE struct sp_cursor sp_object_build_id(const struct sp_object *object)
{
	struct sp_cursor none = {.failed = true};
	unsigned n = 0;
	const ElfW(Phdr) *header = sp_object_headers(object, &n);
	uint64_t first = 0;

	for (; n != 0; n--, header++) {
		struct sp_cursor id;

		if (header->p_type == PT_LOAD && header->p_offset == 0)
			first = header->p_filesz;
		if (header->p_type != PT_NOTE || header->p_offset > first ||
		    header->p_filesz > first - header->p_offset)
			continue;
		id = find_id(bytes_at(object, header->p_offset, header->p_filesz));
		if (!id.failed)
			return id;
	}
	return none;
}

SP_SIGSAFE uint64_t sp_object_identity(const struct sp_object *object, bool permanent)
{
	uint64_t hash =
		sp_object_mix(sp_object_mix(object->start, object->end), object->eh_frame_hdr);
	struct sp_cursor id;

	if (permanent)
		return hash | 1;
	id = sp_object_build_id(object);
	if (id.failed)
		return 0;
	while (sp_cursor_left(&id) >= 4)
		hash = sp_object_mix(hash, sp_cursor_unsigned(&id, 4));
	while (sp_cursor_left(&id) != 0)
		hash = sp_object_mix(hash, sp_cursor_u8(&id));
	return hash;
}
