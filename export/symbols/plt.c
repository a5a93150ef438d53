/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names PLT stubs. A stub jumps through a slot of the global offset table, and the relocation of
 * that slot names the function. So stubs are decoded to find the slot that they load, which works
 * for every order and size of stubs that linkers produce. Lazy stubs in front of .plt.sec (Intel
 * CET) push the number of their relocation instead. Encodings: x86-64 psABI 5.2 and binutils'
 * elfxx-x86.c, elfnn-aarch64.c. Context: the exporter.
 */
#include "export/symbols/plt.h"

#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/elf_file.h"
#include "export/util/grow.h"

#define SP_PLT_SECTION_MAX ((uint64_t)4 << 20)
#define SP_PLT_RELOCATIONS_MAX ((size_t)1 << 19)
#define SP_PLT_NAME_MAX 1024U

struct slot {
	uint64_t got;
	uint64_t addend;
	uint32_t order; /* of the relocation in its section */
	uint32_t name;  /* in the string table of the dynamic symbols, 0 = none */
	bool jump;      /* of .rela.plt */
};

struct plt {
	Elf *elf;
	struct slot *slot; /* sorted by got */
	size_t n, cap;
	size_t strings; /* section of the names */
	unsigned machine;
	sp_plt_put put;
	void *arg;
};

/* One stub as decoded. */
struct stub {
	uint64_t got;
	size_t size;
	uint32_t order;
	bool by_order; /* the number of its relocation is known instead of its slot */
};

static bool wanted(unsigned machine, uint32_t type)
{
	if (machine == EM_X86_64)
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
		       type == R_X86_64_IRELATIVE;
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT ||
	       type == R_AARCH64_IRELATIVE;
}

static int add_slot(struct plt *p, const struct slot *slot)
{
	if (!SP_GROW(p->slot, p->cap, p->n + 1, SP_PLT_RELOCATIONS_MAX))
		return -ENOMEM;
	p->slot[p->n++] = *slot;
	return 0;
}

/*
 * How many relocations of the section name no symbol and fill no slot. Linkers put those first and
 * count them in DT_RELACOUNT; in large libraries nearly all are of this kind.
 */
static uint64_t relative_relocations(Elf *elf, const GElf_Shdr *sh)
{
	Elf_Scn *scn = sp_elf_file_section(elf, ".dynamic");
	Elf_Data *data = scn != NULL ? elf_getdata(scn, NULL) : NULL;
	uint64_t n = 0;
	bool here = false;
	GElf_Dyn d;

	for (int i = 0; data != NULL && gelf_getdyn(data, i, &d) != NULL; i++) {
		here = here || (d.d_tag == DT_RELA && d.d_un.d_ptr == sh->sh_addr);
		if (d.d_tag == DT_RELACOUNT)
			n = d.d_un.d_val;
	}
	return here ? n : 0;
}

/* The relocations after those, without reading those. */
static Elf_Data *read_rest(Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	uint64_t skip = relative_relocations(elf, sh);

	uint64_t n = sh->sh_size / sizeof(Elf64_Rela);

	if (skip == 0 || skip > n || sh->sh_size > INT64_MAX ||
	    sh->sh_offset > INT64_MAX - sh->sh_size)
		return elf_getdata(scn, NULL);
	if (skip == n)
		return NULL;
	return elf_getdata_rawchunk(elf, (int64_t)(sh->sh_offset + skip * sizeof(Elf64_Rela)),
				    (n - skip) * sizeof(Elf64_Rela), ELF_T_RELA);
}

static int read_relocations(struct plt *p, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Scn *symbol_scn = elf_getscn(p->elf, sh->sh_link);
	Elf_Data *symbols = symbol_scn != NULL ? elf_getdata(symbol_scn, NULL) : NULL;
	bool jump = strcmp(sp_elf_file_section_name(p->elf, scn), ".rela.plt") == 0;
	Elf_Data *data = jump ? elf_getdata(scn, NULL) : read_rest(p->elf, scn, sh);
	GElf_Shdr symbol_sh;
	GElf_Rela r;
	int err = 0;

	if (data == NULL || symbols == NULL || gelf_getshdr(symbol_scn, &symbol_sh) == NULL)
		return 0;
	p->strings = symbol_sh.sh_link;
	for (int i = 0;
	     err == 0 && p->n < SP_PLT_RELOCATIONS_MAX && gelf_getrela(data, i, &r) != NULL; i++) {
		struct slot slot = {.got = r.r_offset, .order = (uint32_t)i, .jump = jump};
		GElf_Sym sym;

		if (!wanted(p->machine, (uint32_t)GELF_R_TYPE(r.r_info)))
			continue;
		if (GELF_R_SYM(r.r_info) != 0 &&
		    gelf_getsym(symbols, (int)GELF_R_SYM(r.r_info), &sym) != NULL)
			slot.name = sym.st_name;
		slot.addend = (uint64_t)r.r_addend;
		err = add_slot(p, &slot);
	}
	return err;
}

static int by_got(const void *a, const void *b)
{
	const struct slot *x = a;
	const struct slot *y = b;

	return (x->got > y->got) - (x->got < y->got);
}

static const struct slot *find_slot(const struct plt *p, const struct stub *stub)
{
	struct slot key = {.got = stub->got};

	if (!stub->by_order)
		return p->n != 0 ? bsearch(&key, p->slot, p->n, sizeof(key), by_got) : NULL;
	for (size_t i = 0; i < p->n; i++)
		if (p->slot[i].jump && p->slot[i].order == stub->order)
			return &p->slot[i];
	return NULL;
}

