/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file that distributions strip debug information into. */
#ifndef SP_DEBUG_FILE_H
#define SP_DEBUG_FILE_H

#include "export/symbols/elf_file.h"

#define SP_DEBUG_ROOT "/usr/lib/debug"
#define SP_DEBUG_PATH_MAX 2048U

struct sp_debug_query {
	const char *root;   /* SP_DEBUG_ROOT, or a test's */
	const char *object; /* the file that was stripped, as an absolute path */
	const uint8_t *id;  /* its build id */
	size_t id_len;
	const struct sp_debug_link *link;
	uint64_t max; /* for the link, larger files are not tried */
};

/*
 * Opens ROOT/.build-id/ab/cdef.debug, and then what the link names: beside the object, in .debug/
 * beside it, and in ROOT followed by its folder. By build id a file must have that build id; by
 * link it must have the link's checksum, and no other build id. 0 with the path, or -ENOENT.
 */
int sp_debug_file_open(const struct sp_debug_query *q, struct sp_elf_file *out,
		       char path[SP_DEBUG_PATH_MAX]);

#endif
