/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what the loader or the handler shows to a module. Under the loader's lock nothing is allocated,
 * because a host's allocator may call the loader with its own lock held. Context: BG. Callers:
 * modules.c, module_code.c.
 */
#define _GNU_SOURCE
#include "export/module_read.h"

#include <string.h>
#include <sys/auxv.h>

#include "export/elf_notes.h"

static uint64_t page_down(uint64_t a)
{
	return a & ~(uint64_t)4095;
}

static uint64_t page_up(uint64_t a)
{
	return page_down(a + 4095);
}

static void read_load(struct sp_module *mod, const ElfW(Phdr) * ph)
{
	uint64_t start = mod->bias + ph->p_vaddr;

	if (start < mod->lo)
		mod->lo = start;
	if (start + ph->p_memsz > mod->hi)
		mod->hi = start + ph->p_memsz;
	if ((ph->p_flags & PF_X) != 0 && mod->segments < SP_MODULE_SEGMENTS)
		mod->segment[mod->segments++] = (struct sp_segment){
			.start = page_down(start),
			.end = page_up(start + ph->p_memsz),
			.offset = page_down(ph->p_offset),
		};
}

/* The loader maps nothing but segments, whatever the other headers claim. */
static bool is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R) != 0 &&
		    part->p_vaddr >= ph->p_vaddr && part->p_vaddr - ph->p_vaddr <= ph->p_filesz &&
		    part->p_filesz <= ph->p_filesz - (part->p_vaddr - ph->p_vaddr))
			return true;
	}
	return false;
}

/* What the loader shows of one object; runs under its lock. */
void sp_module_read(struct sp_module *mod, const struct dl_phdr_info *info)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);

	memset(mod, 0, sizeof(*mod));
	mod->bias = info->dlpi_addr;
	mod->phdr = (uintptr_t)info->dlpi_phdr;
	mod->lo = UINT64_MAX;
	mod->vdso = vdso != 0 && mod->phdr >= vdso && mod->phdr < vdso + 4096;
	mod->main = !mod->vdso && (info->dlpi_name == NULL || info->dlpi_name[0] == '\0');
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const void *at = (const void *)(uintptr_t)(mod->bias + ph->p_vaddr);

		if (ph->p_type == PT_LOAD)
			read_load(mod, ph);
		else if (ph->p_type == PT_NOTE && mod->build_id_len == 0 && is_mapped(info, ph))
			mod->build_id_len = (uint8_t)sp_elf_build_id(
				at, ph->p_filesz, mod->build_id, sizeof(mod->build_id));
	}
}

bool sp_module_same(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && a->phdr == b->phdr && a->hi == b->hi &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
}

void sp_module_read_sighting(struct sp_module *mod, const struct sp_sighting *s)
{
	memset(mod, 0, sizeof(*mod));
	mod->bias = s->bias;
	mod->phdr = s->phdr;
	mod->lo = UINT64_MAX;
	for (uint64_t i = 0; i < s->loads && i < SP_SIGHTING_LOADS; i++)
		read_load(mod, &(ElfW(Phdr)){.p_type = PT_LOAD,
					     .p_flags = (ElfW(Word))s->load[i].flags,
					     .p_offset = s->load[i].offset,
					     .p_vaddr = s->load[i].vaddr,
					     .p_memsz = s->load[i].memsz});
	mod->build_id_len = s->build_id_len <= SP_BUILD_ID_MAX ? (uint8_t)s->build_id_len : 0;
	memcpy(mod->build_id, s->build_id, mod->build_id_len);
}
