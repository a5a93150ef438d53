/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the files of builds open, by build id: the object's own file, the one with separate debug
 * information, or, if the user configured servers, theirs. A build is opened once for all processes, and
 * the least recently used ones are closed when memory is short. What is mapped does not count as
 * memory; what counts is what is unpacked, the list of symbols, and what libdw keeps of the units that
 * were looked into.
 *
 * Symbols are read by libelf in the order of the file, .dynsym before .symtab. Of several at one
 * address the first one with a size is kept, so that a function has one name. Context: the exporter.
 */
#include "export/symbols/builds.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <lzma.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/objects/object_file.h"
#include "export/symbols/elf_file.h"
#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/shortage.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/ehframe_sig.h"

#define MIB ((size_t)1 << 20)
#define SP_BUILDS_MAX 256U
/* Of the memory that there is while addresses are looked up: */
#define SP_REST_SHARE(memory) ((memory) / 2) /* in between */
/* What libdw keeps of a build; it is made to forget when it is more. */
#define SP_LINES_SHARE(memory) ((memory) / 8 * 3)
#define SP_MINI_SHARE(memory) ((memory) / 4)
#define SP_LINES_SMALL (MIB / 2) /* of one that is read again in a millisecond */
#define SP_SYMBOLS_MAX ((size_t)4 << 20)
/* That are looked at: many tables may be one and the same part of a file. */
#define SP_SYMBOLS_SEEN_MAX ((size_t)16 << 20)
#define SP_FRAMES_MAX_BYTES ((uint64_t)1 << 30)
#define SP_SYMBOL_WALK 16U /* symbols examined before the nearest one */
#define SP_MINI_PACKED_MAX (16 * MIB)
#define SP_XZ_DICTIONARY_MAX ((uint64_t)32 << 20)
#define SP_HURRY_BYTES MIB /* unpacked, of a debug file: 4 ms */
#define SP_CHANGED_NS (3600 * SP_NS_PER_S)
/* Rests in which nobody asks, before what was unpacked more than once is given back. */
#define SP_IDLE_RESTS 64U

struct symbol {
	uint64_t start;
	const char *name; /* in its file */
	uint32_t size;
	uint32_t order; /* in which it was read */
};

struct build {
	struct build *next_left; /* of those that will never be freed */
	uint8_t id[SP_BUILD_ID_MAX];
	uint8_t id_len;
	uint32_t serial;           /* tells objects without build id apart */
	uint64_t used;             /* for closing the least recently used */
	struct sp_elf_file object; /* what is mapped */
	struct sp_elf_file debug;  /* its debug file */
	struct sp_elf_file mini;   /* unpacked .gnu_debugdata */
	/*
	 * What has the lines, once more where it is packed: what is unpacked can be given back, while symbols
	 * have their names in the other one.
	 */
	struct sp_elf_file unpacked;
	struct sp_elf_file shared; /* what its debug information shares with others */
	struct symbol *symbol;     /* ascending, one at an address */
	size_t n, cap;
	size_t seen;            /* symbols, of any kind */
	bool is_full;           /* there was a full symbol table, not only the dynamic one */
	const Elf_Data *frames; /* where functions begin; in the object's file */
	uint64_t frames_vaddr;
	bool frames_tried;
	const struct sp_elf_file *dwarf; /* object or debug, or NULL: there are no lines */
	char dwarf_path[SP_DEBUG_PATH_MAX];
	struct sp_lines *lines;  /* NULL = not asked for yet */
	Dwarf *alt;              /* of the shared file */
	uint64_t unpacked_bytes; /* memory of what was packed */
	unsigned unpacked_times;
	unsigned idle;         /* rests since lines were asked for */
	bool fetch_due;        /* no server has said yet whether it has its debug file */
	bool is_fileless;      /* the module that it was opened for had no file */
	bool is_missing;       /* a file of it could not be opened, which may pass */
	bool is_half_read;     /* there was too little memory for a file that could not be mapped */
	uint64_t missed;       /* rests when that was tried last */
	uint64_t missed_lines; /* rests when there was too little memory for its lines */
};

