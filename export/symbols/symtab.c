/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol tables through libelf. No descriptor outlives the call. Context: the exporter.
 */
#include "export/symbols/symtab.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/plt.h"
#include "export/symbols/symbol_sort.h"
#include "export/symbols/xz.h"
#include "export/util/grow.h"
#include "export/util/sorted.h"

#define SP_SYMTAB_SECTION_MAX ((uint64_t)96 << 20) /* larger tables are left alone */
#define SP_SYMTAB_NAME_MAX 4096U
#define SP_MINI_PACKED_MAX ((uint64_t)16 << 20)
#define SP_MINI_MAX ((size_t)64 << 20)
#define SP_SYMTAB_WALK 16U /* symbols examined before the nearest one */

struct sp_symtab {
	struct sp_symbol_entry *symbol;
	char *names;
	size_t n, cap;
	size_t names_used, names_cap;
	bool full;
	bool dwarf;
	struct sp_debug_link link;
};

static int add_symbol(struct sp_symtab *t, uint64_t start, uint64_t size, const char *name)
{
	size_t len = strnlen(name, SP_SYMTAB_NAME_MAX);

	if (!SP_GROW(t->symbol, t->cap, t->n + 1, SIZE_MAX) ||
	    !SP_GROW(t->names, t->names_cap, t->names_used + len + 1, UINT32_MAX))
		return -ENOMEM;
	t->symbol[t->n++] = (struct sp_symbol_entry){
		.start = start,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = (uint32_t)t->names_used,
	};
	memcpy(t->names + t->names_used, name, len);
	t->names[t->names_used + len] = '\0';
	t->names_used += len + 1;
	return 0;
}

/* Functions, and untyped labels of hand-written assembly. */
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

/* The text at an offset of a string section, or NULL. The section ends with a NUL. */
static const char *string_at(const Elf_Data *strings, uint64_t offset)
{
	return offset < strings->d_size ? (const char *)strings->d_buf + offset : NULL;
}

/* The strings that a symbol table's names are in, or NULL. */
static const Elf_Data *strings_of(Elf *elf, const GElf_Shdr *sh)
{
	Elf_Scn *scn = elf_getscn(elf, sh->sh_link);
	const Elf_Data *data;
	GElf_Shdr names;

	if (scn == NULL || gelf_getshdr(scn, &names) == NULL || names.sh_type != SHT_STRTAB ||
	    (names.sh_flags & SHF_COMPRESSED) != 0 || names.sh_size > SP_SYMTAB_SECTION_MAX)
		return NULL;
	data = elf_rawdata(scn, NULL);
	if (data == NULL || data->d_buf == NULL || data->d_size == 0 ||
	    ((const char *)data->d_buf)[data->d_size - 1] != '\0')
		return NULL;
	return data;
}

static int read_section(struct sp_symtab *t, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	const Elf_Data *strings;
	Elf_Data *data;
	GElf_Sym sym;
	int err = 0;

	if (sh->sh_size > SP_SYMTAB_SECTION_MAX || sh->sh_entsize == 0)
		return 0;
	strings = strings_of(elf, sh);
	data = strings != NULL ? elf_getdata(scn, NULL) : NULL;
	if (data == NULL)
		return 0;
	/*
	 * Room for all symbols at once; what is too much is given back. If there is not so much
	 * memory, the table grows step by step, as it does where symbols share the ends of their
	 * names.
	 */
	(void)SP_GROW(t->symbol, t->cap, t->n + data->d_size / sizeof(Elf64_Sym), SIZE_MAX);
	(void)SP_GROW(t->names, t->names_cap, t->names_used + strings->d_size, UINT32_MAX);
	for (int i = 1; err == 0 && gelf_getsym(data, i, &sym) != NULL; i++) {
		const char *name = string_at(strings, sym.st_name);

		if (wanted(elf, &sym, name))
			err = add_symbol(t, sym.st_value, sym.st_size, name);
	}
	t->full = t->full || sh->sh_type == SHT_SYMTAB;
	return err;
}

/* Keeps one symbol per address, the first one with a size if there is any, and gives back spare
 * memory. */
