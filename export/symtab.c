/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol tables through libelf. Files are read, not mapped: a file that is truncated while mapped
 * would kill the host with SIGBUS. No descriptor outlives the call. Context: BG. Caller:
 * symbolize.c.
 */
#define _GNU_SOURCE
#include "export/symtab.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/elf_notes.h"

#define SP_SYMTAB_SECTION_MAX ((uint64_t)96 << 20) /* larger tables are left alone */
#define SP_SYMTAB_NAME_MAX 4096U
#define SP_SYMTAB_WALK 16U /* symbols looked at behind the nearest one */

struct symbol {
	uint64_t start;
	uint32_t size;
	uint32_t name; /* in names[] */
};

struct sp_symtab {
	struct symbol *symbol;
	char *names;
	size_t n, cap;
	size_t names_used, names_cap;
	bool full;
};

static int add_symbol(struct sp_symtab *t, const GElf_Sym *sym, const char *name)
{
	size_t len = strnlen(name, SP_SYMTAB_NAME_MAX);

	if (t->n == t->cap) {
		size_t cap = t->cap != 0 ? t->cap * 2 : 512;
		struct symbol *more = realloc(t->symbol, cap * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		t->symbol = more;
		t->cap = cap;
	}
	if (t->names_cap - t->names_used <= len) {
		size_t cap = (t->names_cap + len) * 2 + 4096;
		char *more = cap <= UINT32_MAX ? realloc(t->names, cap) : NULL;

		if (more == NULL)
			return -ENOMEM;
		t->names = more;
		t->names_cap = cap;
	}
	t->symbol[t->n++] = (struct symbol){
		.start = sym->st_value,
		.size = sym->st_size < UINT32_MAX ? (uint32_t)sym->st_size : UINT32_MAX,
		.name = (uint32_t)t->names_used,
	};
	memcpy(t->names + t->names_used, name, len);
	t->names[t->names_used + len] = '\0';
	t->names_used += len + 1;
	return 0;
}

/* Functions, and labels of hand-written assembly that the compiler never typed. */
static bool wanted(Elf *elf, const GElf_Sym *sym, const char *name)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	GElf_Shdr sh;

	if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || name == NULL || name[0] == '\0')
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	if (type != STT_NOTYPE || name[0] == '$' || name[0] == '.' ||
	    sym->st_shndx >= SHN_LORESERVE)
		return false;
	return gelf_getshdr(elf_getscn(elf, sym->st_shndx), &sh) != NULL &&
	       (sh.sh_flags & SHF_EXECINSTR) != 0;
}

static int read_section(struct sp_symtab *t, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	GElf_Shdr names;
	Elf_Data *data;
	int err = 0;

	if (sh->sh_size > SP_SYMTAB_SECTION_MAX || sh->sh_entsize == 0 ||
	    gelf_getshdr(elf_getscn(elf, sh->sh_link), &names) == NULL ||
	    names.sh_size > SP_SYMTAB_SECTION_MAX)
		return 0;
	data = elf_getdata(scn, NULL);
	if (data == NULL)
		return 0;
	for (int i = 1; err == 0 && (uint64_t)i < sh->sh_size / sh->sh_entsize; i++) {
		GElf_Sym sym;
		const char *name;

		if (gelf_getsym(data, i, &sym) == NULL)
			break;
		name = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (wanted(elf, &sym, name))
			err = add_symbol(t, &sym, name);
	}
	t->full = t->full || sh->sh_type == SHT_SYMTAB;
	return err;
}

static size_t file_build_id(Elf *elf, uint8_t *id, size_t cap)
{
	Elf_Scn *scn = NULL;
	size_t len = 0;

	while (len == 0 && (scn = elf_nextscn(elf, scn)) != NULL) {
		const Elf_Data *data;
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_type != SHT_NOTE ||
		    sh.sh_size > 65536 || (data = elf_rawdata(scn, NULL)) == NULL ||
		    data->d_buf == NULL)
			continue;
		len = sp_elf_build_id(data->d_buf, data->d_size, id, cap);
	}
	return len;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a;
	const struct symbol *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	/* The one that find() meets first, from the end: the sized, then the first in the file. */
	if ((x->size != 0) != (y->size != 0))
		return x->size != 0 ? 1 : -1;
	return x->name > y->name ? -1 : x->name < y->name;
}

