/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files that may be damaged or hostile: headers, segments, the dynamic section, symbol tables
 * and sections; and the SDKs in them.
 */
#define _GNU_SOURCE
#include "scripts/run/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/sdk/otelcpp/otelcpp_abi.h"

/* Far above real files; a larger table is damaged or hostile. */
#define DYNAMIC_MAX ((uint64_t)1 << 20)
#define STRINGS_MAX ((uint64_t)1 << 30)
#define NAMES_MAX ((uint64_t)1 << 20)
/* Entries per read: tables of large programs have a million. */
#define CHUNK 4096U
/*
 * Names are searched in this many bytes, enough for any real program; the rest of a larger file is
 * not read.
 */
#define CONTENT_MAX ((uint64_t)2 << 30)
#define WINDOW ((size_t)256 << 10)

/*
 * The bytes that may be read in total: enough to search all names in a program of 2 GiB. A sparse
 * file can have any size, with symbol tables as large as itself, and a process can map hundreds of
 * such files.
 */
static uint64_t budget = (uint64_t)8 << 30;
static bool is_cut;

/* Reads all bytes, or fails. */
static bool read_at(const struct sp_elf *f, uint64_t offset, void *out, size_t len)
{
	char *at = out;

	if (offset > f->size || len > f->size - offset)
		return false;
	is_cut = is_cut || len > budget;
	if (is_cut)
		return false;
	budget -= len;
	while (len != 0) {
		ssize_t got = pread(f->fd, at, len, (off_t)offset);

		if (got <= 0)
			return false;
		at += got;
		offset += (uint64_t)got;
		len -= (size_t)got;
	}
	return true;
}

/* Copies at most max bytes and appends a NUL; NULL = impossible. The caller frees the copy. */
static char *copy_at(const struct sp_elf *f, uint64_t offset, uint64_t len, uint64_t max)
{
	char *copy;

	/* Checked before memory is allocated: a header may claim any size. */
	if (len > max || offset > f->size || len > f->size - offset)
		return NULL;
	copy = malloc((size_t)len + 1);
	if (copy == NULL || !read_at(f, offset, copy, (size_t)len)) {
		free(copy);
		return NULL;
	}
	copy[len] = '\0';
	return copy;
}

static const Elf64_Phdr *segment(const struct sp_elf *f, uint32_t type)
{
	for (unsigned i = 0; i < f->phdrs; i++)
		if (f->phdr[i].p_type == type)
			return &f->phdr[i];
	return NULL;
}

/* Skips tables whose entries have another size than our structs: their format is unknown. */
static void read_tables(struct sp_elf *f, const Elf64_Ehdr *h)
{
	if (h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum != 0) {
		f->phdr = (void *)copy_at(f, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr), f->size);
		f->phdrs = f->phdr != NULL ? h->e_phnum : 0;
	}
	if (h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum != 0 && h->e_shoff != 0) {
		f->shdr = (void *)copy_at(f, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr), f->size);
		f->shdrs = f->shdr != NULL ? h->e_shnum : 0;
	}
}

