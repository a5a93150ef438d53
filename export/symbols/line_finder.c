/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up source lines. Reading debug information is expensive: libc's takes 35 ms. So addresses
 * are collected, sorted by module and looked up module by module, with the debug information of one
 * object in memory at a time, and none between two pushes. Programs keep reaching new addresses,
 * one or two in each push after the first minute; so debug information is not read again for too
 * few of them. Context: the exporter.
 */
#include "export/symbols/line_finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/demangle.h"
#include "export/symbols/lines.h"
#include "export/util/clock.h"
#include "export/util/grow.h"
#include "sampler/base/compiler.h"

#define SP_WANTED_MAX ((size_t)1 << 18)
/*
 * Debug information that took more CPU time than this to read is read again for one address only
 * after 2,000 times as long, for two after 1,000 times, and so on.
 */
#define SP_CHEAP_NS (5 * SP_NS_PER_MS)
#define SP_PATIENCE 2000U
#define SP_APART_WORTH 2U /* for separate debug files, more addresses count as so many */
/* Compressed debug information, as in Debian's packages: 4 ns a byte to unpack. */
#define SP_READ_NS 4U

struct wanted {
	const struct sp_module *mod;
	uint64_t vaddr;
};

struct sp_line_finder {
	struct sp_symbol_tables *tables;
	struct sp_line_cache *cache;
	uint64_t dwarf_max;
	struct wanted *wanted;
	size_t n, cap, next;
	bool sorted;
	const struct sp_module
		*open; /* the module whose debug information `lines` has; NULL = none */
	struct sp_lines *lines;
	uint64_t open_cpu_ns; /* CPU time when it was opened */
	uint64_t spend_ns;
	size_t put_off; /* addresses not worth reading for, since the last sort */
	unsigned over_limit, late;
	char scratch[SP_FUNCTION_NAME_MAX + 1];
};

struct sp_line_finder *sp_line_finder_new(struct sp_symbol_tables *tables,
					  struct sp_line_cache *cache, uint64_t dwarf_max)
{
	struct sp_line_finder *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->tables = tables;
	f->cache = cache;
	f->dwarf_max = dwarf_max;
	f->spend_ns = UINT64_MAX;
	return f;
}

void sp_line_finder_spend(struct sp_line_finder *f, uint64_t ns)
{
	f->spend_ns = ns;
}

static void close_lines(struct sp_line_finder *f)
{
	struct sp_symbol_table *t =
		f->open != NULL ? sp_symbol_tables_peek(f->tables, f->open) : NULL;

	if (t != NULL) {
		t->dwarf_read_ns = sp_clock_mono_ns();
		t->dwarf_cost_ns = sp_clock_cpu_ns() - f->open_cpu_ns;
	}
	sp_lines_free(f->lines);
	f->lines = NULL;
	f->open = NULL;
}

void sp_line_finder_end(struct sp_line_finder *f)
{
	close_lines(f);
	f->late += (unsigned)(f->n - f->next + f->put_off);
	f->put_off = 0;
	free(f->wanted);
	f->wanted = NULL;
	f->n = f->cap = f->next = 0;
	f->sorted = false;
}

void sp_line_finder_free(struct sp_line_finder *f)
{
	if (f == NULL)
		return;
	sp_line_finder_end(f);
	free(f);
}

static bool known(const struct sp_line_finder *f, const struct sp_module *mod, uint64_t vaddr)
{
	const struct sp_symbol_table *t = sp_symbol_tables_peek(f->tables, mod);
	const struct sp_cached_line *line;
	unsigned n;

	return t != NULL && !t->fetch_due && !(t->is_fileless && mod->path[0] != '\0') &&
	       (f->cache == NULL || t->dwarf_path == NULL ||
		sp_line_cache_get(f->cache, mod->serial, vaddr, &line, &n));
}

void sp_line_finder_want(struct sp_line_finder *f, const struct sp_module *mod, uint64_t vaddr)
{
	if (known(f, mod, vaddr))
		return;
	if (!SP_GROW(f->wanted, f->cap, f->n + 1, SP_WANTED_MAX)) {
		f->late++;
		return;
	}
	f->wanted[f->n++] = (struct wanted){mod, vaddr};
	f->sorted = false;
}

