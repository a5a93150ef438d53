/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds source lines and inlined functions in DWARF, by libdw, which only this file and
 * dwarf_index.c use. Debug information is read into memory as a whole (elf_file.c says why it is
 * not mapped), so the caller asks sp_lines_need() first. The descriptor is closed before anything
 * is looked up. Context: the exporter.
 */
#include "export/symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/dwarf_index.h"

#define SP_BLOCKS_MAX 32U      /* nested */
#define SP_INLINES_WALK 65536U /* entries of one function looked at for one address */

struct sp_lines {
	struct sp_elf_file file;
	Dwarf *dwarf;
	struct sp_dwarf_index *index;
};

/* Sections about variables, frames and macros: large, and useless for lines. */
static bool is_needless(const char *name)
{
	static const char *const needless[] = {"loc", "loclists", "frame", "macro", "macinfo"};

	if (strncmp(name, ".debug_", 7) == 0)
		name += 1;
	else if (strncmp(name, ".zdebug_", 8) == 0)
		name += 2;
	else
		return false;
	for (size_t i = 0; i < sizeof(needless) / sizeof(needless[0]); i++)
		if (strcmp(name + 6, needless[i]) == 0)
			return true;
	return false;
}

/*
 * The prefixes of the sections that libdw knows. It unpacks such a section as soon as it sees it.
 */
static bool is_debug(const char *name)
{
	static const char *const begin[] = {".debug_", ".zdebug_", ".gnu.debuglto_",
					    ".gnu_debugaltlink"};

	for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		if (strncmp(name, begin[i], strlen(begin[i])) == 0)
			return true;
	return false;
}

/* Old-style packed sections begin with "ZLIB" and the size, big-endian. */
static uint64_t zdebug_need(Elf *elf, const GElf_Shdr *sh)
{
	/* Only its first bytes: the section as a whole may be too large. */
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)sh->sh_offset, 12, ELF_T_BYTE);
	const uint8_t *at = data != NULL ? data->d_buf : NULL;
	uint64_t size = 0;

	if (at == NULL)
		return 0;
	for (unsigned i = 4; i < 12; i++)
		size = size << 8 | at[i];
	return size;
}

static uint64_t packed_need(Elf *elf, const GElf_Shdr *sh)
{
	bool wide = gelf_getclass(elf) == ELFCLASS64;
	size_t len = wide ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
	const Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)sh->sh_offset, len, ELF_T_CHDR);

	if (data == NULL || data->d_buf == NULL)
		return UINT64_MAX / 2;
	return wide ? ((const Elf64_Chdr *)data->d_buf)->ch_size
		    : ((const Elf32_Chdr *)data->d_buf)->ch_size;
}

static uint64_t section_need(Elf *elf, Elf_Scn *scn)
{
	const char *name = sp_elf_file_section_name(elf, scn);
	uint64_t need = 0;
	GElf_Shdr sh;

	if (gelf_getshdr(scn, &sh) == NULL || sh.sh_type == SHT_NOBITS || !is_debug(name) ||
	    is_needless(name))
		return 0;
	if ((sh.sh_flags & SHF_COMPRESSED) != 0)
		need = packed_need(elf, &sh);
	else if (strncmp(name, ".zdebug_", 8) == 0)
		need = zdebug_need(elf, &sh);
	return need > UINT64_MAX / 2 - sh.sh_size ? UINT64_MAX / 2 : sh.sh_size + need;
}

uint64_t sp_lines_need(Elf *elf)
{
	Elf_Scn *scn = NULL;
	uint64_t sum = 0;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		uint64_t need = section_need(elf, scn);

		sum = need > UINT64_MAX / 2 - sum ? UINT64_MAX / 2 : sum + need;
	}
	return sum;
}

/*
 * libdw reads and unpacks every section that it knows, unless its type says that it has no
 * contents. Only libelf's copy of the header is changed.
 */
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

int sp_lines_new(struct sp_elf_file *file, struct sp_lines **out)
{
	struct sp_lines *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	*out = NULL;
	if (l != NULL) {
		leave_out_needless(file->elf);
		/* This reads every other debug section. */
		l->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
		l->file.elf = file->elf;
		l->file.fd = -1;
		(void)elf_cntl(file->elf, ELF_C_FDDONE);
		file->elf = NULL;
		err = l->dwarf != NULL ? sp_dwarf_index_new(l->dwarf, &l->index) : -ENOENT;
	}
	sp_elf_file_close(file);
	if (err != 0)
		sp_lines_free(l);
	else
		*out = l;
	return err;
}

void sp_lines_free(struct sp_lines *l)
{
	if (l == NULL)
		return;
	sp_dwarf_index_free(l->index);
	dwarf_end(l->dwarf);
	sp_elf_file_close(&l->file);
	free(l);
}

/* Linkage name, or plain name, of a function or of what it is an instance of. */
static const char *name_of(Dwarf_Die *die)
{
	static const unsigned at[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
	const char *name = NULL;

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]) && name == NULL; i++) {
		Dwarf_Attribute attr;

		name = dwarf_formstring(dwarf_attr_integrate(die, at[i], &attr));
	}
	return name;
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

/* Where an inlined function was called from. */
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
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
	       tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

static bool has_ranges(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_low_pc) != 0 || dwarf_hasattr(die, DW_AT_ranges) != 0;
}

/* A block without addresses of its own may hold anything. */
static bool worth_entering(Dwarf_Die *die, int tag, uint64_t vaddr)
{
	return is_block(tag) && (dwarf_haspc(die, vaddr) > 0 || !has_ranges(die));
}

/* Goes from *die to the inlined function below it that holds vaddr, through blocks: down, along and
 * up again. */
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
		if (tag == DW_TAG_inlined_subroutine && dwarf_haspc(&path[depth], vaddr) > 0) {
			*die = path[depth];
			return true;
		}
		if (depth + 1 < SP_BLOCKS_MAX && worth_entering(&path[depth], tag, vaddr) &&
		    dwarf_child(&path[depth], &path[depth + 1]) == 0)
			depth++;
		else
			end = dwarf_siblingof(&path[depth], &path[depth]);
	}
	return false;
}

static void line_of(Dwarf_Die *unit, uint64_t vaddr, struct sp_source_line *out)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, vaddr);
	int number = 0;

	if (line == NULL)
		return;
	set_file(unit, dwarf_linesrc(line, NULL, NULL), out);
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		out->line = (uint32_t)number;
}

unsigned sp_lines_find(struct sp_lines *l, uint64_t vaddr,
		       struct sp_source_line out[SP_LINES_DEPTH])
{
	struct sp_dwarf_unit *unit = sp_dwarf_index_unit(l->index, vaddr);
	struct sp_source_line reversed[SP_LINES_DEPTH] = {{NULL, NULL, NULL, 0}};
	unsigned budget = SP_INLINES_WALK;
	unsigned n = 1;
	Dwarf_Die die;

	if (unit == NULL)
		return 0;
	if (sp_dwarf_unit_function(unit, vaddr, &die)) {
		reversed[0].name = name_of(&die);
		while (n < SP_LINES_DEPTH && descend(&die, vaddr, &budget)) {
			call_site(&die, &reversed[n - 1]);
			reversed[n++].name = name_of(&die);
		}
	}
	line_of(sp_dwarf_unit_die(unit), vaddr, &reversed[n - 1]);
	for (unsigned i = 0; i < n; i++)
		out[i] = reversed[n - 1 - i];
	return n != 1 || out[0].name != NULL || out[0].file != NULL ? n : 0;
}
