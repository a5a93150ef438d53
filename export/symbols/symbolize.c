/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names addresses: by the symbol table of the file; without a symbol by what debug information says;
 * without that by the start of the function from its call frame information, as "git+0x1a2b0", which gives
 * one name for each function even in stripped code; without that by the address itself. Adds lines and
 * inlined functions if debug information is known and was looked up. What was found of an address is
 * remembered, within a bound, so that its files are asked once. Context: the exporter.
 */
#include "export/symbols/symbolize.h"

#include <inttypes.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/builds.h"
#include "export/symbols/elf_file.h"
#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "sampler/base/text.h"

/*
 * Names are demangled by libiberty, linked statically. __cxa_demangle would need libstdc++, and libiberty
 * demangles Rust as well. Only cp-demangle.o and rust-demangle.o of the archive are used; they
 * never call exit(), and their licence permits linking without restriction.
 */
/* The demangler keeps several times the symbol's length on the stack. */
#define SP_SYMBOL_DEMANGLED_MAX 1024U

/* More than a real name of that length needs. */
#define SP_DEMANGLED_MAX ((size_t)64 << 10)

/*
 * The output so far. A few bytes of a mangled name can stand for gigabytes of readable text, so the
 * demangler is left by longjmp() when there is far more than can be kept. It holds no memory then,
 * except for a Rust identifier in punycode: up to 4 KiB are lost for a name that was made for this.
 */
struct text {
	jmp_buf enough;
	size_t total;
	size_t len;
	char bytes[SP_FUNCTION_NAME_MAX + 64];
};

static void take(const char *part, size_t len, void *arg)
{
	struct text *t = arg;
	size_t room = sizeof(t->bytes) - t->len;

	/* The Rust demangler passes a null pointer for an empty name. */
	if (len != 0)
		memcpy(t->bytes + t->len, part, len < room ? len : room);
	t->len += len < room ? len : room;
	t->total += len;
	if (t->total > SP_DEMANGLED_MAX)
		longjmp(t->enough, 1); // NOLINT(cert-err52-cpp)
}

/* "_R", or the older "_ZN ... 17h and 16 hex digits and E". */
static bool looks_rust(const char *symbol, size_t len)
{
	return strncmp(symbol, "_R", 2) == 0 ||
	       (len > 24 && symbol[len - 1] == 'E' && strncmp(symbol + len - 20, "17h", 3) == 0 &&
		strspn(symbol + len - 17, "0123456789abcdef") == 16);
}

/*
 * A Rust name can say of the type of a function, or of a trait object, how many lifetimes it binds: "G", a number of base
 * 62 and "_". The demangler counts to that number, also where it prints nothing and so is not left by take(). Two
 * digits are more than any compiler writes.
 */
static bool binds_without_end(const char *symbol)
{
	static const char digit[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (const char *at = symbol + 2; (at = strchr(at, 'G')) != NULL; at++) {
		size_t digits = strspn(at + 1, digit);

		if ((at[-1] == 'F' || at[-1] == 'D') && digits > 2 && at[1 + digits] == '_')
			return true;
	}
	return false;
}

/*
 * Template arguments stay. Function parameters are left out: they lengthen a flame graph, and the
 * raw symbol distinguishes overloads.
 */
static void demangle(const char *symbol, size_t len, struct text *t)
{
	if (symbol[1] == 'R' && binds_without_end(symbol))
		return;
	if (setjmp(t->enough) != 0) // NOLINT(cert-err52-cpp)
		return;
	if (looks_rust(symbol, len) && rust_demangle_callback(symbol, 0, take, t) != 0)
		return;
	t->len = 0;
	if (strncmp(symbol, "_Z", 2) != 0 ||
	    cplus_demangle_v3_callback(symbol, DMGL_ANSI, take, t) == 0)
		t->len = 0;
}

size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1])
{
	size_t len = strlen(symbol);
	struct text t;
	size_t n;

	t.len = 0;
	t.total = 0;
	if (symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') &&
	    len <= SP_SYMBOL_DEMANGLED_MAX)
		demangle(symbol, len, &t);
	n = t.len != 0 ? sp_text_clean(out, SP_FUNCTION_NAME_MAX, t.bytes, t.len)
		       : sp_text_clean(out, SP_FUNCTION_NAME_MAX, symbol, len);
	out[n] = '\0';
	return n;
}

