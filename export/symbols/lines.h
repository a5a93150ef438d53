/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines and inlined functions of addresses, out of DWARF. */
#ifndef SP_LINES_H
#define SP_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "export/symbols/elf_file.h"

#define SP_LINES_DEPTH 32U /* functions at one address; those inlined deeper are left out */

/* One function at an address. Strings live as long as the sp_lines. */
struct sp_source_line {
	const char *name; /* linkage name if there is one; NULL = unknown */
	const char *file; /* NULL = unknown */
	const char *dir;  /* the folder of file if that is relative; NULL = unknown */
	uint32_t line;    /* 0 = unknown */
};

struct sp_lines;

/* Bytes of memory that the debug sections of a file need, unpacked; 0 = none. */
uint64_t sp_lines_need(Elf *elf);

/*
 * Reads the debug information of a file and closes it, also on failure. 0, -ENOENT no usable debug
 * information, -ENOMEM.
 */
int sp_lines_new(struct sp_elf_file *file, struct sp_lines **out);
void sp_lines_free(struct sp_lines *l);

/* Innermost first; the last one is the function that was not inlined. Returns how many. */
unsigned sp_lines_find(struct sp_lines *l, uint64_t vaddr,
		       struct sp_source_line out[SP_LINES_DEPTH]);

#endif