static int read_headers(struct sp_elf *f)
{
	Elf64_Ehdr h = {.e_type = 0};
	const Elf64_Phdr *p;

	/* The 32-bit header is shorter, but equal up to the machine. */
	if (!read_at(f, 0, &h, sizeof(Elf32_Ehdr)) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	f->word_size = h.e_ident[EI_CLASS];
	f->type = h.e_type;
	f->machine = h.e_machine;
	f->readable = f->word_size == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB;
	if (!f->readable)
		return 0;
	if (!read_at(f, 0, &h, sizeof(h)))
		return -ENOEXEC;
	read_tables(f, &h);
	if (f->phdr == NULL)
		return -ENOEXEC;
	f->dynamic = segment(f, PT_DYNAMIC) != NULL;
	p = segment(f, PT_INTERP);
	if (p != NULL && (p->p_filesz == 0 || p->p_filesz >= sizeof(f->interp) ||
			  !read_at(f, p->p_offset, f->interp, (size_t)p->p_filesz)))
		return -ENOEXEC;
	return 0;
}

int sp_open_regular(const char *path)
{
	char found[32];
	struct stat st;
	int place = open(path, O_PATH | O_CLOEXEC);
	int fd = -1;

	if (place < 0)
		return -errno;
	(void)snprintf(found, sizeof(found), "/proc/self/fd/%d", place);
	errno = EACCES;
	if (fstat(place, &st) == 0 && S_ISREG(st.st_mode))
		fd = open(access(found, F_OK) == 0 ? found : path,
			  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		fd = -errno;
	(void)close(place);
	return fd;
}

int sp_elf_open(const char *path, struct sp_elf *f)
{
	int fd = sp_open_regular(path);

	return fd >= 0 ? sp_elf_take(fd, f) : fd;
}

int sp_elf_take(int fd, struct sp_elf *f)
{
	struct stat st;
	int err;

	memset(f, 0, sizeof(*f));
	f->fd = fd;
	if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode))
		err = -EACCES;
	else {
		f->size = (uint64_t)st.st_size;
		err = read_headers(f);
	}
	if (err != 0)
		sp_elf_close(f);
	return err;
}

void sp_elf_close(struct sp_elf *f)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->phdr);
	free(f->shdr);
	f->fd = -1;
	f->phdr = NULL;
	f->shdr = NULL;
}

bool sp_elf_is_cut(void)
{
	return is_cut;
}

bool sp_elf_pie(const struct sp_elf *f)
{
	const Elf64_Phdr *p = segment(f, PT_DYNAMIC);
	Elf64_Dyn *d;
	bool pie = false;

	d = p != NULL ? (void *)copy_at(f, p->p_offset, p->p_filesz, DYNAMIC_MAX) : NULL;
	if (d == NULL)
		return false;
	for (size_t i = 0; i < p->p_filesz / sizeof(*d) && d[i].d_tag != DT_NULL; i++)
		if (d[i].d_tag == DT_FLAGS_1)
			pie = (d[i].d_un.d_val & DF_1_PIE) != 0;
	free(d);
	return pie;
}

static const Elf64_Shdr *section_of_type(const struct sp_elf *f, uint32_t type)
{
	for (unsigned i = 0; i < f->shdrs; i++)
		if (f->shdr[i].sh_type == type)
			return &f->shdr[i];
	return NULL;
}

/* Called for every named symbol of a table. */
typedef void (*symbol_fn)(void *arg, const char *name, const Elf64_Sym *symbol);

/*
 * Calls fn for each named symbol of a table; table is SHT_DYNSYM or SHT_SYMTAB. False if the file
 * has no such table that can be read.
 */
static bool each_symbol(const struct sp_elf *f, uint32_t table, symbol_fn fn, void *arg)
{
	const Elf64_Shdr *s = section_of_type(f, table);
	const Elf64_Shdr *names = s != NULL && s->sh_link < f->shdrs ? &f->shdr[s->sh_link] : NULL;
	char *strings;
	Elf64_Sym *chunk;
	uint64_t n;

	if (names == NULL || s->sh_entsize != sizeof(Elf64_Sym))
		return false;
	strings = copy_at(f, names->sh_offset, names->sh_size, STRINGS_MAX);
	chunk = calloc(CHUNK, sizeof(*chunk));
	n = strings != NULL && chunk != NULL ? s->sh_size / sizeof(*chunk) : 0;
	for (uint64_t i = 0; i < n; i += CHUNK) {
		size_t some = n - i < CHUNK ? (size_t)(n - i) : CHUNK;

		if (!read_at(f, s->sh_offset + i * sizeof(*chunk), chunk, some * sizeof(*chunk)))
			break;
		for (size_t k = 0; k < some; k++)
			if (chunk[k].st_name != 0 && chunk[k].st_name < names->sh_size)
				fn(arg, strings + chunk[k].st_name, &chunk[k]);
	}
	free(strings);
	free(chunk);
	return n != 0;
}