/* One build may be known by several modules; those of which the file is known come first, as it is for all. */
static int by_module(const void *a, const void *b)
{
	const struct wanted *x = a;
	const struct wanted *y = b;
	bool is_fileless[] = {x->mod->path[0] == '\0', y->mod->path[0] == '\0'};

	if (x->mod->serial != y->mod->serial)
		return x->mod->serial < y->mod->serial ? -1 : 1;
	if (is_fileless[0] != is_fileless[1])
		return is_fileless[0] ? 1 : -1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

/* An address is added once for each stack that contains it. */
static void sort(struct sp_line_finder *f)
{
	size_t n = f->next;

	if (f->n > f->next)
		qsort(f->wanted + f->next, f->n - f->next, sizeof(*f->wanted), by_module);
	for (size_t i = f->next; i < f->n; i++)
		if (n == f->next || by_module(&f->wanted[n - 1], &f->wanted[i]) != 0)
			f->wanted[n++] = f->wanted[i];
	f->n = n;
	f->put_off = 0;
	f->sorted = true;
}

static int open_file(const struct sp_symbol_table *t, struct sp_elf_file *file)
{
	return sp_elf_file_open(t->dwarf_path, t->id, t->dwarf_by_crc ? 0 : t->id_len, file);
}

/* Not for the object's own debug information: who left it in the file wants to see it. */
static bool too_dear(const struct sp_line_finder *f, struct sp_symbol_table *t)
{
	struct sp_elf_file file;
	uint64_t ns;

	if (f->spend_ns == UINT64_MAX || !t->dwarf_apart)
		return false;
	if (t->dwarf_need == 0 && open_file(t, &file) == 0) {
		t->dwarf_need = sp_lines_need(file.elf);
		sp_elf_file_close(&file);
	}
	ns = t->dwarf_need < UINT64_MAX / SP_READ_NS ? t->dwarf_need * SP_READ_NS : UINT64_MAX;
	return ns >= SP_CHEAP_NS && ns > f->spend_ns;
}

static void open_lines(struct sp_line_finder *f, const struct sp_module *mod,
		       struct sp_symbol_table *t)
{
	struct sp_elf_file file;

	close_lines(f);
	f->open = mod;
	f->open_cpu_ns = sp_clock_cpu_ns();
	if (open_file(t, &file) != 0)
		return;
	if (sp_lines_need(file.elf) <= f->dwarf_max) {
		(void)sp_lines_new(&file, &f->lines);
		return;
	}
	sp_elf_file_close(&file);
	f->over_limit++;
	/* Not tried again as long as the table lives. */
	free(t->dwarf_path);
	t->dwarf_path = NULL;
}

static uint32_t file_text(struct sp_line_finder *f, const struct sp_source_line *line)
{
	if (line->dir == NULL)
		return sp_line_cache_text(f->cache, line->file);
	(void)snprintf(f->scratch, sizeof(f->scratch), "%s/%s", line->dir, line->file);
	return sp_line_cache_text(f->cache, f->scratch);
}

static void look_up(struct sp_line_finder *f, const struct wanted *w)
{
	struct sp_source_line found[SP_LINES_DEPTH];
	struct sp_cached_line line[SP_LINES_DEPTH];
	unsigned n = f->lines != NULL ? sp_lines_find(f->lines, w->vaddr, found) : 0;

	for (unsigned i = 0; i < n; i++) {
		line[i] = (struct sp_cached_line){
			.system_name = sp_line_cache_text(f->cache, found[i].name),
			.file = file_text(f, &found[i]),
			.line = found[i].line,
		};
		if (found[i].name == NULL)
			continue;
		sp_demangle(found[i].name, f->scratch);
		line[i].name = sp_line_cache_text(f->cache, f->scratch);
	}
	sp_line_cache_put(f->cache, w->mod->serial, w->vaddr, line, n);
}

static void serve(struct sp_line_finder *f, const struct wanted *w)
{
	struct sp_symbol_table *t = sp_symbol_tables_get(f->tables, w->mod);

	if (t == NULL || f->cache == NULL || t->dwarf_path == NULL)
		return;
	if (f->open != w->mod && too_dear(f, t)) {
		f->put_off++;
		return;
	}
	if (f->open != w->mod)
		open_lines(f, w->mod, t);
	if (t->dwarf_path != NULL)
		look_up(f, w);
}

/* How many of the next addresses, all in one object, are too few to read its debug information. */
static size_t too_few(const struct sp_line_finder *f)
{
	const struct sp_module *mod = f->wanted[f->next].mod;
	const struct sp_symbol_table *t = sp_symbol_tables_peek(f->tables, mod);
	size_t n = 1;
	size_t worth;

	if (t == NULL || t->dwarf_path == NULL || t->dwarf_cost_ns < SP_CHEAP_NS || mod == f->open)
		return 0;
	while (f->next + n < f->n && f->wanted[f->next + n].mod == mod)
		n++;
	worth = t->dwarf_apart && n > SP_APART_WORTH ? SP_APART_WORTH : n;
	return (sp_clock_mono_ns() - t->dwarf_read_ns) / SP_PATIENCE * worth < t->dwarf_cost_ns ? n
												: 0;
}

bool sp_line_finder_step(struct sp_line_finder *f, uint64_t ns)
{
	uint64_t end = sp_clock_mono_ns() + ns;

	if (!f->sorted)
		sort(f);
	while (f->next < f->n) {
		size_t skipped = too_few(f);
		const struct wanted *w;

		if (skipped != 0) {
			f->put_off += skipped;
			f->next += skipped;
			continue;
		}
		w = &f->wanted[f->next++];
		/* What does not fit any more has no lines in this push. */
		if (f->cache != NULL && sp_line_cache_full(f->cache))
			f->late++;
		else
			serve(f, w);
		if (sp_clock_mono_ns() >= end)
			break;
	}
	return f->next < f->n;
}

unsigned sp_line_finder_over_limit(const struct sp_line_finder *f)
{
	return f->over_limit;
}

unsigned sp_line_finder_late(const struct sp_line_finder *f)
{
	return f->late;
}
