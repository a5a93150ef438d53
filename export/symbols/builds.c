/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the files of builds open, by build id: the object's own file, the file with its separate debug information,
 * or a file from the servers that the user configured. A build is opened once for all processes, and the least
 * recently used ones are closed when memory is short. Mapped files do not count as memory. Unpacked sections, the
 * list of symbols, and what libdw keeps of the units that it has read do count.
 *
 * Symbols are read by libelf. If several symbols are at one address, the one that programs call is kept, by
 * properties of the symbols themselves (prefer_symbol()). So a function has the same name wherever its symbols come
 * from. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/symbols/builds.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <lzma.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/objects/object_file.h"
#include "export/symbols/demangle.h"
#include "export/symbols/elf_file.h"
#include "export/symbols/plt.h"
#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/shortage.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/ehframe_sig.h"

#define MIB ((size_t)1 << 20)
#define SP_BUILDS_MAX 256U
/*
 * Shares of the memory that may be used while addresses are looked up (sp_lines_memory()). This one
 * may stay in use while no addresses are looked up.
 */
#define SP_REST_SHARE(memory) ((memory) / 2)
/* libdw's memory for a build; if it uses more, its data is freed. */
#define SP_LINES_SHARE(memory) ((memory) / 8 * 3)
#define SP_MINI_SHARE(memory) ((memory) / 4)
#define SP_LINES_SMALL (MIB / 2) /* a build with less is read again in a millisecond */
#define SP_SYMBOLS_MAX ((size_t)4 << 20)
/*
 * At most this many symbols of a file are examined: many section headers may name the same table.
 */
#define SP_SYMBOLS_SEEN_MAX ((size_t)16 << 20)
#define SP_FRAMES_MAX_BYTES ((uint64_t)1 << 30)
#define SP_SYMBOL_WALK 4096U /* depth of symbols within symbols */
#define SP_NO_SYMBOL 0xffffffU
#define SP_VERSION_HIDDEN 0x8000U
#define SP_MINI_PACKED_MAX (16 * MIB)
#define SP_XZ_DICTIONARY_MAX ((uint64_t)32 << 20)
#define SP_HURRY_BYTES MIB /* size of an unpacked debug file that takes 4 ms to read */
#define SP_CHANGED_NS (3600 * SP_NS_PER_S)
/*
 * After this many calls of sp_builds_rest() without a lookup of lines, sections that were unpacked more than once are
 * freed.
 */
#define SP_IDLE_RESTS 64U

struct symbol {
	uint64_t start;
	const char *name; /* in its file, perhaps with "@" and a version */
	uint32_t size;
	unsigned rank : 8; /* RANK_* */
	unsigned
		around : 24; /* index of the last symbol with a size that begins before it and may end
                              * behind it */
};

_Static_assert(SP_SYMBOLS_MAX <= SP_NO_SYMBOL, "their numbers fit");

/* Ranks of symbols: of two symbols at one address, programs call the one with the higher rank. */
enum {
	RANK_FUNCTION = 1 << 7, /* a function and not a label */
	/* or weak: other objects can call it, and stripped builds have it, too */
	RANK_GLOBAL = 1 << 6,
	RANK_DEFAULT = 1 << 5, /* the present version of the name, not one for old programs only */
	/* not a part or a copy that the compiler made, such as "f.localalias" */
	RANK_WHOLE = 1 << 4,
	/* each "_" at the beginning of a name lowers its rank by 2, at most this many */
	RANK_UNDERSCORES = 4,
	RANK_STRONG = 1, /* not weak: memcmp rather than its alias bcmp */
};

struct build {
	struct build *next_left; /* next in the list of builds that will never be freed */
	uint8_t id[SP_BUILD_ID_MAX];
	uint8_t id_len;
	uint32_t serial;           /* distinguishes objects without build id */
	uint64_t used;             /* value of all->clock when it was last used */
	struct sp_elf_file object; /* the file that is mapped */
	struct sp_elf_file debug;  /* its debug file */
	struct sp_elf_file mini;   /* unpacked .gnu_debugdata */
	/*
	 * The file with the lines, opened a second time if its sections are packed. Its unpacked sections can be freed;
	 * the names of symbols lie in the first one.
	 */
	struct sp_elf_file unpacked;
	/* the file to which dwz has moved debug information that several files share */
	struct sp_elf_file shared;
	struct symbol *symbol; /* ascending, one at an address */
	size_t n, cap;
	size_t seen;            /* symbols of any kind that were examined */
	bool is_full;           /* there was a full symbol table, not only a dynamic one */
	const Elf_Data *frames; /* call frame information; in the object's file */
	uint64_t frames_vaddr;
	bool frames_tried;
	const struct sp_elf_file *dwarf; /* object or debug; NULL = there are no lines */
	char dwarf_path[SP_DEBUG_PATH_MAX];
	struct sp_lines *lines;  /* NULL = not read yet */
	Dwarf *alt;              /* libdw's handle of `shared` */
	uint64_t unpacked_bytes; /* memory of unpacked sections */
	unsigned unpacked_times;
	unsigned idle;    /* calls of sp_builds_rest() since lines were last looked up */
	bool fetch_due;   /* no server has answered yet whether it has the debug file */
	bool is_fileless; /* the module for which the build was opened had no file */
	bool is_missing; /* a file of the build could not be opened, but a later attempt may succeed */
	bool is_unreadable;      /* its debug information, as counted in losses */
	int object_err;          /* why the object's file could not be opened; 0 = it was opened */
	enum sp_lack lines_lack; /* why its debug information cannot be read */
	bool is_half_read;       /* memory was short for a file that could not be mapped */
	uint64_t missed;         /* value of rests at the last such attempt */
	uint64_t missed_lines;   /* value of rests when memory was short for its lines */
};