/* Whether a name may contain that byte. */
static bool in_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || c == '.' || c == '$';
}

/* Whether the bytes contain the needle; apart: do not count a needle behind a byte of a name. */
static bool has_in(const char *bytes, size_t len, const char *needle, size_t n, bool apart)
{
	const char *end = bytes + len;
	const char *hit = memmem(bytes, len, needle, n);

	while (hit != NULL && apart && (hit == bytes || in_name(hit[-1]))) {
		hit++;
		hit = memmem(hit, (size_t)(end - hit), needle, n);
	}
	return hit != NULL;
}

/* Windows overlap by one byte more than the needle is long. */
static bool has_bytes(const struct sp_elf *f, const char *needle, size_t len, bool apart)
{
	uint64_t end = f->size < CONTENT_MAX ? f->size : CONTENT_MAX;
	char *window = malloc(WINDOW + len + 1);
	bool found = false;

	if (window == NULL)
		return false;
	for (uint64_t at = 0; at < end && !found; at += WINDOW) {
		uint64_t left = end - at;
		size_t some = left < WINDOW + len + 1 ? (size_t)left : WINDOW + len + 1;

		if (!read_at(f, at, window, some))
			break;
		found = has_in(window, some, needle, len, apart);
	}
	free(window);
	return found;
}

/*
 * Whether the file has that string, up to its NUL, and not as the end of a longer name. Any
 * constant may lie before a string, so the byte before need not be a NUL.
 */
static bool has_string(const struct sp_elf *f, const char *text)
{
	return has_bytes(f, text, strlen(text) + 1, true);
}

/* Whether the file has that text, with or without a NUL behind it: some languages store none. */
static bool has_text(const struct sp_elf *f, const char *text)
{
	return has_bytes(f, text, strlen(text), false);
}

bool sp_elf_has_section(const struct sp_elf *f, const char *name)
{
	Elf64_Ehdr h;
	const Elf64_Shdr *s;
	char *names;
	bool found = false;

	if (f->shdrs == 0 || !read_at(f, 0, &h, sizeof(h)) || h.e_shstrndx >= f->shdrs)
		return false;
	s = &f->shdr[h.e_shstrndx];
	names = copy_at(f, s->sh_offset, s->sh_size, NAMES_MAX);
	for (unsigned i = 0; names != NULL && i < f->shdrs && !found; i++)
		found = f->shdr[i].sh_name < s->sh_size &&
			strcmp(names + f->shdr[i].sh_name, name) == 0;
	free(names);
	return found;
}

/*
 * The SDKs. A row for each SDK and version of its ABI, with the names that its adapter needs (the
 * folders of preload/sdk/).
 */
#define ROW_NAMES_MAX 12U
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct row {
	const char *name;
	const char *start[3];            /* functions that start a span; one must be there */
	const char *with[ROW_NAMES_MAX]; /* all of these must be there */
	const char *vtable;              /* the vtable of its span class; NULL = a C interface */
	const char *method;              /* how it is hooked */
	/* C++: the names of its span and tracer classes, which even stripped files have */
	const char *type[2];
	const char *obstacle; /* why it cannot be hooked; NULL = there is an adapter */
};

#define CPP_ROW(V)                                                                                 \
	{                                                                                          \
		.name = "opentelemetry-cpp 1.x, ABI v" V,                                          \
		.start = {SP_OTELCPP_START_NOSTD(V), SP_OTELCPP_START_STL(V)},                     \
		.with = {SP_OTELCPP_SPAN_VTABLE(V), SP_OTELCPP_TRACER_VTABLE(V)},                  \
		.vtable = SP_OTELCPP_SPAN_VTABLE(V), .method = "its virtual methods, by name",     \
		.type = {"N13opentelemetry2v" V "3sdk5trace4SpanE",                                \
			 "N13opentelemetry2v" V "3sdk5trace6TracerE"},                             \
	}

