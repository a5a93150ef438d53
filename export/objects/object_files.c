/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of the files that a host has mapped: usually a few hundred, looked up in the order in
 * which they lie in memory. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/object_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"

struct sp_object_files_entry {
	struct sp_object_file *file;
	bool seen;
};

struct query {
	const struct sp_object_host *host;
	const struct sp_map *map;
	const char *path;
};

/*
 * A file that was deleted has another path now. Its inode belongs to no other file as long as it is
 * mapped.
 */
bool sp_object_files_deleted(const struct sp_object_file *f, const char *path)
{
	size_t len = strlen(f->mapped);

	return strncmp(path, f->mapped, len) == 0 && strcmp(path + len, " (deleted)") == 0;
}

static bool is_of(const struct sp_object_file *f, const struct sp_map *map, const char *path)
{
	return f->inode == map->inode && f->device == map->device &&
	       (strcmp(f->mapped, path) == 0 || sp_object_files_deleted(f, path));
}

static int add(struct sp_object_files *all, const struct query *q,
	       const struct sp_object_file **out)
{
	struct sp_object_file *f;

	if (all->n == SP_OBJECT_FILES_MAX)
		return -E2BIG;
	if (!SP_GROW(all->entry, all->cap, all->n + 1, SP_OBJECT_FILES_MAX))
		return -ENOMEM;
	f = sp_object_file_new(q->host, q->map, q->path);
	if (f == NULL)
		return -ENOMEM;
	all->hint = all->n;
	all->entry[all->n++] = (struct sp_object_files_entry){.file = f, .seen = true};
	*out = f;
	return 0;
}

/*
 * What was read of a file stays true when it is deleted. It can still be read by the program's own
 * link, or by a privileged one, but no longer by its path.
 */
static int reopen(struct sp_object_files *all, const struct query *q,
		  const struct sp_object_files_entry *known, const struct sp_object_file **out)
{
	size_t at = (size_t)(known - all->entry);
	int err = add(all, q, out);

	if (err != 0 || (*out)->known)
		return err;
	sp_object_file_free(all->entry[--all->n].file);
	all->hint = at;
	all->entry[at].seen = true;
	*out = all->entry[at].file;
	return 0;
}

/* Each file is opened once, and again if another one with its inode replaced it. */
int sp_object_files_get(struct sp_object_files *all, const struct sp_object_host *host,
			const struct sp_map *map, const char *mapped,
			const struct sp_object_file **out)
{
	const struct query q = {.host = host, .map = map, .path = mapped};

	/* The lines of a file are adjacent, so the search begins where the last one ended. */
	for (size_t n = 0; n < all->n; n++, all->hint++) {
		struct sp_object_files_entry *f = &all->entry[all->hint % all->n];

		if (!is_of(f->file, map, mapped))
			continue;
		if (f->seen || sp_object_file_unchanged(f->file)) {
			f->seen = true;
			*out = f->file;
			return 0;
		}
		if (f->file->known && sp_object_files_deleted(f->file, mapped))
			return reopen(all, &q, f, out);
	}
	return add(all, &q, out);
}

void sp_object_files_drop_unused(struct sp_object_files *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (all->entry[i].seen)
			all->entry[kept++] = all->entry[i];
		else
			sp_object_file_free(all->entry[i].file);
	}
	all->n = kept;
	sp_object_files_give_up(all);
}

void sp_object_files_give_up(struct sp_object_files *all)
{
	for (size_t i = 0; i < all->n; i++)
		all->entry[i].seen = false;
}

void sp_object_files_fini(struct sp_object_files *all)
{
	for (size_t i = 0; i < all->n; i++)
		sp_object_file_free(all->entry[i].file);
	free(all->entry);
	memset(all, 0, sizeof(*all));
}
