/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names addresses: by the symbol table of the file; without a symbol by the start of the function
 * from its call frame information, as "git+0x1a2b0", which gives one name for each function even in
 * stripped code; without that by the address itself. Adds lines and inlined functions if debug
 * information is known and was looked up. All is cached between pushes, within a bound. Context:
 * the exporter.
 */
#include "export/symbols/symbolize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/debug_file.h"
#include "export/symbols/demangle.h"
#include "export/symbols/line_cache.h"
#include "export/symbols/line_finder.h"
#include "export/symbols/lines.h"
#include "export/symbols/name_cache.h"
#include "export/symbols/symbol_tables.h"

#define SP_KEY_MARKER UINT64_C(1)
#define SP_KEY_UNKNOWN UINT64_C(2)
#define SP_KEY_ANON UINT64_C(3)
#define SP_KEY_MAP (UINT64_C(1) << 63)
#define SP_FILE_NAME_MAX 112U /* for a file that is not an object */

const struct sp_symbolizer_options sp_symbolizer_options_default = {
	.mode = SP_SYMBOLIZE_FULL,
	.bytes = (size_t)64 << 20,
	.debug_root = SP_DEBUG_ROOT,
};

struct sp_symbolizer {
	struct sp_modules *modules;
	enum sp_symbolize_mode mode;
	struct sp_symbol_tables *tables;
	struct sp_line_finder *finder;
	struct sp_name_cache names;
	struct sp_line_cache line_cache;
	unsigned late; /* sp_symbol_tables_late(), when names were found last */
	struct sp_line line[SP_LINES_DEPTH]; /* of the last frame */
	char scratch[SP_FUNCTION_NAME_MAX + 1];
	char file[SP_FILE_NAME_MAX];
};

/* The frame is one function with that name, and its place in the source is unknown. */
static void set_function(struct sp_line *line, struct sp_frame *out)
{
	*line = (struct sp_line){out->name, out->system_name, "", 0};
	out->line = line;
	out->lines = 1;
}

void sp_symbolize_marker(const char *text, struct sp_line *line, struct sp_frame *out)
{
	*out = (struct sp_frame){
		.place = {.key = SP_KEY_MARKER, .file = "[spanprof]"},
		.name = text,
		.system_name = text,
	};
	set_function(line, out);
}

/* The last part of a path, without what the kernel says of a deleted file. */
static void name_file(const char *path, char *file, size_t cap)
{
	static const char deleted[] = " (deleted)";
	const size_t tail = sizeof(deleted) - 1;
	const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	size_t len = strlen(name);

	if (len > tail && strcmp(name + len - tail, deleted) == 0)
		len -= tail;
	(void)snprintf(file, cap, "%.*s", (int)len, name);
}

/*
 * Code outside of all known objects: generated at run time, mapped by the program, or of a file
 * that cannot be opened.
 */
static void name_foreign(struct sp_symbolizer *s, uint64_t pc, struct sp_frame *out)
{
	const struct sp_host_objects *host = sp_modules_host(s->modules);
	const struct sp_map *map = sp_host_objects_map(host, pc);
	const char *path = map != NULL ? sp_host_objects_path(host, map) : "";

	out->address = pc;
	if (map == NULL) {
		out->place = (struct sp_place){.key = SP_KEY_UNKNOWN, .file = "[unknown]"};
		out->name = "[unknown]";
	} else if (path[0] == '\0' || path[0] == '[') {
		out->place = (struct sp_place){.key = SP_KEY_ANON, .file = "[anon]"};
		out->name = "[anon]";
	} else {
		name_file(path, s->file, sizeof(s->file));
		out->place = (struct sp_place){
			.key = SP_KEY_MAP | map->start,
			.start = map->start,
			.limit = map->end,
			.offset = map->offset,
			.file = s->file,
		};
		(void)snprintf(s->scratch, sizeof(s->scratch), "%s+0x%" PRIx64, s->file,
			       pc - map->start + map->offset);
		out->name = s->scratch;
	}
	out->system_name = out->name;
}

/* Around that pc. Its number goes into bits 4 to 7 of the key, below the object's. */
static void segment_of(const struct sp_module *mod, uint64_t pc, struct sp_place *out)
{
	for (unsigned i = 0; i < mod->segments; i++) {
		const struct sp_segment *g = &mod->segment[i];

		if (pc < g->start || pc >= g->end)
			continue;
		out->start = g->start;
		out->limit = g->end;
		out->offset = g->offset;
		out->key |= (uint64_t)(i + 1) << 4;
	}
}