/* Keeps one symbol per address and gives back spare memory. */
static void settle(struct sp_symtab *t)
{
	struct symbol *trimmed;
	size_t n = 0;

	if (t->n == 0)
		return;
	qsort(t->symbol, t->n, sizeof(*t->symbol), by_address);
	for (size_t i = 0; i < t->n; i++)
		if (i + 1 == t->n || t->symbol[i].start != t->symbol[i + 1].start)
			t->symbol[n++] = t->symbol[i];
	t->n = n;
	trimmed = realloc(t->symbol, n * sizeof(*trimmed));
	if (trimmed != NULL) {
		t->symbol = trimmed;
		t->cap = n;
	}
}

static int read_elf(struct sp_symtab *t, Elf *elf)
{
	Elf_Scn *scn = NULL;
	int err = 0;

	while (err == 0 && (scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) != NULL &&
		    (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM))
			err = read_section(t, elf, scn, &sh);
	}
	settle(t);
	return err;
}

static int add_checked(struct sp_symtab *t, Elf *elf, const uint8_t *id, size_t id_len)
{
	uint8_t have[64];
	size_t n;

	if (elf == NULL || elf_kind(elf) != ELF_K_ELF)
		return -EINVAL;
	n = file_build_id(elf, have, sizeof(have));
	if (n != id_len || (n != 0 && memcmp(have, id, n) != 0))
		return -ESTALE;
	return read_elf(t, elf);
}

int sp_symtab_add_file(struct sp_symtab *t, const char *path, const uint8_t *id, size_t id_len)
{
	/* Not blocking: the path may by now be a FIFO, which must not stop the thread. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	Elf *elf;
	int err;

	if (fd < 0)
		return -ENOENT;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	err = add_checked(t, elf, id, id_len);
	elf_end(elf);
	close(fd);
	return err;
}

int sp_symtab_read_file(const char *path, const uint8_t *id, size_t id_len, struct sp_symtab **out)
{
	struct sp_symtab *t = calloc(1, sizeof(*t));
	int err = t != NULL ? sp_symtab_add_file(t, path, id, id_len) : -ENOMEM;

	if (err != 0) {
		sp_symtab_free(t);
		t = NULL;
	}
	*out = t;
	return err;
}

int sp_symtab_read_image(void *image, size_t size, struct sp_symtab **out)
{
	struct sp_symtab *t = calloc(1, sizeof(*t));
	Elf *elf;
	int err = -ENOMEM;

	if (t != NULL) {
		elf_version(EV_CURRENT);
		elf = elf_memory(image, size);
		err = elf != NULL ? read_elf(t, elf) : -EINVAL;
		elf_end(elf);
	}
	if (err != 0) {
		sp_symtab_free(t);
		t = NULL;
	}
	*out = t;
	return err;
}

void sp_symtab_free(struct sp_symtab *t)
{
	if (t == NULL)
		return;
	free(t->symbol);
	free(t->names);
	free(t);
}

bool sp_symtab_find(const struct sp_symtab *t, uint64_t vaddr, struct sp_symbol *out)
{
	size_t low = 0;

	for (size_t high = t->n; low < high;) {
		size_t mid = low + (high - low) / 2;

		if (t->symbol[mid].start <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	/* A label inside a function must not hide the function around it. */
	for (size_t back = 0; back < SP_SYMTAB_WALK && back < low; back++) {
		const struct symbol *s = &t->symbol[low - 1 - back];

		if ((s->size == 0 && back == 0) || vaddr - s->start < s->size) {
			*out = (struct sp_symbol){s->start, s->size, t->names + s->name};
			return true;
		}
	}
	return false;
}

bool sp_symtab_full(const struct sp_symtab *t)
{
	return t->full;
}

size_t sp_symtab_bytes(const struct sp_symtab *t)
{
	return sizeof(*t) + t->cap * sizeof(*t->symbol) + t->names_cap;
}
