/* SPDX-License-Identifier: Apache-2.0 */
/* Reads build ids. The notes are untrusted. Context: the exporter. */
#include "export/objects/elf_notes.h"

#include <elf.h>
#include <string.h>

static size_t padded(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

size_t sp_elf_build_id(const void *notes, size_t len, uint8_t *id, size_t cap)
{
	const unsigned char *at = notes;

	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t need;

		memcpy(&n, at, sizeof(n));
		need = sizeof(n) + padded(n.n_namesz) + padded(n.n_descsz);
		if (n.n_namesz > len || n.n_descsz > len || need > len + 3)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && len >= sizeof(n) + 4 &&
		    memcmp(at + sizeof(n), "GNU", 4) == 0) {
			if (n.n_descsz > cap || sizeof(n) + 4 + n.n_descsz > len)
				return 0;
			memcpy(id, at + sizeof(n) + 4, n.n_descsz);
			return n.n_descsz;
		}
		if (need >= len)
			return 0;
		at += need;
		len -= need;
	}
	return 0;
}