struct sp_builds {
	struct sp_build_sources sources;
	size_t memory; /* while addresses are looked up */
	struct build *build[SP_BUILDS_MAX];
	unsigned n;
	uint64_t clock;
	uint64_t rests; /* calls of sp_builds_rest(), plus 1 */
	bool is_hurried;
	unsigned loads, reopened;
	struct sp_build_losses losses;
	uint64_t hour_ns; /* when it began */
	unsigned changed; /* builds in this hour */
};

static unsigned rank_of(const GElf_Sym *sym, const char *name, bool is_hidden)
{
	const char *version = strchr(name, '@');
	unsigned rank = 2 * RANK_UNDERSCORES;

	if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank |= RANK_FUNCTION;
	if (!is_hidden && (version == NULL || version[1] == '@'))
		rank |= RANK_DEFAULT;
	if (GELF_ST_BIND(sym->st_info) != STB_LOCAL)
		rank |= RANK_GLOBAL;
	if (GELF_ST_BIND(sym->st_info) != STB_WEAK)
		rank |= RANK_STRONG;
	if (name[0] == '.' || strchr(name, '.') == NULL)
		rank |= RANK_WHOLE;
	/* At the beginning of a C++ or Rust name the underscores mean nothing. */
	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'))
		return rank;
	for (unsigned i = 0; i < RANK_UNDERSCORES && name[i] == '_'; i++)
		rank -= 2;
	return rank;
}

static void add_symbol(struct build *b, const GElf_Sym *sym, const char *name, bool is_hidden)
{
	if (!SP_GROW(b->symbol, b->cap, b->n + 1, SP_SYMBOLS_MAX))
		return;
	b->symbol[b->n++] = (struct symbol){
		.start = sym->st_value,
		.size = sym->st_size < UINT32_MAX ? (uint32_t)sym->st_size : UINT32_MAX,
		.name = name,
		.rank = rank_of(sym, name, is_hidden) & 0xff,
		.around = SP_NO_SYMBOL,
	};
}

/* Whether the symbol is a function, or an untyped label of hand-written assembly. */
static bool is_code(Elf *elf, const GElf_Sym *sym, const char *name)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	GElf_Shdr sh;

	if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || name[0] == '\0')
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	if (type != STT_NOTYPE || name[0] == '$' || name[0] == '.' ||
	    sym->st_shndx >= SHN_LORESERVE)
		return false;
	return gelf_getshdr(elf_getscn(elf, sym->st_shndx), &sh) != NULL &&
	       (sh.sh_flags & SHF_EXECINSTR) != 0;
}

/* The versions of the symbols (.gnu.version), which show symbols for old programs only; NULL if there are none. */
static Elf_Data *versions_of(Elf *elf, const Elf_Scn *symbols)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(elf, scn)) != NULL)
		if (gelf_getshdr(scn, &sh) != NULL && sh.sh_type == SHT_GNU_versym &&
		    elf_getscn(elf, sh.sh_link) == symbols)
			return elf_getdata(scn, NULL);
	return NULL;
}

static void read_symbols(struct build *b, Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		const Elf_Data *strings;
		Elf_Data *data, *versions;
		GElf_Versym version;
		GElf_Shdr sh;
		GElf_Sym sym;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_entsize == 0 ||
		    (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM))
			continue;
		strings = sp_elf_file_strings(elf, &sh);
		data = strings != NULL ? elf_getdata(scn, NULL) : NULL;
		if (data == NULL)
			continue;
		b->is_full = b->is_full || sh.sh_type == SHT_SYMTAB;
		versions = versions_of(elf, scn);
		for (int i = 1; b->seen < SP_SYMBOLS_SEEN_MAX && gelf_getsym(data, i, &sym) != NULL;
		     i++, b->seen++) {
			const char *name = (const char *)strings->d_buf + sym.st_name;

			if (sym.st_name >= strings->d_size || !is_code(elf, &sym, name))
				continue;
			add_symbol(b, &sym, name,
				   versions != NULL &&
					   gelf_getversym(versions, i, &version) != NULL &&
					   (version & SP_VERSION_HIDDEN) != 0);
		}
	}
}

/* Sorts by address, and symbols at one address by rank, the best first. */
static int prefer_symbol(const void *a, const void *b)
{
	const struct symbol *x = a;
	const struct symbol *y = b;
	size_t len[2];

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	/*
	 * Equal ranks: the name decides, so that the result does not depend on the order of
	 * reading.
	 */
	len[0] = strcspn(x->name, "@");
	len[1] = strcspn(y->name, "@");
	if (len[0] != len[1])
		return len[0] < len[1] ? -1 : 1;
	return strncmp(x->name, y->name, len[0]);
}

/*
 * Searches from the symbol `at`, or SP_NO_SYMBOL, outwards for the innermost symbol whose size
 * covers vaddr.
 */
static uint32_t covering(const struct build *b, uint32_t at, uint64_t vaddr)
{
	for (unsigned steps = 0; at != SP_NO_SYMBOL; at = b->symbol[at].around)
		if (vaddr - b->symbol[at].start < b->symbol[at].size)
			return at;
		else if (steps++ == SP_SYMBOL_WALK)
			break;
	return SP_NO_SYMBOL;
}

/*
 * Drops all but one symbol at an address, and each label inside of a function whose end is known.
 */