static void sort_and_trim(struct sp_symtab *t)
{
	struct sp_symbol_entry *symbol;
	size_t n = 0;
	char *names;

	if (t->n == 0)
		return;
	sp_symbol_sort(t->symbol, t->n);
	for (size_t i = 0; i < t->n; i++) {
		if (n == 0 || t->symbol[n - 1].start != t->symbol[i].start)
			t->symbol[n++] = t->symbol[i];
		else if (t->symbol[n - 1].size == 0 && t->symbol[i].size != 0)
			t->symbol[n - 1] = t->symbol[i];
	}
	t->n = n;
	symbol = realloc(t->symbol, n * sizeof(*symbol));
	if (symbol != NULL) {
		t->symbol = symbol;
		t->cap = n;
	}
	names = realloc(t->names, t->names_used);
	if (names != NULL) {
		t->names = names;
		t->names_cap = t->names_used;
	}
}

static int read_symbols(struct sp_symtab *t, Elf *elf)
{
	Elf_Scn *scn = NULL;
	int err = 0;

	while (err == 0 && (scn = elf_nextscn(elf, scn)) != NULL) {
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) != NULL &&
		    (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM))
			err = read_section(t, elf, scn, &sh);
	}
	return err;
}

/*
 * MiniDebugInfo: a compressed ELF file with the function symbols that were stripped. If it is
 * damaged it counts as absent.
 */
static int read_mini(struct sp_symtab *t, Elf *elf)
{
	Elf_Scn *scn = sp_elf_file_section(elf, ".gnu_debugdata");
	const Elf_Data *packed = NULL;
	uint8_t *image;
	GElf_Shdr sh;
	size_t size;
	Elf *mini;
	int err = 0;

	if (scn != NULL && gelf_getshdr(scn, &sh) != NULL && sh.sh_size <= SP_MINI_PACKED_MAX)
		packed = elf_rawdata(scn, NULL);
	if (packed == NULL || packed->d_buf == NULL ||
	    sp_xz_unpack(packed->d_buf, packed->d_size, SP_MINI_MAX, &image, &size) != 0)
		return 0;
	mini = elf_memory((char *)image, size);
	if (mini != NULL)
		err = read_symbols(t, mini);
	elf_end(mini);
	free(image);
	return err;
}

static int put_stub(void *arg, uint64_t start, uint64_t size, const char *name)
{
	return add_symbol(arg, start, size, name);
}

static int read_elf(struct sp_symtab *t, Elf *elf)
{
	int err = read_symbols(t, elf);

	if (err == 0 && !t->full)
		err = read_mini(t, elf);
	if (err == 0)
		err = sp_plt_read(elf, put_stub, t);
	t->dwarf = sp_elf_file_has_dwarf(elf);
	sp_elf_file_debug_link(elf, &t->link);
	sort_and_trim(t);
	return err;
}

int sp_symtab_add(struct sp_symtab *t, Elf *elf)
{
	int err = read_symbols(t, elf);

	sort_and_trim(t);
	return err;
}

struct sp_symtab *sp_symtab_new(void)
{
	return calloc(1, sizeof(struct sp_symtab));
}

static int finish(int err, struct sp_symtab *t, struct sp_symtab **out)
{
	if (err != 0) {
		sp_symtab_free(t);
		t = NULL;
	}
	*out = t;
	return err;
}

int sp_symtab_read(Elf *elf, struct sp_symtab **out)
{
	struct sp_symtab *t = sp_symtab_new();

	return finish(t != NULL ? read_elf(t, elf) : -ENOMEM, t, out);
}

int sp_symtab_read_image(void *image, size_t size, struct sp_symtab **out)
{
	struct sp_symtab *t = sp_symtab_new();
	Elf *elf;
	int err = -ENOMEM;

	if (t != NULL) {
		elf_version(EV_CURRENT);
		elf = elf_memory(image, size);
		err = elf != NULL ? read_elf(t, elf) : -EINVAL;
		elf_end(elf);
	}
	return finish(err, t, out);
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
	size_t low = SP_SORTED_UPTO(t->symbol, t->n, start, vaddr);

	/* A label inside a function must not hide the function around it. */
	for (size_t back = 0; back < SP_SYMTAB_WALK && back < low; back++) {
		const struct sp_symbol_entry *s = &t->symbol[low - 1 - back];

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

bool sp_symtab_has_dwarf(const struct sp_symtab *t)
{
	return t->dwarf;
}

const struct sp_debug_link *sp_symtab_debug_link(const struct sp_symtab *t)
{
	return &t->link;
}

size_t sp_symtab_bytes(const struct sp_symtab *t)
{
	return sizeof(*t) + t->cap * sizeof(*t->symbol) + t->names_cap;
}
