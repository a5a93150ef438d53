/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind the mappings of a host. Each is opened once for as long as it is mapped.
 * Context: the exporter.
 */
#ifndef SP_OBJECT_FILES_H
#define SP_OBJECT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "export/objects/object_file.h"

#define SP_OBJECT_FILES_MAX 4096U

/* Zero it at first use. */
struct sp_object_files {
	struct sp_object_files_entry *entry;
	size_t n;
	size_t cap;
	size_t hint; /* modulo n: the one that was asked for last */
};

void sp_object_files_fini(struct sp_object_files *all);

/*
 * The file of a mapping, whose path is `mapped`. It lives until a sp_object_files_drop_unused()
 * before which it was not looked up. 0, -E2BIG if there are too many, -ENOMEM.
 */
int sp_object_files_get(struct sp_object_files *all, const struct sp_object_host *host,
			const struct sp_map *map, const char *mapped,
			const struct sp_object_file **out);

/* All mappings were looked up: files that were not are dropped. */
void sp_object_files_drop_unused(struct sp_object_files *all);

/* Not all could be looked up, so nothing is dropped. */
void sp_object_files_give_up(struct sp_object_files *all);

/* True if path is what the kernel calls the file after it was deleted. */
bool sp_object_files_deleted(const struct sp_object_file *f, const char *path);

#endif
