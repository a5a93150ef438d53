/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds source lines and inlined functions in DWARF, by libdw.
 *
 * The search for an address uses two sorted lists of address ranges. The list of all units is made at once, from one
 * entry per unit. The list of a unit's functions is made when an address in the unit is first looked up. libdw's own
 * search has three drawbacks: before version 0.191 it reads .debug_aranges, which clang does not write; it does not
 * see functions in namespaces; and it walks all entries of a unit for each address. The walks are bounded, so that
 * damaged files that refer to themselves cause no endless loop. The ranges are bounded, because any number of entries
 * can name one long list. The attributes are bounded, because an entry of one byte can have any number of attributes,
 * which libdw reads to reach the next entry. If a range that might cover an address was not read, the address has no
 * lines: the line of an inlined function would look like a line of the function around it. Context: the exporter.
 */
#include "export/symbols/lines.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "export/symbols/die_names.h"
#include "export/symbols/elf_file.h"
#include "export/util/containers.h"
#include "sampler/base/compiler.h"

#define SP_MEMORY_MAX ((size_t)256 << 20)
#define SP_BLOCKS_MAX 32U /* depth of nested blocks */
/*
 * At most this many entries of one function, and ranges of these entries, are examined for one
 * address.
 */
#define SP_INLINES_WALK (256U << 10)
#define SP_UNITS_MAX ((size_t)1 << 20)
#define SP_RANGES_MAX ((size_t)4 << 20)
/* At most this many ranges of a file are read: first of its units, then of its functions. */
#define SP_RANGES_SEEN_MAX ((size_t)16 << 20)
#define SP_ENTRIES_MAX (4U << 20) /* of one unit */
#define SP_OVERLAP 32U            /* overlapping ranges examined before the nearest one */

/* What libdw keeps in memory of a unit, and of a row of its line table. */
#define SP_UNIT_BYTES 1024U
#define SP_ROW_BYTES 48U
#define SP_ROWS_BACK 256U /* rows of a line table that are examined before the one for an address */

struct range {
	uint64_t lo;
	uint64_t hi;
	uint64_t item;
};

struct ranges {
	struct range *range;
	size_t n, cap;
};

struct unit {
	Dwarf_Die die;
	bool is_split;
	bool is_open;
	bool is_complete; /* all functions are known */
	struct ranges functions;
	Dwarf_Die *function;
	size_t function_n, function_cap;
};

struct sp_lines {
	Dwarf *dwarf;
	struct unit *unit;
	size_t n, cap;
	struct ranges ranges;
	struct sp_die_names *names;
	size_t seen;  /* ranges of units and of functions that were read */
	size_t bytes; /* memory for the units that were read */
	bool is_split;
	bool misses_parts;
	/* the single file with all split units, PATH.dwp */
	bool package_is_seen, package_may_be_opened;
	char path[PATH_MAX]; /* of the file, as libdw has it */
};

static int add_range(struct ranges *r, uint64_t lo, uint64_t hi, uint64_t item)
{
	if (lo >= hi || r->n >= SP_RANGES_MAX)
		return 0;
	if (!SP_GROW(r->range, r->cap, r->n + 1, SP_RANGES_MAX))
		return -ENOMEM;
	r->range[r->n++] = (struct range){lo, hi, item};
	return 0;
}

