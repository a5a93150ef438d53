/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines and inlined functions of addresses, from DWARF. */
#ifndef SP_LINES_H
#define SP_LINES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Memory for the debug information of all builds while addresses are looked up: half of RLIMIT_DATA, which the
 * exporter has set by the limit of its container, and at most 256 MiB.
 */
size_t sp_lines_memory(void);
/*
 * The part of it for the packed debug information of one build. If the build needs more, its debug information is not
 * read.
 */
#define SP_BUILD_UNPACKED_MAX (sp_lines_memory() / 4 * 3)
#define SP_LINES_DEPTH 64U /* functions at one address; if more are inlined, no line is returned */

/* One function at an address. Strings live as long as the sp_lines. */
struct sp_source_line {
	const char *name; /* linkage name if there is one, see die_names.h; NULL = unknown */
	const char *file; /* NULL = unknown */
	const char *dir;  /* the folder of file if that is relative; NULL = unknown */
	uint32_t line;    /* 0 = unknown */
	bool by_source;   /* see die_names.h */
};

struct sp_lines;

bool sp_lines_in(Elf *elf);

/* The unpacked size of a file's packed debug sections; 0 = no section is packed. */
uint64_t sp_lines_need(Elf *elf);

/* Opens a file in libdw, as sp_lines_new() does. NULL: the file cannot be read. */
Dwarf *sp_lines_begin(Elf *elf);

/*
 * Reads the debug information of an open file, which must outlive the result. It may change libelf's copy of the
 * section headers. NULL: there is no usable debug information, or errno is ENOMEM. A packed section is unpacked as a
 * whole, so the caller asks sp_lines_need() first.
 */
struct sp_lines *sp_lines_new(Elf *elf, int fd);
void sp_lines_free(struct sp_lines *l);

/* libdw's handle of the file, for another file that refers to it (dwz). */
Dwarf *sp_lines_dwarf(const struct sp_lines *l);

/* Whether parts of the debug information are in separate files, which libdw finds by this file's descriptor. */
bool sp_lines_are_split(const struct sp_lines *l);

/* Whether a requested part is in no separate file: libdw reads no .dwp before version 0.192. */
bool sp_lines_miss_parts(const struct sp_lines *l);

/* Whether sections are packed in a way that libelf does not know: it reads no zstd before version 0.189. */
bool sp_lines_are_packed_unknown(Elf *elf);

/*
 * An estimate of the memory in use, without mapped files and unpacked sections. It grows with the
 * units that were read.
 */
size_t sp_lines_bytes(const struct sp_lines *l);

/*
 * The functions at an address, innermost first; the last one is not inlined. Returns their number, or -ENOMEM, after
 * which the sp_lines may only be freed.
 */
int sp_lines_find(struct sp_lines *l, uint64_t vaddr, struct sp_source_line out[SP_LINES_DEPTH]);

#endif
