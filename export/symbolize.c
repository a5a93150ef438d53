/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address to a name: symbol table of the file; failing that the start of the function by
 * the mapped object's call frame information, as "git+0x1a2b0": one name per function even in
 * stripped code; failing that the address itself. Tables and names are kept between uploads within
 * a bound. Context: BG. Caller: encode.c.
 */
#include "export/symbolize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/demangle.h"
#include "export/elf_notes.h"
#include "export/maps.h"
#include "export/name_cache.h"
#include "export/symtab.h"

#define SP_TABLES_MAX 256U

#define SP_KEY_MARKER UINT64_C(1)
#define SP_KEY_UNKNOWN UINT64_C(2)
#define SP_KEY_ANON UINT64_C(3)
#define SP_KEY_MAP (UINT64_C(1) << 63)

const struct sp_symbolizer_limits sp_symbolizer_limits_default = {
	.symtab_bytes = (size_t)48 << 20,
	.name_bytes = (size_t)16 << 20,
};

/* The symbols of one build, or the knowledge that there are none to be had. */
struct table {
	uint8_t id[SP_BUILD_ID_MAX];
	uint8_t id_len;
	uint32_t serial; /* tells objects without build id apart */
	uint64_t used;
	struct sp_symtab *symbols;
};

struct sp_symbolizer {
	struct sp_modules *modules;
	struct sp_symbolizer_limits limits;
	struct table table[SP_TABLES_MAX];
	uint32_t tables;
	size_t table_bytes;
	uint64_t clock;
	unsigned loads;
	struct sp_name_cache names;
	struct sp_maps maps;
	bool maps_fresh;
	char scratch[SP_FUNCTION_NAME_MAX + 1];
	char file[sizeof(((struct sp_map *)NULL)->name)];
};

static void drop_table(struct sp_symbolizer *s, uint32_t i)
{
	if (s->table[i].symbols != NULL)
		s->table_bytes -= sp_symtab_bytes(s->table[i].symbols);
	sp_symtab_free(s->table[i].symbols);
	s->table[i] = s->table[--s->tables];
}

static void drop_oldest(struct sp_symbolizer *s)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < s->tables; i++)
		if (s->table[i].used < s->table[oldest].used)
			oldest = i;
	drop_table(s, oldest);
}

/* Debian's -dbgsym packages put the full symbol table there. */
static void add_debug_file(struct sp_symtab **t, const struct sp_module *mod)
{
	char hex[(size_t)2 * SP_BUILD_ID_MAX + 1];
	char path[sizeof("/usr/lib/debug/.build-id//.debug") + sizeof(hex)];

	if (mod->build_id_len < 2 || (*t != NULL && sp_symtab_full(*t)))
		return;
	sp_elf_hex(hex, mod->build_id, mod->build_id_len);
	(void)snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (*t == NULL)
		(void)sp_symtab_read_file(path, mod->build_id, mod->build_id_len, t);
	else
		(void)sp_symtab_add_file(*t, path, mod->build_id, mod->build_id_len);
}

static struct sp_symtab *load(const struct sp_module *mod)
{
	struct sp_symtab *t = NULL;
	size_t size;
	void *image;

	if (mod->vdso) {
		image = sp_modules_vdso_copy(mod, &size);
		if (image != NULL)
			(void)sp_symtab_read_image(image, size, &t);
		free(image);
		return t;
	}
	(void)sp_symtab_read_file(mod->path, mod->build_id, mod->build_id_len, &t);
	add_debug_file(&t, mod);
	return t;
}

static bool table_is_of(const struct table *t, const struct sp_module *mod)
{
	if (t->id_len != mod->build_id_len)
		return false;
	return t->id_len != 0 ? memcmp(t->id, mod->build_id, t->id_len) == 0
			      : t->serial == mod->serial;
}

/* NULL when the module has no symbols. */
static const struct sp_symtab *symbols_of(struct sp_symbolizer *s, const struct sp_module *mod)
{
	struct table *t;

	s->clock++;
	for (uint32_t i = 0; i < s->tables; i++) {
		if (table_is_of(&s->table[i], mod)) {
			s->table[i].used = s->clock;
			return s->table[i].symbols;
		}
	}
	if (s->tables == SP_TABLES_MAX)
		drop_oldest(s);
	t = &s->table[s->tables++];
	memset(t, 0, sizeof(*t));
	memcpy(t->id, mod->build_id, mod->build_id_len);
	t->id_len = mod->build_id_len;
	t->serial = mod->serial;
	t->used = s->clock;
	t->symbols = load(mod);
	s->loads++;
	if (t->symbols == NULL)
		return NULL;
	s->table_bytes += sp_symtab_bytes(t->symbols);
	/* The newest stays even when it alone is over the limit: without it nothing would work. */
	while (s->table_bytes > s->limits.symtab_bytes && s->tables > 1)
		drop_oldest(s);
	for (uint32_t i = 0; i < s->tables; i++)
		if (s->table[i].used == s->clock)
			return s->table[i].symbols;
	return NULL;
}