static int add_ranges(struct sp_lines *l, struct ranges *r, Dwarf_Die *die, uint64_t item)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	int err = 0;

	/* The linker gives address 0 to functions that it discards. */
	while (err == 0 && (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
		if (l->seen++ >= SP_RANGES_SEEN_MAX)
			err = -E2BIG;
		else if (lo != 0)
			err = add_range(r, lo, hi, item);
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a;
	const struct range *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return (x->hi < y->hi) - (x->hi > y->hi);
}

/* The smallest range around addr, or NULL. */
static const struct range *find(const struct ranges *r, uint64_t addr)
{
	const struct range *best = NULL;
	size_t low = SP_SORTED_UPTO(r->range, r->n, lo, addr);

	for (size_t back = 0; back < SP_OVERLAP && back < low; back++) {
		const struct range *at = &r->range[low - 1 - back];

		if (addr < at->hi && (best == NULL || at->hi - at->lo < best->hi - best->lo))
			best = at;
	}
	return best;
}

static bool has_code(int tag)
{
	return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

static size_t attributes_of(Dwarf_Abbrev *abbreviation)
{
	size_t n;

	return dwarf_getattrcnt(abbreviation, &n) == 0 ? n : 0;
}

/*
 * Adds a unit. A unit with too many attributes is left out, and counts as the number of ranges that take as long to
 * read.
 */
static int add_unit(struct sp_lines *l, const Dwarf_Die *die, bool is_split)
{
	size_t attributes = attributes_of(die->abbrev);
	struct unit *u;

	if (attributes > SP_ATTRIBUTES_MAX) {
		l->seen += attributes / 16;
		return l->seen > SP_RANGES_SEEN_MAX ? -E2BIG : 0;
	}
	if (!SP_GROW(l->unit, l->cap, l->n + 1, SP_UNITS_MAX))
		return -ENOMEM;
	u = &l->unit[l->n++];
	*u = (struct unit){.die = *die, .is_split = is_split};
	l->is_split = l->is_split || is_split;
	return add_ranges(l, &l->ranges, &u->die, l->n - 1);
}

/* False if no unit covers an address, or when out of memory. Units behind too many ranges are left out. */
static bool add_units(struct sp_lines *l)
{
	Dwarf_CU *cu = NULL;
	uint8_t type = 0;
	Dwarf_Die die;
	int err = 0;

	while (err == 0 && l->n < SP_UNITS_MAX &&
	       dwarf_get_units(l->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
		l->bytes += SP_UNIT_BYTES;
		if (die.addr != NULL && has_code(dwarf_tag(&die)))
			err = add_unit(l, &die, type == DW_UT_skeleton);
	}
	l->seen = 0;
	if (l->ranges.n != 0)
		qsort(l->ranges.range, l->ranges.n, sizeof(*l->ranges.range), by_start);
	return err != -ENOMEM && l->ranges.n != 0;
}

/*
 * Whether a section is about variables, frames or macros: such sections are large, and useless for
 * lines.
 */
static bool is_needless(const char *name)
{
	static const char *const needless[] = {"loc", "loclists", "frame", "macro", "macinfo"};

	if (strncmp(name, ".debug_", 7) == 0)
		name += 7;
	else if (strncmp(name, ".zdebug_", 8) == 0)
		name += 8;
	else
		return false;
	for (size_t i = 0; i < sizeof(needless) / sizeof(needless[0]); i++)
		if (strcmp(name, needless[i]) == 0)
			return true;
	return false;
}

/* libdw reads and unpacks every section that it knows, unless the section's type says that it has no contents. */
static void leave_out_needless(Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr sh;

		if (!is_needless(sp_elf_file_section_name(elf, scn)) ||
		    gelf_getshdr(scn, &sh) == NULL)
			continue;
		sh.sh_type = SHT_NOBITS;
		(void)gelf_update_shdr(scn, &sh);
	}
}

/* Old-style packed sections begin with "ZLIB" and the size, big-endian. */
static uint64_t zdebug_need(Elf *elf, const GElf_Shdr *sh)
{
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)sh->sh_offset, 12, ELF_T_BYTE);
	const uint8_t *at = data != NULL ? data->d_buf : NULL;
	uint64_t size = 0;

	for (unsigned i = 4; at != NULL && i < 12; i++)
		size = size << 8 | at[i];
	return size;
}

size_t sp_lines_memory(void)
{
	struct rlimit data;

	if (getrlimit(RLIMIT_DATA, &data) != 0 || data.rlim_cur / 2 > SP_MEMORY_MAX)
		return SP_MEMORY_MAX;
	return (size_t)data.rlim_cur / 2;
}

bool sp_lines_in(Elf *elf)
{
	Elf_Scn *scn = sp_elf_file_section(elf, ".debug_info");
	GElf_Shdr sh;

	if (scn == NULL)
		scn = sp_elf_file_section(elf, ".zdebug_info");
	return scn != NULL && gelf_getshdr(scn, &sh) != NULL && sh.sh_type != SHT_NOBITS;
}

