/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the symbol tables of builds. Each build is read once: the object's own file, then the
 * separate debug file, then, if the user configured servers, theirs. The least recently used tables
 * are dropped when memory is short. Context: the exporter.
 */
#include "export/symbols/symbol_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/objects/vdso.h"
#include "export/symbols/debug_file.h"

#define SP_TABLES_MAX 256U
#define SP_HINTS 256U

struct sp_symbol_tables {
	struct sp_symbol_sources sources;
	size_t limit;
	struct sp_symbol_table *table[SP_TABLES_MAX];
	uint32_t n;
	uint8_t hint[SP_HINTS]; /* where the table of a serial was found last */
	size_t bytes;
	uint64_t clock;
	unsigned loads, evictions, late;
};

_Static_assert(SP_TABLES_MAX <= UINT8_MAX + 1U, "hint[] holds indexes");

static size_t bytes_of(const struct sp_symbol_table *t)
{
	return (t->symbols != NULL ? sp_symtab_bytes(t->symbols) : 0) +
	       (t->fde != NULL ? sp_fde_file_bytes(t->fde) : 0);
}

static void drop(struct sp_symbol_tables *t, uint32_t i)
{
	struct sp_symbol_table *gone = t->table[i];

	t->bytes -= bytes_of(gone);
	sp_symtab_free(gone->symbols);
	sp_fde_file_free(gone->fde);
	free(gone->dwarf_path);
	free(gone);
	t->table[i] = t->table[--t->n];
}

static void drop_coldest(struct sp_symbol_tables *t)
{
	uint32_t coldest = 0;

	for (uint32_t i = 1; i < t->n; i++)
		if (t->table[i]->used < t->table[coldest]->used)
			coldest = i;
	drop(t, coldest);
	t->evictions++;
}

static void add_debug(struct sp_symbol_table *t, struct sp_elf_file *file, const char *path,
		      bool dwarf)
{
	uint8_t id[64];

	if (t->symbols == NULL)
		t->symbols = sp_symtab_new();
	if (t->symbols != NULL && !sp_symtab_full(t->symbols))
		(void)sp_symtab_add(t->symbols, file->elf);
	if (dwarf && t->dwarf_path == NULL && sp_elf_file_has_dwarf(file->elf)) {
		t->dwarf_path = strdup(path);
		t->dwarf_apart = true;
		t->dwarf_by_crc = sp_elf_file_build_id(file->elf, id, sizeof(id)) == 0;
	}
	sp_elf_file_close(file);
}

static bool complete(const struct sp_symbol_table *t, bool dwarf)
{
	return t->symbols != NULL && sp_symtab_full(t->symbols) &&
	       (!dwarf || t->dwarf_path != NULL);
}

/* True if there is more than before. */
static bool fetch_debug(const struct sp_symbol_sources *s, struct sp_symbol_table *t,
			const struct sp_module *mod)
{
	char path[SP_DEBUG_PATH_MAX];
	struct sp_elf_file file;
	int fd = s->fetch(s->fetch_arg, mod->build_id, mod->build_id_len, path, sizeof(path));

	t->fetch_due = fd == -EAGAIN;
	if (fd < 0 || sp_elf_file_open_fd(fd, mod->build_id, mod->build_id_len, &file) != 0)
		return false;
	add_debug(t, &file, path, s->dwarf);
	return true;
}

static void load_debug(const struct sp_symbol_tables *all, struct sp_symbol_table *t,
		       const struct sp_module *mod)
{
	const struct sp_symbol_sources *s = &all->sources;
	const struct sp_debug_query query = {
		.root = s->debug_root,
		.object = mod->shown,
		.id = mod->build_id,
		.id_len = mod->build_id_len,
		.link = t->symbols != NULL ? sp_symtab_debug_link(t->symbols) : NULL,
		.max = (uint64_t)1 << 30,
	};
	char path[SP_DEBUG_PATH_MAX];
	struct sp_elf_file file;

	if (sp_debug_file_open(&query, &file, path) == 0)
		add_debug(t, &file, path, s->dwarf);
	if (!complete(t, s->dwarf) && s->fetch != NULL && mod->build_id_len != 0)
		(void)fetch_debug(s, t, mod);
}

/* libelf may write to what it reads. */
static void *vdso_copy(size_t *size)
{
	const uint8_t *image = sp_vdso_image(size);
	void *copy = image != NULL ? malloc(*size) : NULL;

	if (copy != NULL)
		memcpy(copy, image, *size);
	return copy;
}

static void load_vdso(struct sp_symbol_table *t)
{
	size_t size;
	void *image = vdso_copy(&size);

	if (image != NULL)
		(void)sp_symtab_read_image(image, size, &t->symbols);
	free(image);
}

/* A file without a build id may have been replaced by another one without. */
static int open_trusted(const char *path, const struct sp_module *mod, struct sp_elf_file *file)
{
	int err = sp_elf_file_open(path, mod->build_id, mod->build_id_len, file);

	if (err != 0 || mod->build_id_len != 0 || sp_elf_file_laid_out_as(file->elf, mod))
		return err;
	sp_elf_file_close(file);
	return -ESTALE;
}

static bool has_file(const struct sp_module *mod)
{
	return mod->path[0] == '/';
}

/*
 * The file of a module, and the path by which it was found. The path to show is tried first if a
 * build id proves that it leads to the file, because a path in /proc/PID is gone when the host has
 * ended.
 */
