/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names addresses: by the symbol table of the file; without a symbol by debug information; without
 * that by the start of the function from its call frame information, as "git+0x1a2b0", which gives
 * one name for each function even in stripped code; without that by the address itself. Adds lines
 * and inlined functions if debug information is known and was looked up. Results are remembered
 * within a bound, so that the files are read once for an address. Context: the exporter.
 */
#include "export/symbols/symbolize.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/objects/object_name.h"
#include "export/objects/perf_map.h"
#include "export/symbols/demangle.h"
#include "export/symbols/elf_file.h"
#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "sampler/base/text.h"

#define SP_KEY_MARKER UINT64_C(1)
#define SP_KEY_UNKNOWN UINT64_C(2)
#define SP_KEY_ANON UINT64_C(3)
#define SP_KEY_MAP (UINT64_C(1) << 63)
#define SP_SYSTEM_NAME_MAX 4096U
#define SP_FILE_NAME_MAX 112U /* bytes for the name of a file that is not an object */

/*
 * When the remembered results take more than SP_KNOWN_BYTES, all are freed before the next profile;
 * beyond SP_KNOWN_BYTES_MAX, at once.
 */
#define SP_KNOWN_BYTES ((size_t)16 << 20)
#define SP_KNOWN_BYTES_MAX (4 * SP_KNOWN_BYTES)
#define SP_WANTED_MAX ((size_t)1 << 18)

const struct sp_symbolizer_options sp_symbolizer_options_default = {
	.mode = SP_SYMBOLIZE_FULL,
	.debug_root = SP_DEBUG_ROOT,
};

/* One function at an address: ids of texts. */
struct known_line {
	uint32_t name;
	uint32_t system_name;
	uint32_t file; /* 0 = unknown */
	uint32_t line;
};

/* What is remembered of an address in an object. */
struct known {
	uint64_t vaddr;
	uint32_t serial;
	uint32_t first; /* index in line[], innermost first */
	uint32_t lines; /* 0 = not looked up yet, or again */
	bool has_lines; /* see builds.h */
	bool is_final;
	bool is_fileless;
	bool is_unnamed;
	enum sp_lack lack;
};

/* Texts are interned, because one file name occurs in thousands of lines. */
struct known_all {
	struct known *known;
	size_t n, cap;
	struct sp_hash_index by_address;
	struct known_line *line;
	size_t lines, line_cap;
	struct sp_strtab text;
};

struct wanted {
	const struct sp_module *mod;
	uint64_t vaddr;
};

/* An address in generated code. */
struct generated {
	uint64_t pc;
	uint32_t name; /* id of a text; 0 = the program has no name for it */
};

/* The addresses of one profile in generated code. */
struct generated_all {
	struct generated *at;
	size_t n, cap;
	bool is_full; /* further addresses get no names */
	bool is_read; /* sorted, and with names */
	struct sp_strtab text;
};

struct sp_symbolizer {
	struct sp_modules *modules;
	enum sp_symbolize_mode mode;
	struct sp_builds *builds;
	struct known_all all;
	struct generated_all generated;
	struct wanted *wanted;
	size_t wanted_n, wanted_cap, wanted_next;
	bool wanted_sorted;
	size_t put_off; /* addresses since the last sort whose lines were left for later, because time was short */
	unsigned late;
	unsigned reopened;                   /* value of sp_builds_reopened() */
	struct sp_line line[SP_LINES_DEPTH]; /* of the last frame */
	char scratch[SP_FUNCTION_NAME_MAX + 1];
	char system_name[SP_SYSTEM_NAME_MAX + 1];
	char file[SP_FILE_NAME_MAX];
	struct sp_answer answer;
};

/* The frame has one function of that name, with no known place in the source. */
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