static void sort_symbols(struct build *b)
{
	struct symbol *trimmed;
	size_t n = 0;

	if (b->n == 0)
		return;
	qsort(b->symbol, b->n, sizeof(*b->symbol), prefer_symbol);
	for (size_t i = 0; i < b->n; i++) {
		struct symbol s = b->symbol[i];

		if (n != 0 && b->symbol[n - 1].start == s.start)
			continue;
		s.around = covering(b, n != 0 ? (uint32_t)n - 1 : SP_NO_SYMBOL, s.start) &
			   SP_NO_SYMBOL;
		if (s.size != 0 || s.around == SP_NO_SYMBOL)
			b->symbol[n++] = s;
	}
	b->n = n;
	trimmed = n != 0 ? realloc(b->symbol, n * sizeof(*trimmed)) : NULL;
	if (trimmed != NULL) {
		b->symbol = trimmed;
		b->cap = n;
	}
}

/* The symbol that covers vaddr. A symbol without a size covers everything up to the next symbol. */
static const struct symbol *find_symbol(const struct build *b, uint64_t vaddr)
{
	size_t low = SP_SORTED_UPTO(b->symbol, b->n, start, vaddr);
	uint32_t at;

	if (low == 0)
		return NULL;
	if (b->symbol[low - 1].size == 0)
		return &b->symbol[low - 1];
	at = covering(b, (uint32_t)low - 1, vaddr);
	return at != SP_NO_SYMBOL ? &b->symbol[at] : NULL;
}

static const struct symbol *find_symbol_at(const struct build *b, uint64_t start)
{
	size_t low = SP_SORTED_UPTO(b->symbol, b->n, start, start);

	return low != 0 && b->symbol[low - 1].start == start ? &b->symbol[low - 1] : NULL;
}

/*
 * MiniDebugInfo: an .xz file with the function symbols that were stripped. If it is damaged it counts as absent. Its
 * unpacked size is known only after unpacking, so ever larger buffers are tried.
 */
static void read_mini(struct build *b, size_t most)
{
	Elf_Scn *scn = sp_elf_file_section(b->object.elf, ".gnu_debugdata");
	const Elf_Data *packed = scn != NULL ? elf_rawdata(scn, NULL) : NULL;
	lzma_ret ret = LZMA_BUF_ERROR;

	if (packed == NULL || packed->d_buf == NULL || packed->d_size > SP_MINI_PACKED_MAX)
		return;
	for (size_t room = 8 * packed->d_size + MIB; ret == LZMA_BUF_ERROR && room <= 4 * most;
	     room *= 4) {
		size_t cap = room < most ? room : most;
		uint64_t dictionary = SP_XZ_DICTIONARY_MAX;
		uint8_t *image = malloc(cap);
		size_t in = 0, len = 0;

		if (image == NULL)
			return;
		ret = lzma_stream_buffer_decode(&dictionary, 0, NULL, packed->d_buf, &in,
						packed->d_size, image, &len, cap);
		if (ret != LZMA_OK)
			free(image);
		else if (sp_elf_file_open_image(image, len, &b->mini) == 0)
			read_symbols(b, b->mini.elf);
	}
}

static void add_debug(const struct sp_builds *all, struct build *b, struct sp_elf_file *file,
		      const char *path)
{
	b->debug = *file;
	if (!b->is_full)
		read_symbols(b, file->elf);
	if (all->sources.dwarf && b->dwarf == NULL && sp_lines_in(file->elf)) {
		b->dwarf = &b->debug;
		(void)snprintf(b->dwarf_path, sizeof(b->dwarf_path), "%s", path);
	}
}

static bool is_complete(const struct sp_builds *all, const struct build *b)
{
	return b->is_full && (!all->sources.dwarf || b->dwarf != NULL);
}

static void fetch_debug(const struct sp_builds *all, struct build *b, const struct sp_module *mod)
{
	char path[SP_DEBUG_PATH_MAX] = "";
	struct sp_elf_file file;
	int fd;

	b->fetch_due = false;
	if (all->sources.fetch == NULL || mod->build_id_len == 0 || b->debug.elf != NULL)
		return;
	fd = all->sources.fetch(all->sources.fetch_arg, mod->build_id, mod->build_id_len, path,
				sizeof(path));
	/*
	 * Servers are asked again later after an error that may pass, of the server or of the
	 * network.
	 */
	b->fetch_due = fd < 0 && fd != -ENOENT && fd != -ENOSYS;
	if (fd >= 0 && sp_elf_file_open_fd(fd, mod->build_id, mod->build_id_len, &file) == 0)
		add_debug(all, b, &file, path);
}

/* libelf may write to its input, so it gets a copy. */
static int open_vdso(struct sp_elf_file *out)
{
	size_t size;
	const uint8_t *image = sp_vdso_image(&size);
	void *copy = image != NULL ? malloc(size) : NULL;

	if (copy == NULL)
		return -ENOENT;
	memcpy(copy, image, size);
	return sp_elf_file_open_image(copy, size, out);
}

/*
 * Opens a file only if it is the module's. A file without a build id may have been replaced by
 * another such file.
 */
static int open_trusted(const char *path, const struct sp_module *mod, struct sp_elf_file *file)
{
	int err = sp_elf_file_open(path, mod->build_id, mod->build_id_len, file);
	struct sp_file_id id = {0};
	struct stat st;

	if (err != 0 || mod->build_id_len != 0)
		return err;
	if (fstat(file->fd, &st) == 0)
		id = sp_file_id_of(&st);
	if (!sp_file_id_differs(&mod->file, &id) && sp_elf_file_laid_out_as(file->elf, mod))
		return 0;
	sp_elf_file_close(file);
	return -ESTALE;
}