static int open_object(const struct sp_module *mod, struct sp_elf_file *file, const char **path)
{
	const char *const way[] = {mod->path, mod->shown, mod->path};

	if (!has_file(mod))
		return -ENOENT;
	for (unsigned i = mod->build_id_len != 0 ? 1 : 0, end = i + 2; i < end; i++) {
		*path = way[i];
		if ((*path)[0] == '/' && open_trusted(*path, mod, file) == 0)
			return 0;
	}
	return -ENOENT;
}

static void load(const struct sp_symbol_tables *all, struct sp_symbol_table *t,
		 const struct sp_module *mod)
{
	struct sp_elf_file file;
	const char *path = "";

	if (!all->sources.symbols)
		return;
	if (mod->vdso) {
		load_vdso(t);
		return;
	}
	if (open_object(mod, &file, &path) == 0) {
		(void)sp_symtab_read(file.elf, &t->symbols);
		sp_elf_file_close(&file);
	}
	if (all->sources.dwarf && t->symbols != NULL && sp_symtab_has_dwarf(t->symbols))
		t->dwarf_path = strdup(path);
	if (!complete(t, all->sources.dwarf))
		load_debug(all, t, mod);
}

static struct sp_fde_file *read_frames(const struct sp_module *mod)
{
	struct sp_fde_file *fde = NULL;
	struct sp_elf_file file;
	const char *path;
	size_t size;
	void *image;

	if (mod->vdso) {
		image = vdso_copy(&size);
		if (image != NULL)
			fde = sp_fde_file_read_image(image, size);
		free(image);
	} else if (open_object(mod, &file, &path) == 0) {
		fde = sp_fde_file_read(file.elf);
		sp_elf_file_close(&file);
	}
	return fde;
}

static bool is_of(const struct sp_symbol_table *t, const struct sp_module *mod)
{
	if (t->id_len != mod->build_id_len)
		return false;
	return t->id_len != 0 ? memcmp(t->id, mod->build_id, t->id_len) == 0
			      : t->serial == mod->serial;
}

struct sp_symbol_table *sp_symbol_tables_peek(struct sp_symbol_tables *t,
					      const struct sp_module *mod)
{
	uint8_t *hint = &t->hint[mod->serial % SP_HINTS];
	uint32_t i = *hint;

	if (i >= t->n || !is_of(t->table[i], mod))
		for (i = 0; i < t->n && !is_of(t->table[i], mod); i++)
			;
	if (i == t->n)
		return NULL;
	*hint = (uint8_t)i;
	t->table[i]->used = ++t->clock;
	return t->table[i];
}

/* The table that was just used stays even if it alone exceeds the limit. */
static void shrink(struct sp_symbol_tables *t)
{
	while (t->bytes > t->limit && t->n > 1)
		drop_coldest(t);
}

static void ask_again(struct sp_symbol_tables *t, struct sp_symbol_table *table,
		      const struct sp_module *mod)
{
	size_t before = bytes_of(table);

	if (!fetch_debug(&t->sources, table, mod))
		return;
	t->late++;
	t->bytes += bytes_of(table) - before;
	shrink(t);
}

struct sp_symbol_table *sp_symbol_tables_get(struct sp_symbol_tables *t,
					     const struct sp_module *mod)
{
	struct sp_symbol_table *found = sp_symbol_tables_peek(t, mod);

	if (found != NULL && found->is_fileless && has_file(mod)) {
		for (uint32_t i = 0; i < t->n; i++)
			if (t->table[i] == found)
				drop(t, i);
		found = NULL;
		t->late++;
	}
	if (found != NULL) {
		if (found->fetch_due)
			ask_again(t, found, mod);
		return found;
	}
	found = calloc(1, sizeof(*found));
	if (found == NULL)
		return NULL;
	memcpy(found->id, mod->build_id, mod->build_id_len);
	found->id_len = mod->build_id_len;
	found->serial = mod->serial;
	found->used = ++t->clock;
	found->is_fileless = !mod->vdso && !has_file(mod);
	load(t, found, mod);
	t->loads++;
	if (t->n == SP_TABLES_MAX)
		drop_coldest(t);
	t->table[t->n++] = found;
	t->bytes += bytes_of(found);
	shrink(t);
	return found;
}

bool sp_symbol_tables_function(struct sp_symbol_tables *t, const struct sp_module *mod,
			       uint64_t vaddr, uint64_t *start)
{
	struct sp_symbol_table *table = sp_symbol_tables_get(t, mod);

	if (table == NULL)
		return false;
	if (!table->fde_tried && (mod->vdso || has_file(mod))) {
		table->fde_tried = true;
		table->fde = read_frames(mod);
		t->bytes += table->fde != NULL ? sp_fde_file_bytes(table->fde) : 0;
		shrink(t);
	}
	return table->fde != NULL && sp_fde_file_find(table->fde, vaddr, start) &&
	       *start + mod->bias >= mod->lo;
}

unsigned sp_symbol_tables_late(const struct sp_symbol_tables *t)
{
	return t->late;
}

unsigned sp_symbol_tables_loads(const struct sp_symbol_tables *t)
{
	return t->loads;
}

unsigned sp_symbol_tables_evictions(const struct sp_symbol_tables *t)
{
	return t->evictions;
}

struct sp_symbol_tables *sp_symbol_tables_new(const struct sp_symbol_sources *sources, size_t limit)
{
	struct sp_symbol_tables *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->sources = *sources;
	t->limit = limit;
	return t;
}

void sp_symbol_tables_free(struct sp_symbol_tables *t)
{
	if (t == NULL)
		return;
	while (t->n != 0)
		drop(t, 0);
	free(t);
}