struct sp_builds {
	struct sp_build_sources sources;
	size_t memory; /* while addresses are looked up */
	struct build *build[SP_BUILDS_MAX];
	unsigned n;
	uint64_t clock;
	uint64_t rests; /* sp_builds_rest(), and one */
	bool is_hurried;
	unsigned loads, reopened;
	struct sp_build_losses losses;
	uint64_t hour_ns; /* when it began */
	unsigned changed; /* builds in this hour */
};

static void add_symbol(struct build *b, uint64_t start, uint64_t size, const char *name)
{
	if (!SP_GROW(b->symbol, b->cap, b->n + 1, SP_SYMBOLS_MAX))
		return;
	b->symbol[b->n] = (struct symbol){
		.start = start,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = name,
		.order = (uint32_t)b->n,
	};
	b->n++;
}

/* Functions, and untyped labels of hand-written assembly. */
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

/* The strings that a symbol table's names are in, which end with a NUL; or NULL. */
static const Elf_Data *strings_of(Elf *elf, const GElf_Shdr *sh)
{
	Elf_Scn *scn = elf_getscn(elf, sh->sh_link);
	const Elf_Data *data;
	GElf_Shdr names;

	if (scn == NULL || gelf_getshdr(scn, &names) == NULL || names.sh_type != SHT_STRTAB ||
	    (names.sh_flags & SHF_COMPRESSED) != 0)
		return NULL;
	data = elf_rawdata(scn, NULL);
	if (data == NULL || data->d_buf == NULL || data->d_size == 0 ||
	    ((const char *)data->d_buf)[data->d_size - 1] != '\0')
		return NULL;
	return data;
}

static void read_symbols(struct build *b, Elf *elf)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		const Elf_Data *strings;
		Elf_Data *data;
		GElf_Shdr sh;
		GElf_Sym sym;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_entsize == 0 ||
		    (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM))
			continue;
		strings = strings_of(elf, &sh);
		data = strings != NULL ? elf_getdata(scn, NULL) : NULL;
		if (data == NULL)
			continue;
		b->is_full = b->is_full || sh.sh_type == SHT_SYMTAB;
		for (int i = 1; b->seen < SP_SYMBOLS_SEEN_MAX && gelf_getsym(data, i, &sym) != NULL;
		     i++, b->seen++) {
			const char *name = (const char *)strings->d_buf + sym.st_name;

			if (sym.st_name < strings->d_size && is_code(elf, &sym, name))
				add_symbol(b, sym.st_value, sym.st_size, name);
		}
	}
}

static int by_start(const void *a, const void *b)
{
	const struct symbol *x = a;
	const struct symbol *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static void sort_symbols(struct build *b)
{
	struct symbol *trimmed;
	size_t n = 0;

	if (b->n == 0)
		return;
	qsort(b->symbol, b->n, sizeof(*b->symbol), by_start);
	for (size_t i = 0; i < b->n; i++) {
		if (n == 0 || b->symbol[n - 1].start != b->symbol[i].start)
			b->symbol[n++] = b->symbol[i];
		else if (b->symbol[n - 1].size == 0 && b->symbol[i].size != 0)
			b->symbol[n - 1] = b->symbol[i];
	}
	/* What is read later has a higher number than all of these. */
	for (size_t i = 0; i < n; i++)
		b->symbol[i].order = (uint32_t)i;
	b->n = n;
	trimmed = realloc(b->symbol, n * sizeof(*trimmed));
	if (trimmed != NULL) {
		b->symbol = trimmed;
		b->cap = n;
	}
}

/* The symbol that covers vaddr; one without size covers everything up to the next one. */
static const struct symbol *find_symbol(const struct build *b, uint64_t vaddr)
{
	size_t low = SP_SORTED_UPTO(b->symbol, b->n, start, vaddr);

	/* A label inside a function must not hide the function around it. */
	for (size_t back = 0; back < SP_SYMBOL_WALK && back < low; back++) {
		const struct symbol *s = &b->symbol[low - 1 - back];

		if ((s->size == 0 && back == 0) || vaddr - s->start < s->size)
			return s;
	}
	return NULL;
}

/*
 * MiniDebugInfo: an .xz file with the function symbols that were stripped. If it is damaged it counts
 * as absent. How large it is unpacked shows only when it is, so ever larger rooms are tried.
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
	/* What is wrong with a server or the way to it may pass. */
	b->fetch_due = fd < 0 && fd != -ENOENT && fd != -ENOSYS;
	if (fd >= 0 && sp_elf_file_open_fd(fd, mod->build_id, mod->build_id_len, &file) == 0)
		add_debug(all, b, &file, path);
}