static int open_held_file(const struct sp_module *mod, struct sp_elf_file *file)
{
	int fd = mod->held->fd >= 0 ? fcntl(mod->held->fd, F_DUPFD_CLOEXEC, 0) : -1;
	int err;

	if (fd < 0)
		return mod->held->fd >= 0 ? -errno : -ENOENT;
	err = sp_elf_file_open_fd(fd, mod->build_id, mod->build_id_len, file);
	if (err != 0 || mod->build_id_len != 0 ||
	    (sp_held_object_is_unchanged(mod->held) && sp_elf_file_laid_out_as(file->elf, mod)))
		return err;
	sp_elf_file_close(file);
	return -ESTALE;
}

/* Opens the held file of an object, or its image if somebody has written to the file since it was mapped. */
static int open_held(const struct sp_module *mod, struct sp_elf_file *file)
{
	const struct sp_held_object *held = mod->held;
	int err = held != NULL ? open_held_file(mod, file) : -ENOENT;
	void *image;

	if (err == 0 || held == NULL || held->image == NULL || sp_is_shortage(err))
		return err;
	image = malloc(held->bytes);
	if (image == NULL)
		return -ENOMEM;
	memcpy(image, held->image, held->bytes);
	return sp_elf_file_open_image(image, held->bytes, file);
}

static bool is_refused(const char *path)
{
	return path[0] == '/' && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 &&
	       errno == EACCES;
}

/*
 * The file of a module, and the path by which it was found. The path to show is tried first if a
 * build id proves that it leads to the file, because a path in /proc/PID is gone when the host has
 * ended.
 */
static int open_object(const struct sp_module *mod, struct sp_elf_file *file, const char **path)
{
	const char *const way[] = {mod->path, mod->shown, mod->path};
	int why = -ENOENT;
	int err;

	*path = mod->shown;
	if (mod->vdso)
		return open_vdso(file);
	/* The mappings show no file of the module, for example because we may not read it. */
	if (!sp_module_has_file(mod))
		return is_refused(mod->shown) ? -EACCES : -ENOENT;
	for (unsigned i = mod->build_id_len != 0 ? 1 : 0, end = i + 2; i < end; i++) {
		*path = way[i];
		err = (*path)[0] == '/' ? open_trusted(*path, mod, file) : -ENOENT;
		if (err == 0)
			return 0;
		if (err == -ENOENT && is_refused(way[i]))
			err = -EACCES;
		/* -ENOENT of one path says less than the error of the other path. */
		if (why == -ENOENT)
			why = err;
	}
	*path = mod->shown;
	err = open_held(mod, file);
	return err == -ENOENT ? why : err;
}

static void add_object(const struct sp_builds *all, struct build *b, const char *path)
{
	b->frames_tried = false;
	if (!all->sources.symbols)
		return;
	read_symbols(b, b->object.elf);
	if (!b->is_full)
		read_mini(b, SP_MINI_SHARE(all->memory));
	if (all->sources.dwarf && b->dwarf == NULL && sp_lines_in(b->object.elf)) {
		b->dwarf = &b->object;
		(void)snprintf(b->dwarf_path, sizeof(b->dwarf_path), "%s", path);
	}
}

/*
 * Opens the files that are not open yet. An attempt that failed is repeated later: if the process of one path has
 * ended, another process may have a path to the same file, and a shortage of descriptors or memory may pass.
 */
static void open_files(struct sp_builds *all, struct build *b, const struct sp_module *mod)
{
	struct sp_debug_query query = {
		.root = all->sources.debug_root,
		.object = mod->shown,
		.id = mod->build_id,
		.id_len = mod->build_id_len,
	};
	char debug_path[SP_DEBUG_PATH_MAX];
	struct sp_elf_file file;
	const char *path;
	int err = 0;

	b->missed = all->rests;
	if (b->object.elf == NULL) {
		b->object_err = open_object(mod, &b->object, &path);
		if (b->object_err == 0)
			add_object(all, b, path);
	}
	query.elf = b->object.elf;
	if (all->sources.symbols && !mod->vdso && b->debug.elf == NULL && !is_complete(all, b)) {
		err = sp_elf_file_open_debug(&query, &file, debug_path);
		if (err == 0)
			add_debug(all, b, &file, debug_path);
	}
	b->is_missing = !is_complete(all, b) &&
			((b->object.elf == NULL && (mod->vdso || sp_module_has_file(mod))) ||
			 sp_is_shortage(err));
}

static void open_build(struct sp_builds *all, struct build *b, const struct sp_module *mod)
{
	all->loads++;
	b->is_fileless = !mod->vdso && !sp_module_has_file(mod);
	open_files(all, b, mod);
	if (!all->sources.symbols)
		return;
	if (!mod->vdso && !is_complete(all, b))
		fetch_debug(all, b, mod);
	sort_symbols(b);
}

static void give_back(struct build *b)
{
	sp_lines_free(b->lines);
	b->lines = NULL;
	dwarf_end(b->alt);
	b->alt = NULL;
	sp_elf_file_close(&b->shared);
	sp_elf_file_close(&b->unpacked);
	b->unpacked_bytes = 0;
}

static void drop(struct sp_builds *all, unsigned i)
{
	struct build *b = all->build[i];

	give_back(b);
	sp_elf_file_close(&b->object);
	sp_elf_file_close(&b->debug);
	sp_elf_file_close(&b->mini);
	free(b->symbol);
	free(b);
	all->build[i] = all->build[--all->n];
}

static size_t bytes_of(const struct build *b)
{
	return b->cap * sizeof(*b->symbol) + b->mini.bytes + b->unpacked_bytes +
	       (b->lines != NULL ? sp_lines_bytes(b->lines) : 0);
}