/* The first address of generated code that is at or above this one. */
static size_t generated_from(const struct generated_all *g, uint64_t pc)
{
	size_t low = 0;

	for (size_t high = g->n; low < high;) {
		size_t mid = low + (high - low) / 2;

		if (g->at[mid].pc < pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void take_generated(void *arg, uint64_t start, uint64_t end, const char *name, size_t len)
{
	struct generated_all *g = arg;
	char clean[SP_FUNCTION_NAME_MAX];
	uint32_t id = 0;

	for (size_t i = generated_from(g, start); i < g->n && g->at[i].pc < end; i++) {
		if (id == 0)
			len = sp_text_clean(clean, sizeof(clean), name, len);
		if (len == 0 || (id == 0 && sp_strtab_put(&g->text, clean, len, &id) != 0))
			return;
		g->at[i].name = id;
	}
}

static int by_pc(const void *a, const void *b)
{
	const struct generated *x = a;
	const struct generated *y = b;

	return (x->pc > y->pc) - (x->pc < y->pc);
}

/* Sorts the addresses and removes equal ones. */
static void sort_generated(struct generated_all *g)
{
	size_t n = 0;

	if (g->n != 0)
		qsort(g->at, g->n, sizeof(*g->at), by_pc);
	for (size_t i = 0; i < g->n; i++)
		if (n == 0 || g->at[n - 1].pc != g->at[i].pc)
			g->at[n++] = g->at[i];
	g->n = n;
}

/* Reads the names of all generated code that the profile has, once. */
static void read_generated(struct sp_symbolizer *s)
{
	struct generated_all *g = &s->generated;

	if (g->is_read || g->n == 0)
		return;
	g->is_read = true;
	sort_generated(g);
	if (sp_strtab_init(&g->text) == 0)
		sp_perf_map_read(sp_host_objects_perf_map(sp_modules_host(s->modules)),
				 take_generated, g);
}

static void forget_generated(struct sp_symbolizer *s)
{
	sp_strtab_fini(&s->generated.text);
	free(s->generated.at);
	memset(&s->generated, 0, sizeof(s->generated));
}

/* NULL if the program has no name for it. */
static const char *generated_name(const struct sp_symbolizer *s, uint64_t pc)
{
	const struct generated_all *g = &s->generated;
	size_t i = generated_from(g, pc);
	size_t len;

	if (i == g->n || g->at[i].pc != pc || g->at[i].name == 0)
		return NULL;
	return sp_strtab_get(&g->text, g->at[i].name, &len);
}

/*
 * Names code outside of all known objects: code generated at run time, mapped by the program, or of
 * a file that cannot be opened.
 */
static void name_foreign(struct sp_symbolizer *s, uint64_t pc, struct sp_frame *out)
{
	const struct sp_host_objects *host = sp_modules_host(s->modules);
	const struct sp_map *map = sp_host_objects_map(host, pc);
	const char *path = map != NULL ? sp_host_objects_path(host, map) : "";
	const char *generated = generated_name(s, pc);

	out->address = pc;
	out->is_unnamed = generated == NULL;
	if (generated != NULL) {
		out->place = (struct sp_place){.key = SP_KEY_ANON, .file = "[anon]"};
		out->name = generated;
	} else if (map == NULL) {
		out->place = (struct sp_place){.key = SP_KEY_UNKNOWN, .file = "[unknown]"};
		out->name = "[unknown]";
	} else if (path[0] == '[' || sp_host_objects_is_generated(host, map)) {
		out->place = (struct sp_place){
			.key = SP_KEY_ANON,
			.file = "[anon]",
			.lack = SP_LACK_MAP,
		};
		out->name = "[anon]";
	} else {
		sp_object_name(path, "", s->file, sizeof(s->file));
		out->place = (struct sp_place){
			.key = SP_KEY_MAP | map->start,
			.start = map->start,
			.limit = map->end,
			.offset = map->offset,
			.file = s->file,
			.lack = SP_LACK_FILE,
		};
		(void)snprintf(s->scratch, sizeof(s->scratch), "%s+0x%" PRIx64, s->file,
			       pc - map->start + map->offset);
		out->name = s->scratch;
	}
	out->system_name = out->name;
}

/* The segment that contains pc. Its number goes into bits 4 to 7 of the key, below the object's. */
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

/* The server looks up addresses of the file, so the whole object is one mapping at those addresses. */
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
	out->own = sp_modules_is_own(s->modules, mod);
}

static uint32_t hash(uint32_t serial, uint64_t vaddr)
{
	return (uint32_t)sp_hash_add(sp_hash_add(0, serial), vaddr);
}

static struct known *find_known(const struct sp_symbolizer *s, uint32_t serial, uint64_t vaddr)
{
	const struct known_all *a = &s->all;
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&a->by_address, hash(serial, vaddr), &step, &i);)
		if (a->known[i].vaddr == vaddr && a->known[i].serial == serial)
			return &a->known[i];
	return NULL;
}