uint64_t sp_lines_need(Elf *elf)
{
	Elf_Scn *scn = NULL;
	uint64_t sum = 0;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		const char *name = sp_elf_file_section_name(elf, scn);
		uint64_t need = 0;
		GElf_Chdr ch;
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_type == SHT_NOBITS || is_needless(name))
			continue;
		if ((sh.sh_flags & SHF_COMPRESSED) != 0)
			need = gelf_getchdr(scn, &ch) != NULL ? ch.ch_size : UINT64_MAX / 2;
		else if (strncmp(name, ".zdebug_", 8) == 0)
			need = zdebug_need(elf, &sh);
		sum = need > UINT64_MAX / 2 - sum ? UINT64_MAX / 2 : sum + need;
	}
	return sum;
}

/* A question to libdw: arguments and results of a function that ask() calls. */
struct question {
	struct sp_lines *lines;
	uint64_t vaddr;
	struct sp_source_line *out;
	int found;
};

static SP_TLS jmp_buf *way_out;

/* When memory is short, libdw ends the process; this leaves libdw instead. */
static __attribute__((noreturn)) void leave(void)
{
	if (way_out != NULL)
		longjmp(*way_out, 1); // NOLINT(cert-err52-cpp)
	_exit(EXIT_FAILURE);
}

/* Calls fn. False if memory was short: then the objects that fn used are valid, but incomplete. */
static bool ask(void (*fn)(struct question *q), struct question *q)
{
	jmp_buf here;

	if (setjmp(here) != 0) { // NOLINT(cert-err52-cpp)
		way_out = NULL;
		return false;
	}
	way_out = &here;
	fn(q);
	way_out = NULL;
	return true;
}

Dwarf *sp_lines_begin(Elf *elf)
{
	Dwarf *dwarf;

	leave_out_needless(elf);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (dwarf != NULL)
		(void)dwarf_new_oom_handler(dwarf, leave);
	return dwarf;
}

static void look_at_units(struct question *q)
{
	q->found = add_units(q->lines) ? 1 : 0;
}

struct sp_lines *sp_lines_new(Elf *elf, int fd)
{
	struct sp_lines *l = calloc(1, sizeof(*l));
	struct question q = {.lines = l};
	char link[32];
	int err;

	if (l != NULL)
		l->names = sp_die_names_new();
	if (l == NULL || l->names == NULL) {
		free(l);
		return NULL;
	}
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (realpath(link, l->path) == NULL)
		l->path[0] = '\0';
	errno = 0;
	l->dwarf = sp_lines_begin(elf);
	/* elfutils has no public error numbers, only texts, but malloc() sets errno. */
	err = l->dwarf == NULL || ask(look_at_units, &q) ? errno : ENOMEM;
	if (q.found != 0)
		return l;
	sp_lines_free(l);
	errno = err;
	return NULL;
}

void sp_lines_free(struct sp_lines *l)
{
	if (l == NULL)
		return;
	for (size_t i = 0; i < l->n; i++) {
		free(l->unit[i].functions.range);
		free(l->unit[i].function);
	}
	free(l->unit);
	free(l->ranges.range);
	sp_die_names_free(l->names);
	dwarf_end(l->dwarf);
	free(l);
}

Dwarf *sp_lines_dwarf(const struct sp_lines *l)
{
	return l->dwarf;
}

bool sp_lines_are_split(const struct sp_lines *l)
{
	return l->is_split;
}

bool sp_lines_miss_parts(const struct sp_lines *l)
{
	return l->misses_parts;
}

bool sp_lines_are_packed_unknown(Elf *elf)
{
	Elf_Scn *scn = NULL;
	GElf_Chdr ch;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(elf, scn)) != NULL)
		if (gelf_getshdr(scn, &sh) != NULL && (sh.sh_flags & SHF_COMPRESSED) != 0 &&
		    gelf_getchdr(scn, &ch) != NULL && ch.ch_type != ELFCOMPRESS_ZLIB)
			return true;
	return false;
}

size_t sp_lines_bytes(const struct sp_lines *l)
{
	return l->bytes + l->cap * sizeof(*l->unit) + l->ranges.cap * sizeof(*l->ranges.range) +
	       sp_die_names_bytes(l->names);
}

static int add_function(struct sp_lines *l, struct unit *u, Dwarf_Die *die)
{
	size_t before = u->functions.n;
	int err;

	if (!SP_GROW(u->function, u->function_cap, u->function_n + 1, SP_ENTRIES_MAX))
		return -ENOMEM;
	err = add_ranges(l, &u->functions, die, u->function_n);
	if (err != 0)
		return err;
	if (u->functions.n != before)
		u->function[u->function_n++] = *die;
	return 0;
}