static uint64_t mapped_of(const struct build *b)
{
	return b->object.bytes + b->debug.bytes + b->unpacked.bytes + b->shared.bytes;
}

/* Closes builds, the least recently used first, except `but`. */
static void make_room(struct sp_builds *all, const struct build *but, size_t limit)
{
	for (;;) {
		uint64_t mapped = 0;
		size_t bytes = 0;
		unsigned coldest = all->n;

		for (unsigned i = 0; i < all->n; i++) {
			bytes += bytes_of(all->build[i]);
			mapped += mapped_of(all->build[i]);
			if (all->build[i] != but &&
			    (coldest == all->n || all->build[i]->used < all->build[coldest]->used))
				coldest = i;
		}
		if (coldest == all->n ||
		    (bytes <= limit && mapped <= SP_ELF_MAPPED_MAX && all->n < SP_BUILDS_MAX))
			return;
		drop(all, coldest);
	}
}

/*
 * Frees libdw's data of small builds when another build is read. A host may have hundreds of objects. The addresses
 * of one build are looked up before those of the next build, and the results are stored elsewhere, so this data is
 * not needed again soon. Builds with split units stay, because libdw finds the units by a descriptor that is closed
 * meanwhile.
 */
static void forget_small_lines(struct sp_builds *all, const struct build *but)
{
	for (unsigned i = 0; i < all->n; i++) {
		struct build *b = all->build[i];

		if (b == but || b->lines == NULL || sp_lines_are_split(b->lines) ||
		    sp_lines_bytes(b->lines) > SP_LINES_SMALL)
			continue;
		sp_lines_free(b->lines);
		b->lines = NULL;
	}
}

static bool is_of(const struct build *b, const struct sp_module *mod)
{
	if (b->id_len != mod->build_id_len)
		return false;
	return b->id_len != 0 ? memcmp(b->id, mod->build_id, b->id_len) == 0
			      : b->serial == mod->serial;
}

/* A build whose files are not open. NULL when out of memory. */
static struct build *new_build(const struct sp_module *mod)
{
	struct build *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->object.fd = b->debug.fd = b->mini.fd = b->unpacked.fd = b->shared.fd = -1;
	memcpy(b->id, mod->build_id, mod->build_id_len);
	b->id_len = mod->build_id_len;
	b->serial = mod->serial;
	return b;
}

/*
 * A build whose file changed while it was read is never freed, so their number is bounded. If somebody keeps
 * overwriting files in use, new objects get no names until the hour is over.
 */
static bool may_open(struct sp_builds *all)
{
	uint64_t now = sp_clock_mono_ns();

	if (now - all->hour_ns >= SP_CHANGED_NS) {
		all->hour_ns = now;
		all->changed = 0;
	}
	return all->changed < SP_BUILDS_CHANGED_MAX;
}

/* The build of a module, which is opened if necessary; NULL when out of memory, or if it may only be opened later. */
static struct build *get(struct sp_builds *all, const struct sp_module *mod, struct build **working)
{
	struct build *b;
	unsigned i;

	for (i = 0; i < all->n && !is_of(all->build[i], mod); i++)
		;
	/* The build was opened for a module without a file, and the module may have one now. */
	if (i < all->n && all->build[i]->is_fileless && sp_module_has_file(mod)) {
		drop(all, i);
		i = all->n;
		all->reopened++;
	}
	if (i < all->n) {
		b = *working = all->build[i];
		if (b->is_missing && b->missed != all->rests) {
			open_files(all, b, mod);
			sort_symbols(b);
			b->fetch_due = b->fetch_due && !is_complete(all, b);
		}
		if (b->fetch_due) {
			fetch_debug(all, b, mod);
			sort_symbols(b);
		}
	} else {
		if (!may_open(all))
			return NULL;
		make_room(all, NULL, all->memory);
		b = new_build(mod);
		if (b == NULL)
			return NULL;
		all->build[all->n++] = b;
		*working = b;
		open_build(all, b, mod);
	}
	b->used = ++all->clock;
	return b;
}

/* .eh_frame_hdr and the rest of its segment, including .eh_frame, as in the file. */
static const Elf_Data *find_frames(Elf *elf, uint64_t *vaddr)
{
	GElf_Phdr hdr = {0}, load;
	uint64_t skip, size;
	size_t n = 0;

	if (elf == NULL || elf_getphdrnum(elf, &n) != 0)
		return NULL;
	for (size_t i = 0; i < n && hdr.p_type != PT_GNU_EH_FRAME; i++)
		if (gelf_getphdr(elf, (int)i, &hdr) == NULL)
			return NULL;
	for (size_t i = 0; hdr.p_type == PT_GNU_EH_FRAME && i < n; i++) {
		if (gelf_getphdr(elf, (int)i, &load) == NULL || load.p_type != PT_LOAD ||
		    hdr.p_vaddr < load.p_vaddr || hdr.p_vaddr - load.p_vaddr >= load.p_filesz)
			continue;
		skip = hdr.p_vaddr - load.p_vaddr;
		size = load.p_filesz - skip;
		if (size > SP_FRAMES_MAX_BYTES || load.p_offset > INT64_MAX - skip)
			return NULL;
		*vaddr = hdr.p_vaddr;
		return elf_getdata_rawchunk(elf, (int64_t)(load.p_offset + skip), size, ELF_T_BYTE);
	}
	return NULL;
}

/*
 * Start of the function around vaddr by the call frame information, which stripped files have as well. libdw shows
 * from which address a rule holds, but not where its function begins. So the handler's reader searches the tables.
 * Linkers write them relative to themselves, so all addresses that it finds are off by the same distance.
 */