static int32_t s32(const uint8_t *at)
{
	int32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* [endbr64] [bnd] jmp *slot(%rip), or [endbr64] push $number. */
static bool decode_x86_64(const uint8_t *at, size_t len, uint64_t vaddr, struct stub *out)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t i = len >= 4 && memcmp(at, endbr64, 4) == 0 ? 4 : 0;
	bool marked = i != 0;

	if (i < len && at[i] == 0xf2)
		i++;
	if (len - i >= 6 && at[i] == 0xff && at[i + 1] == 0x25) {
		out->got = vaddr + i + 6 + (uint64_t)(int64_t)s32(at + i + 2);
		return true;
	}
	/* The first stub pushes a slot and not a number, by another opcode. */
	if (marked && len - i >= 5 && at[i] == 0x68) {
		out->by_order = true;
		out->order = (uint32_t)s32(at + i + 1);
		return true;
	}
	return false;
}

/* [bti c] adrp x16, page; ldr x17, [x16, #offset] */
static bool decode_aarch64(const uint8_t *at, size_t len, uint64_t vaddr, struct stub *out)
{
	size_t i = len >= 4 && (uint32_t)s32(at) == 0xd503245fU ? 4 : 0;
	uint32_t adrp, ldr;
	uint64_t page;

	if (len - i < 8)
		return false;
	adrp = (uint32_t)s32(at + i);
	ldr = (uint32_t)s32(at + i + 4);
	if ((adrp & 0x9f00001fU) != 0x90000010U || (ldr & 0xffc003ffU) != 0xf9400211U)
		return false;
	out->size = i != 0 ? 24 : 16;
	page = (uint64_t)(adrp >> 5 & 0x7ffffU) << 2 | (adrp >> 29 & 3U);
	if ((page & 0x100000U) != 0)
		page |= ~(uint64_t)0x1fffff;
	out->got = ((vaddr + i) & ~(uint64_t)0xfff) + (page << 12) +
		   ((uint64_t)(ldr >> 10 & 0xfffU) << 3);
	return true;
}

static int put_stub(const struct plt *p, uint64_t start, const struct stub *stub)
{
	const struct slot *slot = find_slot(p, stub);
	const char *target =
		slot != NULL && slot->name != 0 ? elf_strptr(p->elf, p->strings, slot->name) : NULL;
	char name[SP_PLT_NAME_MAX];

	if (slot == NULL)
		return 0;
	/*
	 * A function that is chosen at start (IFUNC) has no name to bind to; objdump shows it in
	 * this way.
	 */
	if (target == NULL || target[0] == '\0')
		(void)snprintf(name, sizeof(name), "*ABS*+0x%" PRIx64 "@plt", slot->addend);
	else
		(void)snprintf(name, sizeof(name), "%.1000s@plt", target);
	return p->put(p->arg, start, stub->size, name);
}

static int read_stubs(const struct plt *p, Elf_Scn *scn, const GElf_Shdr *sh)
{
	const Elf_Data *data = elf_rawdata(scn, NULL);
	/*
	 * aarch64 has 0 here, or the size of one instruction. Its stubs are 16 or, with BTI, 24
	 * bytes long, and the first one 32. Steps of 8 find them all.
	 */
	size_t step = p->machine == EM_X86_64 && sh->sh_entsize == 16 ? 16 : 8;
	const uint8_t *code;
	int err = 0;

	if (data == NULL || data->d_buf == NULL)
		return 0;
	code = data->d_buf;
	for (size_t i = 0; err == 0 && i + 8 <= data->d_size; i += step) {
		struct stub stub = {.size = step};
		size_t left = data->d_size - i < 24 ? data->d_size - i : 24;
		uint64_t at = sh->sh_addr + i;

		if (p->machine == EM_X86_64
			    ? decode_x86_64(code + i, left < step ? left : step, at, &stub)
			    : decode_aarch64(code + i, left, at, &stub))
			err = put_stub(p, at, &stub);
	}
	return err;
}

static int each_section(struct plt *p, bool relocations)
{
	Elf_Scn *scn = NULL;
	int err = 0;

	while (err == 0 && (scn = elf_nextscn(p->elf, scn)) != NULL) {
		const char *name = sp_elf_file_section_name(p->elf, scn);
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) == NULL)
			continue;
		if (relocations && sh.sh_type == SHT_RELA && strncmp(name, ".rela.", 6) == 0)
			err = read_relocations(p, scn, &sh);
		else if (!relocations && sh.sh_type == SHT_PROGBITS &&
			 strncmp(name, ".plt", 4) == 0 && sh.sh_size <= SP_PLT_SECTION_MAX)
			err = read_stubs(p, scn, &sh);
	}
	return err;
}

int sp_plt_read(Elf *elf, sp_plt_put put, void *arg)
{
	struct plt p = {.elf = elf, .put = put, .arg = arg};
	GElf_Ehdr ehdr;
	int err;

	if (gelf_getehdr(elf, &ehdr) == NULL ||
	    (ehdr.e_machine != EM_X86_64 && ehdr.e_machine != EM_AARCH64) ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	p.machine = ehdr.e_machine;
	err = each_section(&p, true);
	if (err == 0 && p.n != 0) {
		qsort(p.slot, p.n, sizeof(*p.slot), by_got);
		err = each_section(&p, false);
	}
	free(p.slot);
	return err;
}