void sp_symbolize_marker(const char *text, struct sp_frame *out)
{
	*out = (struct sp_frame){
		.place = {.key = SP_KEY_MARKER, .file = "[spanprof]"},
		.name = text,
		.system_name = text,
	};
}

/* Code outside every object the loader knows: generated at run time, or mapped by the program. */
static void name_foreign(struct sp_symbolizer *s, uint64_t pc, struct sp_frame *out)
{
	const struct sp_map *map;

	if (!s->maps_fresh)
		(void)sp_maps_read(&s->maps, "/proc/self/maps");
	s->maps_fresh = true;
	map = sp_maps_find(&s->maps, pc);
	out->address = pc;
	if (map == NULL) {
		out->place = (struct sp_place){.key = SP_KEY_UNKNOWN, .file = "[unknown]"};
		out->name = "[unknown]";
	} else if (map->name[0] == '\0' || map->name[0] == '[') {
		out->place = (struct sp_place){.key = SP_KEY_ANON, .file = "[anon]"};
		out->name = "[anon]";
	} else {
		memcpy(s->file, map->name, sizeof(s->file));
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

static void place_of(const struct sp_module *mod, uint64_t pc, struct sp_place *out)
{
	uint64_t part = 0;

	*out = (struct sp_place){
		.start = mod->lo,
		.limit = mod->hi,
		.file = mod->shown,
		.build_id = mod->build_id,
		.build_id_len = mod->build_id_len,
	};
	for (unsigned i = 0; i < mod->segments; i++) {
		const struct sp_segment *g = &mod->segment[i];

		if (pc < g->start || pc >= g->end)
			continue;
		out->start = g->start;
		out->limit = g->end;
		out->offset = g->offset;
		part = i + 1;
	}
	out->key = (uint64_t)mod->serial << 8 | part << 4;
}

static void name_in_module(struct sp_symbolizer *s, const struct sp_module *mod, uint64_t pc,
			   struct sp_frame *out)
{
	const struct sp_symtab *symbols = symbols_of(s, mod);
	uint64_t vaddr = pc - mod->bias;
	struct sp_symbol sym = {.start = vaddr};
	uint64_t function = 0;
	bool known = symbols != NULL && sp_symtab_find(symbols, vaddr, &sym);
	const struct sp_name *cached;

	/* A symbol without size may end anywhere before the next one, so a function that begins
	 * behind it has a better claim to the address. */
	if (!known || sym.size == 0) {
		if (sp_modules_function(s->modules, mod, pc, &function) &&
		    (!known || function > sym.start)) {
			sym.start = function;
			known = false;
		}
	}
	cached = sp_name_cache_get(&s->names, mod->serial, sym.start);
	if (cached != NULL) {
		out->name = cached->name;
		out->system_name = cached->system_name;
		return;
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
}

void sp_symbolize(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch, struct sp_frame *out)
{
	const struct sp_module *mod = sp_modules_find(s->modules, pc, epoch);

	if (mod == NULL) {
		name_foreign(s, pc, out);
		return;
	}
	place_of(mod, pc, &out->place);
	out->address = pc;
	name_in_module(s, mod, pc, out);
}

bool sp_symbolize_main(const struct sp_symbolizer *s, struct sp_place *out)
{
	const struct sp_module *mod = sp_modules_main(s->modules);

	if (mod == NULL)
		return false;
	place_of(mod, mod->segments != 0 ? mod->segment[0].start : mod->lo, out);
	return true;
}

void sp_symbolizer_begin(struct sp_symbolizer *s)
{
	s->maps_fresh = false;
}

unsigned sp_symbolizer_loads(const struct sp_symbolizer *s)
{
	return s->loads;
}

struct sp_symbolizer *sp_symbolizer_new(struct sp_modules *modules,
					const struct sp_symbolizer_limits *limits)
{
	struct sp_symbolizer *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->modules = modules;
	s->limits = *limits;
	s->names.limit = limits->name_bytes;
	return s;
}

void sp_symbolizer_free(struct sp_symbolizer *s)
{
	if (s == NULL)
		return;
	while (s->tables != 0)
		drop_table(s, 0);
	sp_name_cache_clear(&s->names);
	sp_maps_fini(&s->maps);
	free(s);
}