static bool find_function(struct build *b, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
	struct sp_object copy = {0};
	struct sp_fde fde;
	uint64_t off;

	if (!b->frames_tried)
		b->frames = find_frames(b->object.elf, &b->frames_vaddr);
	b->frames_tried = true;
	if (b->frames == NULL || b->frames->d_buf == NULL)
		return false;
	copy.start = copy.eh_frame_hdr = (uintptr_t)b->frames->d_buf;
	copy.end = copy.start + b->frames->d_size;
	off = copy.start - b->frames_vaddr;
	if (sp_ehframe_find(&copy, vaddr + off, &fde) != 0)
		return false;
	*start = fde.pc_begin - off;
	*end = fde.pc_end - off;
	/* In a damaged file the sum may overflow. */
	return *start <= vaddr;
}

/*
 * Opens the file to which dwz has moved the common parts of several files. After a negative errno the caller must not
 * read lines: the file is not regular, is the wrong file, or is too large, but libdw would open it all the same.
 */
static int open_shared(const struct sp_builds *all, struct build *b)
{
	Dwarf *dwarf = sp_lines_dwarf(b->lines);
	const char *name;
	const void *id;
	ssize_t n = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
	uint64_t need;
	int err;

	if (n <= 0)
		return 0;
	err = sp_elf_file_open_shared(all->sources.debug_root, b->dwarf_path, name, id, (size_t)n,
				      &b->shared);
	if (err != 0)
		return err != -ENOENT ? err : 0;
	need = sp_lines_need(b->shared.elf);
	/* A file that dwz made links to no further file. A damaged file may, and libdw would follow the link. */
	if (need <= SP_BUILD_UNPACKED_MAX &&
	    sp_elf_file_section(b->shared.elf, ".gnu_debugaltlink") == NULL)
		b->alt = sp_lines_begin(b->shared.elf);
	if (b->alt == NULL || !sp_elf_file_let_go(&b->shared))
		return -EINVAL;
	b->unpacked_bytes += need;
	dwarf_setalt(dwarf, b->alt);
	return 0;
}

/*
 * The file from which lines are read. If it cannot be opened a second time, its sections are unpacked in the open
 * file. Then they stay in memory, and count as not packed the next time.
 */
static const struct sp_elf_file *unpack(struct build *b, uint64_t need)
{
	if (b->unpacked.elf != NULL)
		return &b->unpacked;
	b->unpacked_bytes += need;
	/* Without a build id the path may lead to another file by now. */
	if (need == 0 || b->id_len == 0 ||
	    sp_elf_file_open(b->dwarf_path, b->id, b->id_len, &b->unpacked) != 0)
		return b->dwarf;
	b->unpacked_times++;
	return &b->unpacked;
}

static void count_unreadable(struct sp_builds *all, struct build *b)
{
	if (!b->is_unreadable)
		all->losses.unreadable++;
	b->is_unreadable = true;
}

/*
 * False if the debug information is skipped this time. Debug information in the object's own file is never skipped
 * for its size: a user who left it there wants to see it.
 */
static bool open_lines(struct sp_builds *all, struct build *b)
{
	uint64_t need = b->unpacked.elf == NULL ? sp_lines_need(b->dwarf->elf) : 0;
	const struct sp_elf_file *file;
	int err = 0;

	if (need > SP_BUILD_UNPACKED_MAX) {
		all->losses.over_limit++;
		b->lines_lack = SP_LACK_OVER_LIMIT;
		b->dwarf = NULL;
		return true;
	}
	if (b->missed_lines == all->rests ||
	    (all->is_hurried && b->dwarf == &b->debug && need > SP_HURRY_BYTES))
		return false;
	make_room(all, b, all->memory - need);
	file = unpack(b, need);
	b->lines = sp_lines_new(file->elf, file->fd);
	if (b->lines == NULL)
		err = errno == ENOMEM ? -ENOMEM : -EINVAL;
	else if (b->alt == NULL)
		err = open_shared(all, b);
	else
		dwarf_setalt(sp_lines_dwarf(b->lines), b->alt);
	if (err == 0)
		return true;
	if (!sp_is_shortage(err) && sp_lines_are_packed_unknown(b->dwarf->elf))
		count_unreadable(all, b);
	b->lines_lack =
		sp_lines_are_packed_unknown(b->dwarf->elf) ? SP_LACK_PACKED : SP_LACK_DAMAGED;
	give_back(b);
	if (sp_is_shortage(err))
		b->missed_lines = all->rests;
	else
		b->dwarf = NULL;
	return !sp_is_shortage(err);
}

/* Copies the path of a file. NULL = unknown, or no room. */
static const char *keep_path(struct sp_answer *out, const char *dir, const char *text)
{
	char *to = out->text + out->used;
	size_t room = sizeof(out->text) - out->used;
	int n;

	if (text == NULL || room < SP_SOURCE_PATH_MAX)
		return NULL;
	n = snprintf(to, SP_SOURCE_PATH_MAX, "%.*s%s%.*s", (int)SP_SOURCE_PATH_MAX,
		     dir != NULL ? dir : "", dir != NULL ? "/" : "", (int)SP_SOURCE_PATH_MAX, text);
	if (n < 0)
		return NULL;
	out->used += strlen(to) + 1;
	return to;
}

