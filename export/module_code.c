/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read of a module's mapped bytes after it was first seen. Under the loader's lock, as in
 * modules.c, because another thread may unload it at any time. Context: BG. Caller: symbolize.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "export/fde.h"
#include "export/module_read.h"
#include "export/modules.h"

#define SP_PAGE 4096U
#define SP_VDSO_MAX_BYTES ((uint64_t)256 * 1024)

struct function_query {
	const struct sp_module *mod;
	uint64_t pc;
	uint64_t start;
	uint64_t end;
	bool mapped;
	bool found;
};

static int ask_function(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct function_query *q = arg;
	const ElfW(Phdr) *hdr = NULL;
	struct sp_module now;

	(void)size;
	if (info->dlpi_addr != q->mod->bias || (uintptr_t)info->dlpi_phdr != q->mod->phdr)
		return 0;
	sp_module_read(&now, info);
	q->mapped = sp_module_same(&now, q->mod);
	if (!q->mapped)
		return 1;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			hdr = &info->dlpi_phdr[i];
	for (unsigned i = 0; hdr != NULL && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || (ph->p_flags & PF_R) == 0 ||
		    hdr->p_vaddr < ph->p_vaddr || hdr->p_vaddr - ph->p_vaddr >= ph->p_filesz)
			continue;
		q->found = sp_fde_find((const uint8_t *)(info->dlpi_addr + hdr->p_vaddr), lo,
				       lo + ph->p_filesz, q->pc, &q->start, &q->end);
	}
	return 1;
}

int sp_modules_function(const struct sp_modules *m, const struct sp_module *mod, uint64_t pc,
			uint64_t *start)
{
	struct function_query q = {.mod = mod, .pc = pc};

	if (mod->died != SP_EPOCH_ALIVE)
		return -ESTALE;
	sp_modules_iterate(m)(ask_function, &q);
	if (!q.mapped)
		return -ESTALE;
	*start = q.start - mod->bias;
	/* What begins before the object is not its function. */
	return q.found && q.start >= mod->lo ? 0 : -ENOENT;
}

void *sp_modules_vdso_copy(const struct sp_module *mod, size_t *size)
{
	const ElfW(Ehdr) *ehdr = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
	uint64_t end;
	void *copy;

	if (!mod->vdso || ehdr == NULL || ehdr->e_shentsize != sizeof(ElfW(Shdr)))
		return NULL;
	end = ehdr->e_shoff + (uint64_t)ehdr->e_shnum * ehdr->e_shentsize;
	if (end > SP_VDSO_MAX_BYTES || end > (mod->hi + SP_PAGE - 1) / SP_PAGE * SP_PAGE - mod->lo)
		return NULL;
	copy = malloc((size_t)end);
	if (copy != NULL)
		memcpy(copy, ehdr, (size_t)end);
	*size = (size_t)end;
	return copy;
}