/*
 * The server looks up addresses as they are in the file, so the whole object is one mapping at the
 * addresses of the file.
 */
static void elf_place(const struct sp_module *mod, struct sp_place *out)
{
	if (mod->segments != 0) {
		out->start = mod->segment[0].start;
		out->limit = mod->segment[mod->segments - 1].end;
		out->offset = mod->segment[0].offset;
	}
	out->start -= mod->bias;
	out->limit -= mod->bias;
}

static void place_of(const struct sp_symbolizer *s, const struct sp_module *mod, uint64_t pc,
		     struct sp_place *out)
{
	*out = (struct sp_place){
		.key = (uint64_t)mod->serial << 8,
		.start = mod->lo,
		.limit = mod->hi,
		.file = mod->shown,
		.build_id = mod->build_id,
		.build_id_len = mod->build_id_len,
		/* Without a build id no server can find the file. */
		.raw = s->mode == SP_SYMBOLIZE_OFF && mod->build_id_len != 0 && !mod->vdso,
	};
	if (out->raw)
		elf_place(mod, out);
	else
		segment_of(mod, pc, out);
}

/* Names the function that is not inlined. True if a symbol gave the name. */
static bool name_in_module(struct sp_symbolizer *s, const struct sp_module *mod,
			   const struct sp_symbol_table *table, uint64_t pc, struct sp_frame *out)
{
	uint64_t vaddr = pc - mod->bias;
	struct sp_symbol sym = {.start = vaddr};
	uint64_t function = 0;
	bool known = table != NULL && table->symbols != NULL &&
		     sp_symtab_find(table->symbols, vaddr, &sym);
	const struct sp_name *cached;

	/*
	 * A symbol without a size may end anywhere before the next one, so a function that begins
	 * after it has a better claim to the address.
	 */
	if (!known || sym.size == 0) {
		if (sp_symbol_tables_function(s->tables, mod, vaddr, &function) &&
		    (!known || function > sym.start)) {
			sym.start = function;
			known = false;
		}
	}
	cached = sp_name_cache_get(&s->names, mod->serial, sym.start);
	if (cached != NULL) {
		out->name = cached->name;
		out->system_name = cached->system_name;
		return known;
	}
	if (known) {
		sp_demangle(sym.name, s->scratch);
		out->system_name = sym.name;
	} else {
		(void)snprintf(s->scratch, sizeof(s->scratch), "%.200s+0x%" PRIx64, mod->name,
			       sym.start);
		out->system_name = s->scratch;
	}
	out->name = s->scratch;
	sp_name_cache_put(&s->names, mod->serial, sym.start, out->name, out->system_name);
	return known;
}

static const char *text(const struct sp_symbolizer *s, uint32_t id)
{
	size_t len;

	return id != 0 ? sp_strtab_get(&s->line_cache.texts, id, &len) : "";
}

/*
 * Adds what the debug information says about the address, if that was looked up. The symbol names
 * the function that is not inlined: debug information does not distinguish a part that the compiler
 * split off, such as "f.cold", from the function.
 */
static void add_lines(struct sp_symbolizer *s, const struct sp_module *mod, uint64_t vaddr,
		      bool known, struct sp_frame *out)
{
	const struct sp_cached_line *line;
	struct sp_line *last;
	unsigned n = 0;

	if (!sp_line_cache_get(&s->line_cache, mod->serial, vaddr, &line, &n) || n == 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		s->line[i] = (struct sp_line){
			.name = line[i].name != 0 ? text(s, line[i].name) : "[inlined]",
			.system_name = text(s, line[i].system_name),
			.file = text(s, line[i].file),
			.line = line[i].line,
		};
	}
	last = &s->line[n - 1];
	if (known || line[n - 1].name == 0) {
		last->name = out->name;
		last->system_name = out->system_name;
	} else {
		out->name = last->name;
		out->system_name = last->system_name;
	}
	out->lines = n;
}