/* Copies a name up to its version, and appends behind; NULL = no room. */
static const char *keep_name(struct sp_answer *out, const char *name, const char *behind)
{
	/* An "@" at the beginning of the name is no version. */
	const size_t len = 1 + strcspn(name + 1, "@");
	const size_t more = strlen(behind);
	char *to = out->text + out->used;
	size_t n = len < SP_MANGLED_MAX ? len : SP_MANGLED_MAX;

	if (sizeof(out->text) - out->used < n + more + 1)
		return NULL;
	if (len > SP_MANGLED_MAX)
		n = sp_shorten(name, len, to, SP_MANGLED_MAX);
	else
		memcpy(to, name, n);
	memcpy(to + n, behind, more + 1);
	out->used += n + more + 1;
	return to;
}

/* The state of a question while it is answered. */
struct asking {
	struct sp_builds *all;
	const struct sp_module *mod;
	uint64_t vaddr;
	bool lines;
	struct sp_answer *out;
	struct build *working; /* the build whose files are being read; NULL = none */
};

static void find_lines(struct asking *a, struct build *b)
{
	struct sp_answer *out = a->out;
	int n;

	b->idle = 0;
	if (b->lines == NULL && !open_lines(a->all, b)) {
		out->is_final = false;
		return;
	}
	if (b->lines == NULL)
		return;
	n = sp_lines_find(b->lines, a->vaddr, out->line);
	if (n < 0) {
		give_back(b);
		b->missed_lines = a->all->rests;
		out->is_final = false;
		return;
	}
	if (sp_lines_miss_parts(b->lines))
		count_unreadable(a->all, b);
	out->lines = (unsigned)n;
	for (unsigned i = 0; i < out->lines; i++) {
		struct sp_source_line *line = &out->line[i];
		const char *name = line->name;

		line->name = name != NULL && name[0] != '\0' ? keep_name(out, name, "") : NULL;
		line->file = keep_path(out, line->dir, line->file);
		line->dir = NULL;
		/* If one inlined function has no room for its name, no line of the address is returned. */
		if (line->name == NULL && name != NULL && name[0] != '\0')
			out->lines = 0;
	}
	if (sp_lines_bytes(b->lines) > SP_LINES_SHARE(a->all->memory)) {
		sp_lines_free(b->lines);
		b->lines = NULL;
	}
}

static void let_go(struct build *b)
{
	errno = 0;
	if (sp_elf_file_let_go(&b->object) && sp_elf_file_let_go(&b->debug) &&
	    sp_elf_file_let_go(&b->unpacked))
		return;
	b->dwarf = NULL;
	b->is_half_read = errno == ENOMEM;
}

static bool are_in_one_section(Elf *elf, uint64_t a, uint64_t b)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while (elf != NULL && (scn = elf_nextscn(elf, scn)) != NULL)
		if (gelf_getshdr(scn, &sh) != NULL && (sh.sh_flags & SHF_ALLOC) != 0 &&
		    a >= sh.sh_addr && a - sh.sh_addr < sh.sh_size)
			return b >= sh.sh_addr && b - sh.sh_addr < sh.sh_size;
	return true;
}

/*
 * A symbol without a size may end anywhere before the next one, and may be a label inside of a function. If the call
 * frame information knows the function, it decides.
 */
static const struct symbol *name_function(struct asking *a, struct build *b)
{
	const struct symbol *symbol = find_symbol(b, a->vaddr);
	const struct symbol *own;
	uint64_t start, end;

	if (symbol != NULL && symbol->size != 0)
		return symbol;
	if (symbol != NULL && !are_in_one_section(b->object.elf, symbol->start, a->vaddr))
		symbol = NULL;
	if (!find_function(b, a->vaddr, &start, &end)) {
		if (symbol != NULL && find_function(b, symbol->start, &start, &end) &&
		    end <= a->vaddr)
			symbol = NULL;
		return symbol;
	}
	if (start + a->mod->bias < a->mod->lo)
		return symbol;
	own = find_symbol_at(b, start);
	if (symbol != NULL && own == NULL && start < symbol->start &&
	    (symbol->rank & RANK_FUNCTION) != 0)
		return symbol;
	a->out->start = start;
	return own;
}

/* A PLT stub is named after the function that it calls. */
static bool name_stub(struct asking *a, struct build *b)
{
	struct sp_answer *out = a->out;
	const struct symbol *chooser;
	struct sp_plt_stub stub;
	const char *name;

	if (!sp_plt_find(b->object.elf, a->vaddr, &stub))
		return false;
	out->start = stub.start;
	chooser = stub.resolver != 0 ? find_symbol_at(b, stub.resolver) : NULL;
	name = chooser != NULL ? chooser->name : stub.name;
	if (name != NULL && name[0] != '\0')
		out->symbol = keep_name(out, name, "@plt");
	return true;
}

/*
 * The lack to report: a file that cannot be read comes first, because it has neither symbols nor
 * lines.
 */
static enum sp_lack lack_of(const struct asking *a, const struct build *b)
{
	if (b->object.elf == NULL && b->object_err == -ESTALE)
		return SP_LACK_SAME_FILE;
	if (b->object.elf == NULL && (b->object_err == -EACCES || b->object_err == -EPERM))
		return SP_LACK_RIGHTS;
	if (b->object.elf == NULL && b->debug.elf == NULL)
		return a->mod->vdso || sp_is_shortage(b->object_err) ? SP_LACK_NOTHING
								     : SP_LACK_FILE;
	if (b->dwarf != NULL)
		return b->is_unreadable ? SP_LACK_PARTS : SP_LACK_NOTHING;
	if (b->lines_lack != SP_LACK_NOTHING)
		return b->lines_lack;
	if (a->mod->vdso || (b->is_full && !a->all->sources.dwarf))
		return SP_LACK_NOTHING;
	/* The image from memory was read instead, which has only the dynamic symbols. */
	if (!b->is_full && is_refused(a->mod->shown))
		return SP_LACK_RIGHTS;
	return b->id_len != 0 ? SP_LACK_DEBUG_FILE : SP_LACK_DEBUG_INFO;
}

