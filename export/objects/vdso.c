/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the vDSO in our own memory (vdso.h). The kernel maps the file as it is, with section
 * headers, and nothing after its last page. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/vdso.h"

#include <link.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define SP_PAGE 4096U /* or more */
#define SP_VDSO_MAX_BYTES ((uint64_t)256 * 1024)

/*
 * The program headers do not tell: where they end just below the end of a page, as in Linux 6.1, the section
 * headers are on one more.
 */
static bool is_mapped(const void *start, uint64_t bytes)
{
	unsigned char resident[SP_VDSO_MAX_BYTES / SP_PAGE];

	return mincore((void *)(uintptr_t)start, bytes, resident) ==
	       0; // NOLINT(performance-no-int-to-ptr)
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
	if (end > SP_VDSO_MAX_BYTES || !is_mapped(ehdr, end))
		return NULL;
	*size = (size_t)end;
	return (const uint8_t *)ehdr;
}