static void forget(struct sp_symbolizer *s, size_t limit)
{
	struct known_all *a = &s->all;

	if (a->cap * sizeof(*a->known) + a->line_cap * sizeof(*a->line) +
		    sp_strtab_bytes(&a->text) + sp_hash_index_bytes(&a->by_address) <=
	    limit)
		return;
	sp_strtab_fini(&a->text);
	sp_hash_index_fini(&a->by_address);
	free(a->known);
	free(a->line);
	memset(a, 0, sizeof(*a));
}

/* The id of a text; 0, which is the empty text, for NULL and when out of memory. */
static uint32_t text_id(struct sp_symbolizer *s, const char *text)
{
	struct sp_strtab *t = &s->all.text;
	uint32_t id = 0;

	if (text == NULL || (t->n == 0 && sp_strtab_init(t) != 0))
		return 0;
	return sp_strtab_put(t, text, strlen(text), &id) == 0 ? id : 0;
}

/*
 * The function that is not inlined is named by the symbol: debug information does not distinguish a part that the
 * compiler split off, such as "f.cold", from the function. If there is no symbol, or the demangler does not know the
 * language, debug information names the function, and otherwise its start address.
 */
static struct known_line line_of(struct sp_symbolizer *s, const struct sp_module *mod, unsigned i)
{
	const struct sp_answer *a = &s->answer;
	bool is_last = i + 1 >= a->lines;
	const char *name = is_last ? a->symbol : a->line[i].name;
	struct known_line out = {0};

	if (a->lines != 0) {
		out.file = text_id(s, a->line[i].file);
		out.line = a->line[i].line;
		if (name == NULL || (a->line[i].by_source && a->line[i].name != NULL))
			name = a->line[i].name;
	}
	if (name != NULL) {
		sp_demangle(name, s->scratch);
		(void)sp_shorten(name, strlen(name), s->system_name, SP_SYSTEM_NAME_MAX);
		out.system_name = text_id(s, s->system_name);
	} else if (is_last) {
		(void)snprintf(s->scratch, sizeof(s->scratch), "%.200s+0x%" PRIx64, mod->name,
			       a->start);
		out.system_name = text_id(s, s->scratch);
	} else {
		(void)snprintf(s->scratch, sizeof(s->scratch), "[inlined]");
	}
	out.name = text_id(s, s->scratch);
	return out;
}

/* Asks the builds about an address, and remembers the answer. NULL when out of memory. */
static struct known *look_up(struct sp_symbolizer *s, const struct sp_module *mod, uint64_t vaddr,
			     bool lines)
{
	struct known_all *a = &s->all;
	struct known *k;
	unsigned n;

	sp_builds_ask(s->builds, mod, vaddr, lines, &s->answer);
	forget(s, SP_KNOWN_BYTES_MAX);
	n = s->answer.lines != 0 ? s->answer.lines : 1;
	if (!SP_GROW(a->line, a->line_cap, a->lines + n, UINT32_MAX))
		return NULL;
	k = find_known(s, mod->serial, vaddr);
	if (k == NULL) {
		if (!SP_GROW(a->known, a->cap, a->n + 1, UINT32_MAX) ||
		    !sp_hash_index_put(&a->by_address, hash(mod->serial, vaddr), (uint32_t)a->n))
			return NULL;
		k = &a->known[a->n++];
		*k = (struct known){.vaddr = vaddr, .serial = mod->serial};
	}
	if (k->lines < n) {
		k->first = (uint32_t)a->lines;
		a->lines += n;
	}
	k->lines = n;
	k->has_lines = s->answer.has_lines;
	k->is_final = s->answer.is_final;
	k->is_fileless = s->answer.is_fileless;
	k->lack = s->answer.lack;
	k->is_unnamed = s->answer.symbol == NULL &&
			(s->answer.lines == 0 || s->answer.line[s->answer.lines - 1].name == NULL);
	for (unsigned i = 0; i < n; i++)
		a->line[k->first + i] = line_of(s, mod, i);
	return k;
}

