/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines and inlined functions of addresses, out of DWARF. */
#ifndef SP_LINES_H
#define SP_LINES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Memory for what is read of all builds, while addresses are looked up: half of the data that the process may have
 * (RLIMIT_DATA, which the exporter has set by the limit of its container), and no more than 256 MiB.
 */
size_t sp_lines_memory(void);
/* Of that, for the packed debug information of a build. It is left alone if it needs more. */
#define SP_BUILD_UNPACKED_MAX (sp_lines_memory() / 4 * 3)
#define SP_LINES_DEPTH 32U /* functions at one address; those inlined deeper are left out */

/* One function at an address. Strings live as long as the sp_lines. */
struct sp_source_line {
	const char *name; /* linkage name if there is one; NULL = unknown */
	const char *file; /* NULL = unknown */
	const char *dir;  /* the folder of file if that is relative; NULL = unknown */
	uint32_t line;    /* 0 = unknown */
};

struct sp_lines;

bool sp_lines_in(Elf *elf);

/* Bytes of memory that the packed debug sections of a file need, unpacked; 0 = none are packed. */
uint64_t sp_lines_need(Elf *elf);

/* Begins to read a file, as sp_lines_new() does. NULL: it cannot be read. */
Dwarf *sp_lines_begin(Elf *elf);

/*
 * Reads the debug information of an open file, of which it may change libelf's copy of the section
 * headers, and which has to live as long. NULL: there is none to be used, or errno is ENOMEM. Packed
 * sections are unpacked as a whole, so the caller asks sp_lines_need() first.
 */
struct sp_lines *sp_lines_new(Elf *elf, int fd);
void sp_lines_free(struct sp_lines *l);

/* For what refers to a file that several files share. */
Dwarf *sp_lines_dwarf(const struct sp_lines *l);

/* Whether parts of it are in files of their own, which are found by the descriptor of this one. */
bool sp_lines_are_split(const struct sp_lines *l);

/* Memory that it takes by now, roughly, without what is mapped or was packed: it grows with the units that were looked into. */
size_t sp_lines_bytes(const struct sp_lines *l);

/*
 * Innermost first; the last one is the function that was not inlined. Returns how many, or -ENOMEM, after which the
 * sp_lines is only to be freed.
 */
int sp_lines_find(struct sp_lines *l, uint64_t vaddr, struct sp_source_line out[SP_LINES_DEPTH]);

#endif
