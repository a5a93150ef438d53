/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the vDSO in our own memory (vdso.h). The kernel maps the file as it is, with section
 * headers. Its program headers do not tell how much that is: where they end just below the end of a
 * page, as in Linux 6.1, the section headers are on one more. So our list of mappings is asked, once.
 * By a call of its own (mincore) the kernel would tell as well, but a filter of system calls that the
 * host has left to us may end us for one that nothing else makes. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/vdso.h"

#include <link.h>
#include <sys/auxv.h>

#include "export/objects/maps.h"

static uint64_t end_of_mapping(uint64_t addr)
{
	struct sp_maps maps = {0};
	const struct sp_map *map;
	uint64_t end;

	(void)sp_maps_read(&maps, "/proc/self/maps", -1);
	map = sp_maps_find(&maps, addr);
	end = map != NULL ? map->end : 0;
	sp_maps_fini(&maps);
	return end;
}

const uint8_t *sp_vdso_image(size_t *size)
{
	static uint64_t mapping_end;
	uint64_t start = getauxval(AT_SYSINFO_EHDR);
	/* The kernel passes the address as a number. */
	const ElfW(Ehdr) *ehdr = (const ElfW(Ehdr) *)start; // NOLINT(performance-no-int-to-ptr)
	uint64_t bytes;

	if (ehdr == NULL || ehdr->e_shentsize != sizeof(ElfW(Shdr)))
		return NULL;
	if (mapping_end == 0)
		mapping_end = end_of_mapping(start);
	bytes = ehdr->e_shoff + (uint64_t)ehdr->e_shnum * ehdr->e_shentsize;
	if (mapping_end < start || bytes > mapping_end - start)
		return NULL;
	*size = (size_t)bytes;
	return (const uint8_t *)ehdr;
}