static const char *text_of(const struct sp_symbolizer *s, uint32_t id)
{
	size_t len;

	return id != 0 ? sp_strtab_get(&s->all.text, id, &len) : "";
}

void sp_symbolize(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch, struct sp_frame *out)
{
	const struct sp_module *mod = sp_modules_find(s->modules, pc, epoch);
	const struct known *k;

	if (mod == NULL) {
		name_foreign(s, pc, out);
		set_function(&s->line[0], out);
		return;
	}
	place_of(s, mod, pc, &out->place);
	out->is_unnamed = false;
	out->address = out->place.raw ? pc - mod->bias : pc;
	out->name = mod->name;
	out->system_name = mod->name;
	set_function(&s->line[0], out);
	/* The server will name such a frame, so nothing is read for it. */
	if (out->place.raw)
		return;
	k = find_known(s, mod->serial, pc - mod->bias);
	if (k == NULL || k->lines == 0)
		k = look_up(s, mod, pc - mod->bias, false);
	if (k == NULL)
		return;
	for (unsigned i = 0; i < k->lines; i++) {
		const struct known_line *line = &s->all.line[k->first + i];

		s->line[i] = (struct sp_line){
			.name = text_of(s, line->name),
			.system_name = text_of(s, line->system_name),
			.file = text_of(s, line->file),
			.line = line->line,
		};
	}
	out->place.lines = k->has_lines;
	out->place.lack = k->lack;
	out->is_unnamed = k->is_unnamed;
	out->lines = k->lines;
	out->name = s->line[k->lines - 1].name;
	out->system_name = s->line[k->lines - 1].system_name;
}

bool sp_symbolize_main(struct sp_symbolizer *s, struct sp_place *out)
{
	const struct sp_module *mod = sp_modules_main(s->modules);
	struct sp_frame f;

	if (mod == NULL)
		return false;
	/*
	 * The program's segment may begin in the middle of a page, and the bytes before it belong to no object, so an
	 * address of code is asked for.
	 */
	sp_symbolize(s, mod->lo, mod->born, &f);
	*out = f.place;
	return true;
}

void sp_symbolizer_hurry(struct sp_symbolizer *s, bool is_hurried)
{
	sp_builds_hurry(s->builds, is_hurried);
}

void sp_symbolizer_begin(struct sp_symbolizer *s)
{
	forget_generated(s);
	forget(s, SP_KNOWN_BYTES);
}

static void want_generated(struct sp_symbolizer *s, uint64_t pc)
{
	struct generated_all *g = &s->generated;

	if (sp_host_objects_perf_map(sp_modules_host(s->modules)) < 0 || g->is_full)
		return;
	/* An address was added once for each stack, so removing equal ones may make room. */
	if (g->n == SP_WANTED_MAX) {
		sort_generated(g);
		g->is_full = g->n > SP_WANTED_MAX / 2;
	}
	if (SP_GROW(g->at, g->cap, g->n + 1, SP_WANTED_MAX))
		g->at[g->n++] = (struct generated){.pc = pc};
}

