/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of a loaded object, and words in them (elf_image.h). APP context. */
#define _GNU_SOURCE
#include "preload/elf/elf_image.h"

#include <link.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "preload/elf/fork_barrier.h"
#include "sampler/base/compiler.h"
#include "sampler/base/readable_sig.h"

#define WORD sizeof(uintptr_t)

const struct sp_elf_segment *sp_elf_image_segment(const struct sp_elf_image *image,
						  uintptr_t address, uintptr_t size)
{
	for (unsigned i = 0; i < image->n; i++) {
		const struct sp_elf_segment *g = &image->segment[i];

		if (address - g->start < g->size && g->size - (address - g->start) >= size)
			return g;
	}
	return NULL;
}

bool sp_elf_image_readable(uintptr_t from, uintptr_t size)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page = from & ~(page_size - 1);

	if (size > UINTPTR_MAX - from)
		return false;
	for (; page < from + size; page += page_size) {
		if (!sp_readable(page))
			return false;
	}
	return true;
}

bool sp_elf_image_word(const struct sp_elf_image *image, uintptr_t address, uintptr_t *word)
{
	if (address % WORD != 0 || sp_elf_image_segment(image, address, WORD) == NULL ||
	    !sp_readable(address))
		return false;
	memcpy(word, (const void *)address, WORD);
	return true;
}

static void add_segment(struct sp_elf_image *image, const struct dl_phdr_info *info,
			const ElfW(Phdr) * p)
{
	bool relro = p->p_type == PT_GNU_RELRO;

	if (image->n < SP_ELF_SEGMENTS_MAX)
		image->segment[image->n] = (struct sp_elf_segment){
			.start = info->dlpi_addr + p->p_vaddr,
			.size = p->p_memsz,
			.from_file = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz,
			.writable = relro || (p->p_flags & PF_W) != 0,
			.executable = !relro && (p->p_flags & PF_X) != 0,
			.relro = relro,
		};
	image->n++;
}

struct query {
	uintptr_t address;
	struct sp_elf_image *image;
};

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	bool here = false;

	q->image->n = 0;
	q->image->fixed = info->dlpi_addr == 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && q->address - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			here = true;
		if ((p->p_type == PT_LOAD || p->p_type == PT_GNU_RELRO) && (p->p_flags & PF_R) != 0)
			add_segment(q->image, info, p);
	}
	return here;
}

bool sp_elf_image_at(const void *address, struct sp_elf_image *image)
{
	struct query q = {.address = (uintptr_t)address, .image = image};

	return sp_fork_barrier_walk(visit, &q) != 0 && image->n <= SP_ELF_SEGMENTS_MAX;
}

unsigned sp_elf_image_references(const struct sp_elf_image *image, const void *address,
				 const void *const *place[], unsigned max)
{
	uintptr_t bytes_left = SP_ELF_IMAGE_SEARCH_MAX;
	unsigned n = 0;

	for (unsigned i = 0; i < image->n; i++) {
		const struct sp_elf_segment *g = &image->segment[i];
		uintptr_t at = (g->start + WORD - 1) & ~(WORD - 1);

		if (!g->writable || g->relro || g->executable)
			continue;
		if (g->size > bytes_left || !sp_elf_image_readable(g->start, g->size))
			return 0;
		bytes_left -= g->size;
		for (; at + WORD <= g->start + g->size && n < max; at += WORD) {
			const void *const *word = (const void *const *)at;

			if (__atomic_load_n(word, __ATOMIC_RELAXED) == address)
				place[n++] = word;
		}
	}
	return n;
}