/*
 * libdw itself opens the file of a split unit. It would wait for a writer if the path leads to a FIFO, and unpack
 * sections of any size.
 */
static bool may_open(struct sp_lines *l, const char *path)
{
	struct sp_elf_file file;
	uint64_t need;
	int err = sp_elf_file_open(path, NULL, 0, &file);

	if (err != 0)
		return err == -ENOENT;
	need = sp_lines_need(file.elf);
	sp_elf_file_close(&file);
	if (need > SP_BUILD_UNPACKED_MAX)
		return false;
	l->bytes += need;
	return true;
}

/* libdw opens the package once for all units. */
static bool may_open_package(struct sp_lines *l)
{
	char path[SP_DEBUG_PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s.dwp", l->path);

	if (!l->package_is_seen)
		l->package_may_be_opened =
			len >= 0 && (size_t)len < sizeof(path) && may_open(l, path);
	l->package_is_seen = true;
	return l->package_may_be_opened;
}

/*
 * Checks all files that libdw may open: a package of the whole program, a file beside the object, a file in the
 * folder of the compilation.
 */
static bool may_open_split(struct sp_lines *l, Dwarf_Die *die)
{
	int folder = strrchr(l->path, '/') != NULL ? (int)(strrchr(l->path, '/') - l->path) : 0;
	Dwarf_Attribute attr;
	const char *dir = dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &attr));
	const char *name = dwarf_formstring(dwarf_attr(die, DW_AT_dwo_name, &attr));
	char path[2][SP_DEBUG_PATH_MAX];
	int len[2] = {0, 0};

	if (name == NULL)
		name = dwarf_formstring(dwarf_attr(die, DW_AT_GNU_dwo_name, &attr));
	if (name == NULL)
		return true;
	if (!may_open_package(l))
		return false;
	len[0] = snprintf(path[0], sizeof(path[0]), "%.*s/%s", name[0] != '/' ? folder : 0, l->path,
			  name);
	if (name[0] != '/' && dir != NULL)
		len[1] = snprintf(path[1], sizeof(path[1]), "%.*s/%s/%s",
				  dir[0] != '/' ? folder : 0, l->path, dir, name);
	for (unsigned i = 0; i < 2; i++)
		if (len[i] != 0 &&
		    (len[i] < 0 || (size_t)len[i] >= sizeof(path[i]) || !may_open(l, path[i])))
			return false;
	return true;
}

/* Where a walk puts the functions that it finds. */
struct listing {
	struct sp_lines *lines;
	struct unit *unit;
};

static int add_found(void *arg, Dwarf_Die *function)
{
	struct listing *to = arg;

	return add_function(to->lines, to->unit, function);
}

static int list_functions(struct sp_lines *l, struct unit *u)
{
	struct listing to = {l, u};
	Dwarf_Die root = u->die;
	int err = 0;

	/* If the unit is split, the object itself has only its line table. */
	if (u->is_split && !may_open_split(l, &u->die))
		return -EACCES;
	if (u->is_split)
		(void)dwarf_cu_info(u->die.cu, NULL, NULL, NULL, &root, NULL, NULL, NULL);
	/*
	 * libdw found no file with that unit. A line of the object's line table may belong to an inlined function, so
	 * it must not be combined with the function around it.
	 */
	if (root.addr == NULL || (u->is_split && root.addr == u->die.addr)) {
		l->misses_parts = true;
		err = -ENOENT;
	} else {
		err = sp_die_names_add_unit(l->names, &root, add_found, &to);
	}
	if (u->functions.n != 0)
		qsort(u->functions.range, u->functions.n, sizeof(*u->functions.range), by_start);
	return err;
}

/*
 * Opens a unit, when the first address in it is looked up. False when out of memory: the unit stays
 * unopened.
 */
static bool open_unit(struct sp_lines *l, struct unit *u)
{
	Dwarf_Lines *rows;
	size_t n = 0;
	int err;

	errno = 0;
	if (dwarf_getsrclines(&u->die, &rows, &n) == 0)
		l->bytes += n * SP_ROW_BYTES;
	else if (errno == ENOMEM)
		return false;
	err = list_functions(l, u);
	if (err == -ENOMEM)
		return false;
	u->is_open = true;
	u->is_complete = err == 0;
	l->bytes += u->functions.cap * sizeof(*u->functions.range) +
		    u->function_cap * sizeof(*u->function);
	return true;
}