#define SP_KEY_MARKER UINT64_C(1)
#define SP_KEY_UNKNOWN UINT64_C(2)
#define SP_KEY_ANON UINT64_C(3)
#define SP_KEY_MAP (UINT64_C(1) << 63)
#define SP_FILE_NAME_MAX 112U /* for a file that is not an object */

/* What is remembered; when it is more, all is forgotten between two profiles, or at once. */
#define SP_KNOWN_BYTES ((size_t)16 << 20)
#define SP_KNOWN_BYTES_MAX (4 * SP_KNOWN_BYTES)
#define SP_WANTED_MAX ((size_t)1 << 18)

const struct sp_symbolizer_options sp_symbolizer_options_default = {
	.mode = SP_SYMBOLIZE_FULL,
	.debug_root = SP_DEBUG_ROOT,
};

/* One function at an address: numbers of texts. */
struct known_line {
	uint32_t name;
	uint32_t system_name;
	uint32_t file; /* 0 = unknown */
	uint32_t line;
};

/* An address of an object. */
struct known {
	uint64_t vaddr;
	uint32_t serial;
	uint32_t first; /* in line[], innermost first */
	uint32_t lines; /* 0 = it has to be looked up again */
	bool has_lines; /* as in builds.h */
	bool is_final;
	bool is_fileless;
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

struct sp_symbolizer {
	struct sp_modules *modules;
	enum sp_symbolize_mode mode;
	struct sp_builds *builds;
	struct known_all all;
	struct wanted *wanted;
	size_t wanted_n, wanted_cap, wanted_next;
	bool wanted_sorted;
	size_t put_off; /* addresses whose lines were not worth their time, since the last sort */
	unsigned late;
	unsigned reopened;                   /* sp_builds_reopened() */
	struct sp_line line[SP_LINES_DEPTH]; /* of the last frame */
	char scratch[SP_FUNCTION_NAME_MAX + 1];
	char file[SP_FILE_NAME_MAX];
	struct sp_answer answer;
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
	const char *name = sp_text_file_name(path);
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

/* 0, which is the empty text, for NULL and when out of memory. */
static uint32_t text_id(struct sp_symbolizer *s, const char *text)
{
	struct sp_strtab *t = &s->all.text;
	uint32_t id = 0;

	if (text == NULL || (t->n == 0 && sp_strtab_init(t) != 0))
		return 0;
	return sp_strtab_put(t, text, strlen(text), &id) == 0 ? id : 0;
}

/*
 * The function that is not inlined is named by the symbol: debug information does not distinguish a part
 * that the compiler split off, such as "f.cold", from the function. Without a symbol debug information
 * names it, and without that its start.
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
		if (name == NULL)
			name = a->line[i].name;
	}
	if (name != NULL) {
		sp_demangle(name, s->scratch);
		out.system_name = text_id(s, name);
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

/* Asks for an address, and remembers the answer. NULL when out of memory. */
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
	out->address = out->place.raw ? pc - mod->bias : pc;
	out->name = mod->name;
	out->system_name = mod->name;
	set_function(&s->line[0], out);
	/* Such a frame has no function, so nothing is read for it. */
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
	/* Its segment may begin in the middle of a page, and what is before that belongs to no object. */
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
	forget(s, SP_KNOWN_BYTES);
}

void sp_symbolizer_want(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch)
{
	const struct sp_module *mod;
	const struct known *k;

	if (s->mode == SP_SYMBOLIZE_OFF)
		return;
	mod = sp_modules_find(s->modules, pc, epoch);
	if (mod == NULL)
		return;
	k = find_known(s, mod->serial, pc - mod->bias);
	if (k != NULL && k->lines != 0 && k->is_final && !(k->is_fileless && mod->path[0] != '\0'))
		return;
	if (SP_GROW(s->wanted, s->wanted_cap, s->wanted_n + 1, SP_WANTED_MAX))
		s->wanted[s->wanted_n++] = (struct wanted){mod, pc - mod->bias};
	else
		s->late++;
	s->wanted_sorted = false;
}

/*
 * By object, so that one after the other is worked on. One build may be known by several modules; those of
 * which the file is known come first, as it is for all.
 */
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

/* An address is wanted once for each stack that contains it. */
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
	/* One build may be known by several modules, of which only one has a file. */
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
	forget(s, 0);
	free(s);
}