void sp_symbolize(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch, struct sp_frame *out)
{
	const struct sp_module *mod = sp_modules_find(s->modules, pc, epoch);
	const struct sp_symbol_table *table = NULL;
	bool known;

	if (mod == NULL) {
		name_foreign(s, pc, out);
		set_function(&s->line[0], out);
		return;
	}
	place_of(s, mod, pc, &out->place);
	out->address = out->place.raw ? pc - mod->bias : pc;
	/* Such a frame has no function, so nothing is read for it. */
	if (out->place.raw) {
		out->name = mod->name;
		out->system_name = mod->name;
		set_function(&s->line[0], out);
		return;
	}
	if (s->mode != SP_SYMBOLIZE_OFF)
		table = sp_symbol_tables_get(s->tables, mod);
	known = name_in_module(s, mod, table, pc, out);
	set_function(&s->line[0], out);
	if (table == NULL || table->dwarf_path == NULL)
		return;
	out->place.lines = true;
	add_lines(s, mod, pc - mod->bias, known, out);
}

bool sp_symbolize_main(const struct sp_symbolizer *s, struct sp_place *out)
{
	const struct sp_module *mod = sp_modules_main(s->modules);
	const struct sp_symbol_table *table;

	if (mod == NULL)
		return false;
	place_of(s, mod, mod->segments != 0 ? mod->segment[0].start : mod->lo, out);
	table = s->mode != SP_SYMBOLIZE_OFF ? sp_symbol_tables_get(s->tables, mod) : NULL;
	out->lines = table != NULL && table->dwarf_path != NULL;
	return true;
}

void sp_symbolizer_begin(struct sp_symbolizer *s)
{
	if (sp_line_cache_full(&s->line_cache))
		sp_line_cache_clear(&s->line_cache);
}

void sp_symbolizer_want(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch)
{
	const struct sp_module *mod;

	if (s->mode == SP_SYMBOLIZE_OFF)
		return;
	mod = sp_modules_find(s->modules, pc, epoch);
	if (mod != NULL)
		sp_line_finder_want(s->finder, mod, pc - mod->bias);
}

bool sp_symbolizer_step(struct sp_symbolizer *s, uint64_t ns)
{
	return sp_line_finder_step(s->finder, ns);
}

void sp_symbolizer_spend(struct sp_symbolizer *s, uint64_t ns)
{
	sp_line_finder_spend(s->finder, ns);
}

void sp_symbolizer_end(struct sp_symbolizer *s)
{
	sp_line_finder_end(s->finder);
	/* Functions without a symbol have one now. */
	if (s->late != sp_symbol_tables_late(s->tables))
		sp_name_cache_clear(&s->names);
	s->late = sp_symbol_tables_late(s->tables);
}

void sp_symbolizer_losses(const struct sp_symbolizer *s, struct sp_symbolizer_losses *out)
{
	*out = (struct sp_symbolizer_losses){
		.evicted = sp_symbol_tables_evictions(s->tables),
		.over_limit = sp_line_finder_over_limit(s->finder),
		.late = sp_line_finder_late(s->finder),
	};
}

unsigned sp_symbolizer_loads(const struct sp_symbolizer *s)
{
	return sp_symbol_tables_loads(s->tables);
}

/* Half of the memory is for the debug information of one object, while it is read. */
struct sp_symbolizer *sp_symbolizer_new(struct sp_modules *modules,
					const struct sp_symbolizer_options *options)
{
	const struct sp_symbol_sources sources = {
		.debug_root = options->debug_root,
		.symbols = options->mode != SP_SYMBOLIZE_OFF,
		.dwarf = options->mode == SP_SYMBOLIZE_FULL,
		.fetch = options->fetch,
		.fetch_arg = options->fetch_arg,
	};
	struct sp_symbolizer *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->modules = modules;
	s->mode = options->mode;
	s->names.limit = options->bytes / 16;
	s->line_cache.limit = options->bytes / 16;
	s->tables = sp_symbol_tables_new(&sources, options->bytes / 8 * 3);
	s->finder = sp_line_finder_new(s->tables, sources.dwarf ? &s->line_cache : NULL,
				       options->bytes / 2);
	if (s->tables == NULL || s->finder == NULL) {
		sp_symbolizer_free(s);
		return NULL;
	}
	return s;
}

void sp_symbolizer_turn_to(struct sp_symbolizer *s, struct sp_modules *modules)
{
	s->modules = modules;
}

void sp_symbolizer_free(struct sp_symbolizer *s)
{
	if (s == NULL)
		return;
	sp_line_finder_free(s->finder);
	sp_symbol_tables_free(s->tables);
	sp_name_cache_clear(&s->names);
	sp_line_cache_clear(&s->line_cache);
	free(s);
}