static uint32_t number(Dwarf_Die *die, unsigned at)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	return dwarf_formudata(dwarf_attr(die, at, &attr), &v) == 0 && v <= UINT32_MAX ? (uint32_t)v
										       : 0;
}

static void set_file(Dwarf_Die *unit, const char *file, struct sp_source_line *out)
{
	Dwarf_Attribute attr;

	out->file = file;
	if (file != NULL && file[0] != '/')
		out->dir = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attr));
}

/* The place from which an inlined function was called. */
static void call_site(Dwarf_Die *die, struct sp_source_line *out)
{
	uint32_t file = number(die, DW_AT_call_file);
	Dwarf_Files *files;
	Dwarf_Die unit;
	size_t n;

	out->line = number(die, DW_AT_call_line);
	if (dwarf_diecu(die, &unit, NULL, NULL) == NULL ||
	    dwarf_getsrcfiles(&unit, &files, &n) != 0 || file >= n)
		return;
	set_file(&unit, dwarf_filesrc(files, file, NULL, NULL), out);
}

static bool is_block(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

static bool has_ranges(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_low_pc) != 0 || dwarf_hasattr(die, DW_AT_ranges) != 0;
}

/* Like dwarf_haspc(), which reads a list to its end, but with a budget. */
static bool covers(Dwarf_Die *die, uint64_t vaddr, unsigned *budget)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;

	while (*budget != 0 && (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
		--*budget;
		if (vaddr >= lo && vaddr < hi)
			return true;
	}
	return false;
}

/* A block without addresses may contain anything. */
static bool worth_entering(Dwarf_Die *die, int tag, uint64_t vaddr, unsigned *budget)
{
	return is_block(tag) && (covers(die, vaddr, budget) || !has_ranges(die));
}

/*
 * Moves *die to the inlined function in it that contains vaddr. Searches nested blocks, too, with
 * an explicit stack.
 */
static bool descend(Dwarf_Die *die, uint64_t vaddr, unsigned *budget)
{
	Dwarf_Die path[SP_BLOCKS_MAX];
	unsigned depth = 0;
	int end = dwarf_child(die, &path[0]);

	while (*budget != 0) {
		int tag;

		if (end != 0) {
			if (depth == 0)
				return false;
			depth--;
			end = dwarf_siblingof(&path[depth], &path[depth]);
			continue;
		}
		--*budget;
		tag = dwarf_tag(&path[depth]);
		if (tag == DW_TAG_inlined_subroutine && covers(&path[depth], vaddr, budget)) {
			*die = path[depth];
			return true;
		}
		if (depth + 1 < SP_BLOCKS_MAX && worth_entering(&path[depth], tag, vaddr, budget) &&
		    dwarf_child(&path[depth], &path[depth + 1]) == 0)
			depth++;
		else
			end = dwarf_siblingof(&path[depth], &path[depth]);
	}
	return false;
}

/* A row of a line table. */
struct row {
	Dwarf_Line *line;
	Dwarf_Addr at;
	const char *file;
	int number;
	unsigned discriminator; /* distinguishes parts of a line */
	bool is_end;            /* end of a sequence: the addresses behind it have no line */
	bool is_statement;      /* a statement begins there */
};

static bool read_row(Dwarf_Lines *rows, size_t i, struct row *out)
{
	out->line = dwarf_onesrcline(rows, i);
	out->file = dwarf_linesrc(out->line, NULL, NULL);
	return dwarf_lineaddr(out->line, &out->at) == 0 &&
	       dwarf_lineno(out->line, &out->number) == 0 &&
	       dwarf_linediscriminator(out->line, &out->discriminator) == 0 &&
	       dwarf_lineendsequence(out->line, &out->is_end) == 0 &&
	       dwarf_linebeginstatement(out->line, &out->is_statement) == 0;
}