static void answer(void *arg)
{
	struct asking *a = arg;
	struct build *b = get(a->all, a->mod, &a->working);
	struct sp_answer *out = a->out;
	const struct symbol *symbol;

	if (b == NULL)
		return;
	if (a->all->sources.symbols && name_stub(a, b))
		symbol = NULL;
	else
		symbol = name_function(a, b);
	if (symbol != NULL) {
		out->start = symbol->start;
		out->symbol = keep_name(out, symbol->name, "");
	}
	out->is_final = a->lines && !b->fetch_due && (!b->is_missing || b->dwarf != NULL);
	out->is_fileless = b->is_fileless;
	if (b->dwarf != NULL && a->lines)
		find_lines(a, b);
	out->has_lines = b->dwarf != NULL;
	out->lack = lack_of(a, b);
	forget_small_lines(a->all, b);
	make_room(a->all, b, a->all->memory);
	/* The descriptor stays open, because libdw needs it to find split units beside the file. */
	if (a->lines && b->lines == NULL && b->dwarf != NULL)
		return;
	let_go(b);
	out->is_final = out->is_final && !b->is_half_read;
}

/* The builds that will never be freed. */
static struct build *left;

static void clear(struct sp_answer *out, uint64_t vaddr)
{
	out->symbol = NULL;
	out->start = vaddr;
	out->has_lines = out->is_final = out->is_fileless = false;
	out->lack = SP_LACK_NOTHING;
	out->lines = 0;
	out->used = 0;
}

/*
 * Without a build id, nothing shows that a program has written another build into a file that we
 * have mapped. Then the answer may mix both builds. A file that replaced the old one by rename
 * changes nothing in what we have mapped.
 */
static bool is_overwritten(const struct sp_module *mod, const struct build *b)
{
	struct sp_file_id now;
	struct stat st;

	if (mod->build_id_len != 0 || (b != NULL && b->object.image != NULL))
		return false;
	if (mod->held != NULL && mod->held->fd >= 0)
		return !sp_held_object_is_unchanged(mod->held);
	if (!sp_module_has_file(mod) || stat(mod->path, &st) != 0)
		return false;
	now = sp_file_id_of(&st);
	return now.inode == mod->file.inode && sp_file_id_differs(&mod->file, &now);
}

void sp_builds_ask(struct sp_builds *b, const struct sp_module *mod, uint64_t vaddr, bool lines,
		   struct sp_answer *out)
{
	struct asking a = {b, mod, vaddr, lines, out, NULL};

	clear(out, vaddr);
	if (sp_elf_guard(answer, &a)) {
		if (is_overwritten(mod, a.working)) {
			clear(out, vaddr);
			out->lack = SP_LACK_SAME_FILE;
			out->is_final = true;
		}
		return;
	}
	/*
	 * The build's files are never touched again. An empty build, which answers nothing, takes
	 * its place.
	 */
	b->changed++;
	b->losses.changed++;
	for (unsigned i = 0; i < b->n; i++) {
		if (b->build[i] != a.working)
			continue;
		a.working->next_left = left;
		left = a.working;
		b->build[i] = new_build(mod);
		if (b->build[i] == NULL)
			b->build[i] = b->build[--b->n];
	}
	clear(out, vaddr);
	out->lack = SP_LACK_SAME_FILE;
	out->is_final = true;
}

void sp_builds_hurry(struct sp_builds *b, bool is_hurried)
{
	b->is_hurried = is_hurried;
}

/*
 * Most programs need lines of the C library once, for a few functions around main(); its unpacked
 * sections take 12 MiB. Other programs need such lines in every interval, and unpacking the
 * sections takes 40 ms each time. So the sections of a build stay if they were needed twice.
 */
static bool give_back_idle(struct build *b)
{
	bool is_kept = b->unpacked_times > 1 && b->idle++ < SP_IDLE_RESTS;

	if (is_kept || b->unpacked.elf == NULL ||
	    (b->lines != NULL && sp_lines_are_split(b->lines)))
		return false;
	give_back(b);
	return true;
}

void sp_builds_rest(struct sp_builds *b)
{
	bool is_less = false;
	bool is_kept = false;

	b->rests++;
	forget_small_lines(b, NULL);
	for (unsigned i = 0; i < b->n; i++) {
		let_go(b->build[i]);
		is_less = give_back_idle(b->build[i]) || is_less;
		/* Dropped builds are opened again at the next question. */
		if (b->build[i]->is_half_read)
			drop(b, i--);
		else
			is_kept = is_kept || b->build[i]->unpacked.elf != NULL;
	}
	/*
	 * The unpacked sections that stay may exceed SP_REST_SHARE, and must not be freed at each
	 * rest.
	 */
	make_room(b, NULL, is_kept ? b->memory : SP_REST_SHARE(b->memory));
	if (is_less)
		(void)malloc_trim(0);
}

struct sp_build_losses sp_builds_losses(const struct sp_builds *b)
{
	return b->losses;
}

unsigned sp_builds_loads(const struct sp_builds *b)
{
	return b->loads;
}

unsigned sp_builds_reopened(const struct sp_builds *b)
{
	return b->reopened;
}

struct sp_builds *sp_builds_new(const struct sp_build_sources *sources)
{
	struct sp_builds *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->sources = *sources;
	b->memory = sp_lines_memory();
	b->rests = 1;
	return b;
}

void sp_builds_free(struct sp_builds *b)
{
	if (b == NULL)
		return;
	while (b->n != 0)
		drop(b, 0);
	free(b);
}