static const struct row rows[] = {
	CPP_ROW("1"),
	CPP_ROW("2"),
	{
		.name = "otap-labs/opentelemetry-c",
		.start = {"otel_tracer_start_span", "otel_tracer_start_span_ex",
			  "otel_tracer_start_span_with_context"},
		.with = {"otel_api_register_global_provider", "otel_tracer_provider_get_tracer",
			 "otel_version_string", "otel_span_get_context",
			 "otel_span_context_trace_id", "otel_span_context_span_id",
			 "otel_span_context_trace_flags", "otel_span_context_destroy",
			 "otel_span_set_string_attribute"},
		.method = "its functions, by name",
	},
	{
		.name = "otap-labs/opentelemetry-c from before August 2026",
		.start = {"otel_tracer_start_span"},
		.with = {"otel_api_register_global_provider", "otel_tracer_provider_get_tracer",
			 "otel_version_string"},
		.obstacle = "it does not show the ids of a span; newer releases do",
	},
};

/* Which names of each row a symbol table has, a bit for each; bit ROW_NAMES_MAX: any of start[]. */
struct seen {
	uint32_t exported[ROWS];
	uint32_t local[ROWS];
	bool imports_getenv;
	bool exports_getenv;
};

#define STARTS (1U << ROW_NAMES_MAX)

static uint32_t wanted(const struct row *r)
{
	uint32_t bits = STARTS;

	for (unsigned i = 0; i < ROW_NAMES_MAX && r->with[i] != NULL; i++)
		bits |= 1U << i;
	return bits;
}

static uint32_t bits_of(const struct row *r, const char *name)
{
	for (unsigned i = 0; i < sizeof(r->start) / sizeof(r->start[0]); i++)
		if (r->start[i] != NULL && strcmp(r->start[i], name) == 0)
			return STARTS;
	for (unsigned i = 0; i < ROW_NAMES_MAX && r->with[i] != NULL; i++)
		if (strcmp(r->with[i], name) == 0)
			return 1U << i;
	return 0;
}