/* libelf may write to what it reads, so it gets a copy. */
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

	*path = mod->shown;
	if (mod->vdso)
		return open_vdso(file);
	if (!has_file(mod))
		return -ENOENT;
	for (unsigned i = mod->build_id_len != 0 ? 1 : 0, end = i + 2; i < end; i++) {
		*path = way[i];
		if ((*path)[0] == '/' && open_trusted(*path, mod, file) == 0)
			return 0;
	}
	return -ENOENT;
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
 * Those that are not open. What cannot be opened now may be opened later: the path of a process that has ended leads to
 * nothing, but that of another one to the same file, and too few descriptors or too little memory may pass.
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
	if (b->object.elf == NULL && open_object(mod, &b->object, &path) == 0)
		add_object(all, b, path);
	query.elf = b->object.elf;
	if (all->sources.symbols && !mod->vdso && b->debug.elf == NULL && !is_complete(all, b)) {
		err = sp_elf_file_open_debug(&query, &file, debug_path);
		if (err == 0)
			add_debug(all, b, &file, debug_path);
	}
	b->is_missing =
		!is_complete(all, b) &&
		((b->object.elf == NULL && (mod->vdso || has_file(mod))) || sp_is_shortage(err));
}

static void open_build(struct sp_builds *all, struct build *b, const struct sp_module *mod)
{
	all->loads++;
	b->is_fileless = !mod->vdso && !has_file(mod);
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

/* Closes builds, the least recently used first, but not that one. */
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
 * A host may have hundreds of objects. Their addresses are looked up one build after the other, and what was found is
 * remembered elsewhere, so what libdw read of a small one is not kept when another one has its turn. Split units are
 * found by a descriptor that is closed meanwhile, so they stay.
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

/* One that is not open. NULL when out of memory. */
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
 * A build that was left in the middle is never freed, so this does not happen without end. Who overwrites files while they
 * are in use has no names of objects that are new until the hour is over.
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

/* The build of a module, opened now if need be; NULL when out of memory, or when it may be opened later. */
static struct build *get(struct sp_builds *all, const struct sp_module *mod, struct build **working)
{
	struct build *b;
	unsigned i;

	for (i = 0; i < all->n && !is_of(all->build[i], mod); i++)
		;
	/* What was looked up without a file may have one now. */
	if (i < all->n && all->build[i]->is_fileless && has_file(mod)) {
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

/* .eh_frame_hdr and the rest of its segment, with .eh_frame, as they are in the file. */
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
 * Start of the function around vaddr by the call frame information of the file, which stripped files have
 * as well. libdw tells from where on a rule holds, but not where its function begins. So the handler's own
 * reader searches the tables. Linkers write them relative to themselves, so all addresses that it finds
 * are off by the same distance.
 */
static bool find_function(struct build *b, uint64_t vaddr, uint64_t *start)
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
	/* In a damaged file the address may wrap around. */
	return *start <= vaddr;
}

/*
 * What dwz has moved into a file that several files share. 0, or a negative errno: the lines are not to be read, because
 * libdw would open that file itself as soon as it needs it, and we have not, as it is no regular file, another one, or too
 * large.
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
	/* dwz writes none that shares something in turn, and libdw would open that. */
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
 * What lines are read from. Where the file cannot be opened once more, what is unpacked stays in the one that is open,
 * in which nothing is packed any more the second time.
 */
static const struct sp_elf_file *unpack(struct build *b, uint64_t need)
{
	if (b->unpacked.elf != NULL)
		return &b->unpacked;
	b->unpacked_bytes += need;
	/* Without a build id it might be another file by now. */
	if (need == 0 || b->id_len == 0 ||
	    sp_elf_file_open(b->dwarf_path, b->id, b->id_len, &b->unpacked) != 0)
		return b->dwarf;
	b->unpacked_times++;
	return &b->unpacked;
}

/*
 * False if the debug information is left alone this time. Not the object's own: who left it in the file
 * wants to see it.
 */
static bool open_lines(struct sp_builds *all, struct build *b)
{
	uint64_t need = b->unpacked.elf == NULL ? sp_lines_need(b->dwarf->elf) : 0;
	const struct sp_elf_file *file;
	int err = 0;

	if (need > SP_BUILD_UNPACKED_MAX) {
		all->losses.over_limit++;
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
	give_back(b);
	if (sp_is_shortage(err))
		b->missed_lines = all->rests;
	else
		b->dwarf = NULL;
	return !sp_is_shortage(err);
}

static const char *keep(struct sp_answer *out, const char *dir, const char *text)
{
	char *to = out->text + out->used;
	size_t room = sizeof(out->text) - out->used;
	int n;

	if (text == NULL)
		return NULL;
	n = snprintf(to, room < SP_SYMBOL_MAX ? room : SP_SYMBOL_MAX, "%.*s%s%.*s",
		     (int)SP_SYMBOL_MAX, dir != NULL ? dir : "", dir != NULL ? "/" : "",
		     (int)SP_SYMBOL_MAX, text);
	if (n < 0 || room == 0)
		return NULL;
	out->used += strlen(to) + 1;
	return to;
}

/* A question, while it is answered. */
struct asking {
	struct sp_builds *all;
	const struct sp_module *mod;
	uint64_t vaddr;
	bool lines;
	struct sp_answer *out;
	struct build *working; /* on this one; NULL = on none */
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
	out->lines = (unsigned)n;
	for (unsigned i = 0; i < out->lines; i++) {
		struct sp_source_line *line = &out->line[i];

		line->name = keep(out, NULL, line->name);
		line->file = keep(out, line->dir, line->file);
		line->dir = NULL;
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

static void answer(void *arg)
{
	struct asking *a = arg;
	struct build *b = get(a->all, a->mod, &a->working);
	struct sp_answer *out = a->out;
	const struct symbol *symbol;
	uint64_t start;

	if (b == NULL)
		return;
	symbol = find_symbol(b, a->vaddr);
	/*
	 * A symbol without a size may end anywhere before the next one, so a function that begins
	 * after it has a better claim to the address.
	 */
	if ((symbol == NULL || symbol->size == 0) && find_function(b, a->vaddr, &start) &&
	    start + a->mod->bias >= a->mod->lo && (symbol == NULL || start > symbol->start)) {
		out->start = start;
		symbol = NULL;
	}
	if (symbol != NULL) {
		out->start = symbol->start;
		out->symbol = keep(out, NULL, symbol->name);
	}
	out->is_final = a->lines && !b->fetch_due && (!b->is_missing || b->dwarf != NULL);
	out->is_fileless = b->is_fileless;
	if (b->dwarf != NULL && a->lines)
		find_lines(a, b);
	out->has_lines = b->dwarf != NULL;
	forget_small_lines(a->all, b);
	make_room(a->all, b, a->all->memory);
	/* libdw finds split units beside a file by its descriptor. */
	if (a->lines && b->lines == NULL && b->dwarf != NULL)
		return;
	let_go(b);
	out->is_final = out->is_final && !b->is_half_read;
}

/* What will never be freed. */
static struct build *left;

static void clear(struct sp_answer *out, uint64_t vaddr)
{
	out->symbol = NULL;
	out->start = vaddr;
	out->has_lines = out->is_final = out->is_fileless = false;
	out->lines = 0;
	out->used = 0;
}

void sp_builds_ask(struct sp_builds *b, const struct sp_module *mod, uint64_t vaddr, bool lines,
		   struct sp_answer *out)
{
	struct asking a = {b, mod, vaddr, lines, out, NULL};

	clear(out, vaddr);
	if (sp_elf_guard(answer, &a))
		return;
	/* Nothing of the build's files is touched again. In its place comes one of which nothing is known. */
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
	out->is_final = true;
}

void sp_builds_hurry(struct sp_builds *b, bool is_hurried)
{
	b->is_hurried = is_hurried;
}

/*
 * Most programs need lines of the C library for a few functions around main(), and never again: 12 MiB. Others need
 * some in every interval, and 40 ms for each would be too much. Who asks twice has it kept.
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
		/* It is opened again when somebody asks. */
		if (b->build[i]->is_half_read)
			drop(b, i--);
		else
			is_kept = is_kept || b->build[i]->unpacked.elf != NULL;
	}
	/* What is unpacked for who asks again may be larger than the rest's share, and dropped each time. */
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