void sp_symbolizer_want(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch)
{
	const struct sp_module *mod;
	const struct known *k;

	if (s->mode == SP_SYMBOLIZE_OFF)
		return;
	mod = sp_modules_find(s->modules, pc, epoch);
	if (mod == NULL) {
		want_generated(s, pc);
		return;
	}
	k = find_known(s, mod->serial, pc - mod->bias);
	if (k != NULL && k->lines != 0 && k->is_final &&
	    !(k->is_fileless && sp_module_has_file(mod)))
		return;
	if (SP_GROW(s->wanted, s->wanted_cap, s->wanted_n + 1, SP_WANTED_MAX))
		s->wanted[s->wanted_n++] = (struct wanted){mod, pc - mod->bias};
	else
		s->late++;
	s->wanted_sorted = false;
}

/*
 * Sorts by object, so that one object is read after the other. Several modules can have one build id. Modules with a
 * known file come first, so that the build is opened by a file.
 */
static int by_module(const void *a, const void *b)
{
	const struct wanted *x = a;
	const struct wanted *y = b;
	bool is_fileless[] = {!sp_module_has_file(x->mod), !sp_module_has_file(y->mod)};

	if (x->mod->serial != y->mod->serial)
		return x->mod->serial < y->mod->serial ? -1 : 1;
	if (is_fileless[0] != is_fileless[1])
		return is_fileless[0] ? 1 : -1;
	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

/* Sorts the wanted addresses and removes equal ones: an address was added once for each stack. */
static void sort(struct sp_symbolizer *s)
{
	size_t n = s->wanted_next;

	if (s->wanted_n > n)
		qsort(s->wanted + n, s->wanted_n - n, sizeof(*s->wanted), by_module);
	for (size_t i = n; i < s->wanted_n; i++)
		if (n == s->wanted_next || by_module(&s->wanted[n - 1], &s->wanted[i]) != 0)
			s->wanted[n++] = s->wanted[i];
	s->wanted_n = n;
	s->wanted_sorted = true;
	s->put_off = 0;
}

bool sp_symbolizer_step(struct sp_symbolizer *s, uint64_t ns)
{
	uint64_t end = sp_clock_mono_ns() + ns;

	read_generated(s);
	if (!s->wanted_sorted)
		sort(s);
	while (s->wanted_next < s->wanted_n) {
		const struct wanted *w = &s->wanted[s->wanted_next++];
		const struct known *k = look_up(s, w->mod, w->vaddr, true);

		s->put_off += k == NULL || (!k->is_final && k->has_lines);
		if (sp_clock_mono_ns() >= end)
			break;
	}
	return s->wanted_next < s->wanted_n;
}

void sp_symbolizer_end(struct sp_symbolizer *s)
{
	s->late += (unsigned)(s->wanted_n - s->wanted_next + s->put_off);
	free(s->wanted);
	s->wanted = NULL;
	s->wanted_n = s->wanted_cap = s->wanted_next = s->put_off = 0;
	s->wanted_sorted = false;
	/* Several modules may have one build id, and only one of them a file. */
	for (size_t i = 0; i < s->all.n && s->reopened != sp_builds_reopened(s->builds); i++)
		if (s->all.known[i].is_fileless)
			s->all.known[i].lines = 0;
	s->reopened = sp_builds_reopened(s->builds);
	sp_builds_rest(s->builds);
}

void sp_symbolizer_losses(const struct sp_symbolizer *s, struct sp_symbolizer_losses *out)
{
	struct sp_build_losses builds = sp_builds_losses(s->builds);

	*out = (struct sp_symbolizer_losses){
		.changed = builds.changed,
		.over_limit = builds.over_limit,
		.unreadable = builds.unreadable,
		.late = s->late,
	};
}

unsigned sp_symbolizer_loads(const struct sp_symbolizer *s)
{
	return sp_builds_loads(s->builds);
}

struct sp_symbolizer *sp_symbolizer_new(struct sp_modules *modules,
					const struct sp_symbolizer_options *options)
{
	const struct sp_build_sources sources = {
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
	s->builds = sp_builds_new(&sources);
	if (s->builds == NULL) {
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
	sp_builds_free(s->builds);
	free(s->wanted);
	forget_generated(s);
	forget(s, 0);
	free(s);
}
