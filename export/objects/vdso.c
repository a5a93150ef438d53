/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the vDSO in our own memory (vdso.h). The kernel maps the file as it is, with section
 * headers, and nothing after its last page. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/vdso.h"

#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#define SP_VDSO_MAX_BYTES ((uint64_t)256 * 1024)

/* How much is mapped by the program headers, in whole pages. */
static uint64_t mapped_bytes(const ElfW(Ehdr) * ehdr)
{
	const void *headers = (const char *)ehdr + ehdr->e_phoff;
	const ElfW(Phdr) *ph = headers;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t end = 0;

	for (unsigned i = 0; i < ehdr->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset + ph[i].p_filesz > end)
			end = ph[i].p_offset + ph[i].p_filesz;
	return (end + page - 1) / page * page;
}

const uint8_t *sp_vdso_image(size_t *size)
{
	/* The kernel passes the address as a number. */
	const ElfW(Ehdr) *ehdr =
		(const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR); // NOLINT(performance-no-int-to-ptr)
	uint64_t end;

	if (ehdr == NULL || ehdr->e_shentsize != sizeof(ElfW(Shdr)))
		return NULL;
	end = ehdr->e_shoff + (uint64_t)ehdr->e_shnum * ehdr->e_shentsize;
	if (end > SP_VDSO_MAX_BYTES || end > mapped_bytes(ehdr))
		return NULL;
	*size = (size_t)end;
	return (const uint8_t *)ehdr;
}
