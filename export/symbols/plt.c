/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call into another object goes through a stub, which has no symbol: it jumps to the address in a slot of the
 * global offset table. The relocation of the slot says whose address the dynamic linker puts there, and so which
 * function the stub stands for. Sections with stubs are .plt (for lazy binding, behind a header that jumps to the
 * linker), .plt.sec (beside .plt with -z ibtplt, then calls go there), .plt.got, and in static programs .iplt.
 * Context: the exporter.
 */
#include "export/symbols/plt.h"

#include <gelf.h>
#include <string.h>

#include "export/symbols/elf_file.h"
#include "sampler/unwind/ehframe_sig.h"

#define SP_STUB_BYTES 16U /* size of a stub, if the section header does not say it */
#define SP_AARCH64_HEADER_BYTES 32U
#define SP_STUB_BYTES_MAX 64U
#define SP_RELOCATIONS_MAX (1U << 20) /* at most this many relocations are examined for one stub */

/* The section that contains a stub at vaddr. */
static Elf_Scn *find_stubs(Elf *elf, uint64_t vaddr, GElf_Shdr *sh)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		const char *name = sp_elf_file_section_name(elf, scn);

		if (gelf_getshdr(scn, sh) != NULL && sh->sh_type == SHT_PROGBITS &&
		    (sh->sh_flags & SHF_EXECINSTR) != 0 && vaddr >= sh->sh_addr &&
		    vaddr - sh->sh_addr < sh->sh_size &&
		    (strncmp(name, ".plt", 4) == 0 || strcmp(name, ".iplt") == 0))
			return scn;
	}
	return NULL;
}

/*
 * How a stub leads to its function: the address of the slot that holds the function's address, or
 * the number of the slot's relocation.
 */
struct target {
	uint64_t slot;
	uint32_t index;
	bool is_by_index;
};

/* jmp *slot(%rip), perhaps behind endbr64 and others; in a lazy .plt beside .plt.sec: endbr64 and push $index. */
static bool read_x86(const uint8_t *code, size_t size, uint64_t at, struct target *out)
{
	static const uint8_t endbr64_push[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68};

	for (size_t i = 0; i + 6 <= size; i++) {
		if (code[i] != 0xff || code[i + 1] != 0x25)
			continue;
		out->slot =
			at + i + 6 + (uint64_t)(int64_t)(int32_t)sp_load_unsigned(code + i + 2, 4);
		return true;
	}
	if (size < sizeof(endbr64_push) + 4 ||
	    memcmp(code, endbr64_push, sizeof(endbr64_push)) != 0)
		return false;
	out->index = (uint32_t)sp_load_unsigned(code + sizeof(endbr64_push), 4);
	out->is_by_index = true;
	return true;
}

/* adrp x16, page of the slot; ldr x17, [x16, #offset]; perhaps behind bti c. */
static bool read_aarch64(const uint8_t *code, size_t size, uint64_t at, struct target *out)
{
	for (size_t i = 0; i + 8 <= size; i += 4) {
		const uint64_t adrp = sp_load_unsigned(code + i, 4);
		const uint64_t ldr = sp_load_unsigned(code + i + 4, 4);
		uint64_t pages;

		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		/* sign extension of 21 bits */
		pages = (adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
		pages = (pages ^ UINT64_C(1) << 20) - (UINT64_C(1) << 20);
		out->slot = ((at + i) & ~UINT64_C(4095)) + pages * 4096 + (ldr >> 10 & 0xfff) * 8;
		return true;
	}
	return false;
}

/*
 * The name of the symbol in the relocation of that number, from the table that the section with the relocations
 * names.
 */
static const char *name_of(Elf *elf, const GElf_Shdr *relocations, uint64_t number)
{
	Elf_Scn *scn = elf_getscn(elf, relocations->sh_link);
	const Elf_Data *strings;
	Elf_Data *data;
	GElf_Shdr sh;
	GElf_Sym sym;

	if (number == 0 || number > INT32_MAX || scn == NULL || gelf_getshdr(scn, &sh) == NULL ||
	    (sh.sh_type != SHT_DYNSYM && sh.sh_type != SHT_SYMTAB))
		return NULL;
	strings = sp_elf_file_strings(elf, &sh);
	data = elf_getdata(scn, NULL);
	if (strings == NULL || data == NULL || gelf_getsym(data, (int)number, &sym) == NULL ||
	    sym.st_name >= strings->d_size)
		return NULL;
	return (const char *)strings->d_buf + sym.st_name;
}

static bool is_it(const GElf_Rela *r, uint32_t index, const struct target *target, bool is_plt)
{
	return target->is_by_index ? is_plt && index == target->index : r->r_offset == target->slot;
}

static void find_name(Elf *elf, const struct target *target, struct sp_plt_stub *out)
{
	Elf_Scn *scn = NULL;
	unsigned seen = 0;

	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		bool is_plt = strcmp(sp_elf_file_section_name(elf, scn), ".rela.plt") == 0;
		Elf_Data *data;
		GElf_Shdr sh;
		GElf_Rela r;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_type != SHT_RELA ||
		    (sh.sh_flags & SHF_ALLOC) == 0)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0;
		     data != NULL && seen < SP_RELOCATIONS_MAX && gelf_getrela(data, i, &r) != NULL;
		     i++, seen++) {
			if (!is_it(&r, (uint32_t)i, target, is_plt))
				continue;
			out->name = name_of(elf, &sh, GELF_R_SYM(r.r_info));
			if (GELF_R_SYM(r.r_info) == 0)
				out->resolver = (uint64_t)r.r_addend;
			return;
		}
	}
}

bool sp_plt_find(Elf *elf, uint64_t vaddr, struct sp_plt_stub *out)
{
	uint64_t header = 0;
	struct target target = {0};
	uint64_t size, offset;
	const uint8_t *code;
	const Elf_Data *data;
	bool is_aarch64;
	Elf_Scn *scn;
	GElf_Shdr sh;
	GElf_Ehdr eh;

	if (elf == NULL || gelf_getehdr(elf, &eh) == NULL)
		return false;
	scn = find_stubs(elf, vaddr, &sh);
	if (scn == NULL)
		return false;
	is_aarch64 = eh.e_machine == EM_AARCH64;
	if (is_aarch64 && strcmp(sp_elf_file_section_name(elf, scn), ".plt") == 0)
		header = SP_AARCH64_HEADER_BYTES;
	size = sh.sh_entsize;
	if (size < 8 || size > SP_STUB_BYTES_MAX)
		size = SP_STUB_BYTES;
	offset = vaddr - sh.sh_addr;
	offset = offset < header ? 0 : header + (offset - header) / size * size;
	*out = (struct sp_plt_stub){.start = sh.sh_addr + offset};
	data = elf_rawdata(scn, NULL);
	if (data == NULL || data->d_buf == NULL || offset >= data->d_size)
		return true;
	if (size > data->d_size - offset)
		size = data->d_size - offset;
	code = (const uint8_t *)data->d_buf + offset;
	if (is_aarch64 ? read_aarch64(code, size, out->start, &target)
		       : read_x86(code, size, out->start, &target))
		find_name(elf, &target, out);
	return true;
}