static bool exported(const Elf64_Sym *s)
{
	unsigned char binding = ELF64_ST_BIND(s->st_info);
	unsigned char visibility = ELF64_ST_VISIBILITY(s->st_other);

	return (binding == STB_GLOBAL || binding == STB_WEAK) &&
	       (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

static void look_for_variable(void *arg, const char *name, const Elf64_Sym *s)
{
	if (ELF64_ST_TYPE(s->st_info) == STT_TLS && s->st_shndx != SHN_UNDEF && exported(s) &&
	    strcmp(name, "otel_thread_ctx_v1") == 0)
		*(bool *)arg = true;
}

bool sp_sdk_publishes(const struct sp_elf *f)
{
	bool found = false;

	(void)each_symbol(f, SHT_DYNSYM, look_for_variable, &found);
	return found;
}

static void look_at_getenv(struct seen *seen, const char *name, const Elf64_Sym *s)
{
	if (strcmp(name, "getenv") != 0)
		return;
	if (s->st_shndx == SHN_UNDEF)
		seen->imports_getenv = true;
	else
		seen->exports_getenv = exported(s);
}

static void look_at(struct seen *seen, const char *name, const Elf64_Sym *s, bool in_dynsym)
{
	/* All names of the rows begin like this; a table may have a million other names. */
	if (s->st_shndx == SHN_UNDEF || (strncmp(name, "otel", 4) != 0 && name[0] != '_'))
		return;
	for (size_t i = 0; i < ROWS; i++) {
		uint32_t bits = bits_of(&rows[i], name);

		if (in_dynsym && exported(s))
			seen->exported[i] |= bits;
		else
			seen->local[i] |= bits;
	}
}

static void in_dynsym(void *arg, const char *name, const Elf64_Sym *s)
{
	look_at_getenv(arg, name, s);
	look_at(arg, name, s, true);
}

static void in_symtab(void *arg, const char *name, const Elf64_Sym *s)
{
	look_at(arg, name, s, false);
}

static bool complete(uint32_t bits, const struct row *r)
{
	return (bits & wanted(r)) == wanted(r);
}

static bool has_types(const struct sp_elf *f, const struct row *r)
{
	return r->type[0] != NULL && has_string(f, r->type[0]) && has_string(f, r->type[1]);
}

/*
 * Whether an SDK is built for the standard library's types (an "STL build") and with libc++, whose
 * shared pointers the adapter does not read. An SDK with its own shared pointers (nostd) has the
 * name of one of their classes in each file that starts spans.
 */
static bool has_shared_pointers_of_libcxx(const struct sp_elf *f)
{
	return has_text(f, "NSt3__1") && !has_text(f, "nostd10shared_ptrI");
}

static const char of_libcxx[] =
	"it is built with libc++ and for the standard library's shared pointers (WITH_STL), "
	"and those of libc++ are not read";

/*
 * How an SDK without symbols for its vtables is hooked (adapter_otelcpp.h). False if it is not
 * hooked. The adapter refuses relative vtables (an experiment of clang's), but a file does not show
 * that it has them.
 */
static bool method_by_type(const struct sp_elf *f, const struct sp_sdk_place *place,
			   const struct seen *seen, const struct row *r, const char **how)
{
	*how = "its virtual methods, found by run-time type information";
	if (r->type[0] == NULL)
		*how = "it is linked in with hidden symbols: there is nothing to hook";
	else if (!has_types(f, r))
		*how = "it is linked in with hidden symbols, and without the run-time type "
		       "information (-fno-rtti) by which it could be found";
	else if (has_shared_pointers_of_libcxx(f))
		*how = of_libcxx;
	else if (place->own_getenv)
		*how = "the program has a getenv of its own, so its SDK is not noticed";
	else if (!seen->imports_getenv)
		*how = "it never calls getenv, so its SDK is not noticed";
	else
		return true;
	return false;
}

/* How the calls of an exported SDK reach our hooks. False if they do not. */
static bool method(const struct sp_elf *f, const struct sp_sdk_place *place,
		   const struct seen *seen, size_t i, const char **how)
{
	const struct row *r = &rows[i];

	*how = r->method;
	if (r->obstacle != NULL) {
		*how = r->obstacle;
		return false;
	}
	if (place->is_program && r->vtable != NULL)
		return method_by_type(f, place, seen, r, how);
	if (r->vtable != NULL && has_shared_pointers_of_libcxx(f)) {
		*how = of_libcxx;
		return false;
	}
	if (place->is_program) {
		*how = "it is linked into the program, whose calls are bound inside it";
		return false;
	}
	return true;
}

bool sp_sdk_is_opentelemetry(const struct sp_elf *f)
{
	return has_text(f, "OTEL_RESOURCE_ATTRIBUTES");
}

bool sp_sdk_is_otelcpp(const struct sp_elf *f)
{
	return has_text(f, "[TracerProvider::GetTracer] Library name is empty");
}

size_t sp_sdk_look(const struct sp_elf *f, struct sp_sdk_place *place, struct sp_sdk_found *found,
		   size_t max)
{
	struct seen seen;
	size_t n = 0;

	memset(&seen, 0, sizeof(seen));
	(void)each_symbol(f, SHT_DYNSYM, in_dynsym, &seen);
	(void)each_symbol(f, SHT_SYMTAB, in_symtab, &seen);
	if (place->is_program)
		place->own_getenv = seen.exports_getenv;
	for (size_t i = 0; i < ROWS && n < max; i++) {
		const struct row *r = &rows[i];
		struct sp_sdk_found *out = &found[n];

		out->name = r->name;
		out->state = SP_SDK_KNOWN;
		if (complete(seen.exported[i], r)) {
			if (method(f, place, &seen, i, &out->how))
				out->state = SP_SDK_HOOKED;
			/* A newer release also has all names of an older one. */
			if (r->obstacle == NULL || n == 0)
				n++;
		} else if (complete(seen.exported[i] | seen.local[i], r) || has_types(f, r)) {
			if (method_by_type(f, place, &seen, r, &out->how))
				out->state = SP_SDK_HOOKED;
			n += r->obstacle == NULL || n == 0;
		}
	}
	return n;
}