/* The number of rows that begin at vaddr or before it. */
static size_t rows_upto(Dwarf_Lines *rows, size_t n, uint64_t vaddr)
{
	size_t low = 0;
	Dwarf_Addr at;

	while (low < n) {
		size_t middle = low + (n - low) / 2;

		if (dwarf_lineaddr(dwarf_onesrcline(rows, middle), &at) != 0)
			return 0;
		if (at <= vaddr)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/*
 * gdb leaves out rows that only continue the line before them, where compilers distinguish parts of that line.
 * Returns the number of rows up to the last one that counts.
 */
static size_t without_parts(Dwarf_Lines *rows, size_t n)
{
	struct row last, row;
	size_t first = n;
	size_t kept = n;

	if (n == 0 || !read_row(rows, n - 1, &last))
		return n;
	while (first != 0 && n - first < SP_ROWS_BACK && read_row(rows, first - 1, &row) &&
	       !row.is_end && row.number == last.number && row.file == last.file) {
		if (row.discriminator != 0)
			kept = first - 1;
		first--;
	}
	return kept > first || first == n ? kept : first + 1;
}

/*
 * The row of the line table for an address, as gdb chooses it: the last one that begins at or before the address and
 * has a line. If several rows have the same address, gdb prefers the last row that begins a statement.
 */
static Dwarf_Line *row_of(Dwarf_Die *unit, uint64_t vaddr)
{
	struct row best = {0}, row;
	Dwarf_Lines *rows;
	size_t n;

	if (dwarf_getsrclines(unit, &rows, &n) != 0)
		return NULL;
	n = without_parts(rows, rows_upto(rows, n, vaddr));
	for (unsigned back = 0; n != 0 && back < SP_ROWS_BACK; back++) {
		if (!read_row(rows, --n, &row))
			return NULL;
		if (best.line != NULL && (row.at != best.at || row.is_end))
			break;
		/*
		 * The sequence has ended before the address. A sequence that ends exactly at the address says nothing
		 * of it.
		 */
		if (row.is_end && row.at != vaddr)
			return NULL;
		if (row.is_end || row.number == 0)
			continue;
		if (best.line == NULL || row.is_statement)
			best = row;
		if (row.is_statement)
			break;
	}
	return best.line;
}

static void line_of(Dwarf_Die *unit, uint64_t vaddr, struct sp_source_line *out)
{
	Dwarf_Line *line = row_of(unit, vaddr);
	int number = 0;

	if (line == NULL)
		return;
	set_file(unit, dwarf_linesrc(line, NULL, NULL), out);
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		out->line = (uint32_t)number;
}

static void name_function(struct sp_lines *l, Dwarf_Die *function, struct sp_source_line *out)
{
	out->name = sp_die_names_get(l->names, function, &out->by_source);
}

static void find_lines(struct question *q)
{
	struct sp_lines *l = q->lines;
	uint64_t vaddr = q->vaddr;
	const struct range *r = find(&l->ranges, vaddr);
	struct unit *unit = r != NULL ? &l->unit[r->item] : NULL;
	struct sp_source_line reversed[SP_LINES_DEPTH] = {{NULL, NULL, NULL, 0, false}};
	unsigned budget = SP_INLINES_WALK;
	unsigned n = 1;
	Dwarf_Die die;

	if (unit == NULL)
		return;
	if (!unit->is_open && !open_unit(l, unit))
		q->found = -ENOMEM;
	if (!unit->is_complete)
		return;
	r = find(&unit->functions, vaddr);
	if (r != NULL) {
		die = unit->function[r->item];
		name_function(l, &die, &reversed[0]);
		while (descend(&die, vaddr, &budget)) {
			/* If some of the functions were left out, another function would become the leaf. */
			if (n == SP_LINES_DEPTH)
				return;
			call_site(&die, &reversed[n - 1]);
			name_function(l, &die, &reversed[n++]);
		}
		if (budget == 0)
			return;
	}
	line_of(&unit->die, vaddr, &reversed[n - 1]);
	for (unsigned i = 0; i < n; i++)
		q->out[i] = reversed[n - 1 - i];
	if (q->out[0].name != NULL || q->out[0].file != NULL)
		q->found = (int)n;
}

int sp_lines_find(struct sp_lines *l, uint64_t vaddr, struct sp_source_line out[SP_LINES_DEPTH])
{
	struct question q = {l, vaddr, out, 0};

	return ask(find_lines, &q) ? q.found : -ENOMEM;
}
