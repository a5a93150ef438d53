/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table of an object's call frame information, made from two sections of its file: .eh_frame, if the linker
 * has written no table for it (.eh_frame_hdr), and .debug_frame, which is not mapped. Each section is read once and
 * checked. Its entries are rewritten in one form that libunwind reads. The file may contain wrong data anywhere, so
 * bytes and functions are bounded, and functions beyond a bound are left out. Context: the exporter.
 */
#ifndef SP_FRAME_TABLE_H
#define SP_FRAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/object_image.h"

/* Bytes of one section of a file, packed or unpacked, and bytes of the table that both sections make. */
#define SP_FRAME_SECTION_MAX ((size_t)16 << 20)
/* Functions of one file. */
#define SP_FRAME_ROWS_MAX ((size_t)1 << 18)
/* Bytes of all tables in this process. */
#define SP_FRAME_BYTES_MAX ((size_t)64 << 20)

/*
 * The ELF address at which libunwind sees a table: far above every address that a process can map, even with the
 * object's bias added.
 */
#define SP_FRAME_TABLE_AT (UINT64_C(1) << 62)

/* Reads bytes of the file, and zeros behind its end. False if the file does not exist. */
struct sp_frame_file {
	bool (*read)(const void *arg, uint64_t offset, void *out, size_t bytes);
	const void *arg;
};

struct sp_frame_table;

/*
 * Reads .debug_frame, and .eh_frame if the object has no eh_frame_hdr. NULL: the file describes no function, all
 * tables together would be too large, or memory is short.
 */
struct sp_frame_table *sp_frame_table_new(const struct sp_object_layout *f,
					  const struct sp_frame_file *file);
void sp_frame_table_free(struct sp_frame_table *t); /* NULL does nothing */

/*
 * Finds the function that contains an ELF address. *at is the offset in the table of a row for it, in the form of
 * .eh_frame_hdr and relative to itself; the function's FDE follows. False if the table has no such function.
 */
bool sp_frame_table_find(const struct sp_frame_table *t, uint64_t addr, uint64_t *at);

/* The word of the table at that offset, with zeros behind the table's end. False if the offset is behind the end. */
bool sp_frame_table_word(const struct sp_frame_table *t, uint64_t at, uint64_t *word);

#endif
