/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the relocations of loaded objects and changes the words that the loader filled in. A word
 * is replaced by one compare-and-swap, and only while it holds the loader's value. Memory that the
 * loader made read-only is read-only again afterwards. Contexts: INIT, APP.
 *
 * The lock of dl_iterate_phdr() keeps objects from being unloaded meanwhile, and keeps other
 * threads out. It does not stop the loader from relocating a new object, which would overwrite our
 * change. An object whose read-only part (RELRO) is not yet protected is still being relocated, so
 * we do not change it. Below a seccomp filter we cannot ask the kernel for the protection, so there
 * we never change an object with such a part. A program that patches its own tables may never
 * protect that part again. So an object that we did not change is visited again only if one of its
 * words needs a change.
 */
#define _GNU_SOURCE
#include "preload/elf/relocations.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"

#if defined(__x86_64__)
#define TYPE_JUMP_SLOT R_X86_64_JUMP_SLOT
#define TYPE_GLOB_DAT R_X86_64_GLOB_DAT
#define TYPE_ABS R_X86_64_64
#elif defined(__aarch64__)
#define TYPE_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_GLOB_DAT R_AARCH64_GLOB_DAT
#define TYPE_ABS R_AARCH64_ABS64
#endif

struct importer {
	struct sp_elf_tables tables;
	struct sp_elf_range range;
	uintptr_t page_size;
	uintptr_t protected_from; /* whole pages; empty without RELRO */
	uintptr_t protected_to;
};

struct visit {
	sp_relocations_choose *choose;
	bool complete;
};

static bool read_importer(const struct dl_phdr_info *info, struct importer *m)
{
	m->range = sp_elf_range_of(info);
	m->page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	m->protected_from = m->protected_to = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		/* glibc: elf/dl-reloc.c, _dl_protect_relro */
		if (p->p_type == PT_GNU_RELRO) {
			m->protected_from = at & ~(m->page_size - 1);
			m->protected_to = (at + p->p_memsz) & ~(m->page_size - 1);
		}
	}
	return sp_elf_read_tables(info, &m->tables) && m->range.size != 0;
}

/*
 * Whether the page is writable. We let the kernel do an atomic "or 0" on the page's first word.
 * This changes nothing, and the call fails with EFAULT where a write of ours would raise a signal.
 */
static bool is_writable(uintptr_t page)
{
	static uint32_t nobody;
	int saved = errno;
	bool ok = sp_syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, page,
			     FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
		  errno != EFAULT;

	errno = saved;
	return ok;
}

static bool is_finished(const struct importer *m)
{
	return m->protected_from >= m->protected_to || !is_writable(m->protected_from);
}

static void replace(const struct importer *m, uintptr_t slot, const void *now, const void *next)
{
	uintptr_t page = slot & ~(m->page_size - 1);
	bool is_protected = slot >= m->protected_from && slot < m->protected_to;
	const void *_Atomic *word = (void *)slot;

	if (is_protected &&
	    sp_syscall(SYS_mprotect, page, m->page_size, PROT_READ | PROT_WRITE) != 0)
		return;
	(void)atomic_compare_exchange_strong_explicit(word, &now, next, memory_order_release,
						      memory_order_relaxed);
	if (is_protected)
		(void)sp_syscall(SYS_mprotect, page, m->page_size, PROT_READ);
}

static void offer(struct visit *v, const struct importer *m, const ElfW(Rela) * r, bool finished)
{
	unsigned type = (unsigned)ELF64_R_TYPE(r->r_info);
	const ElfW(Sym) *symbol = &m->tables.sym[ELF64_R_SYM(r->r_info)];
	uintptr_t slot = m->tables.base + r->r_offset;
	const char *name = m->tables.str + symbol->st_name;
	const void *now;
	const void *next;
	bool lazy;

	if ((type != TYPE_JUMP_SLOT && type != TYPE_GLOB_DAT && type != TYPE_ABS) ||
	    ELF64_R_SYM(r->r_info) == 0 || (type == TYPE_ABS && r->r_addend != 0) ||
	    slot % sizeof(void *) != 0)
		return;
	if (!finished) {
		v->complete = v->complete && v->choose(&m->range, name, NULL, true) == NULL;
		return;
	}
	now = atomic_load_explicit((const void *_Atomic *)slot, memory_order_relaxed);
	/*
	 * A slot that points into its own object, but not to the symbol, points into the PLT: the
	 * symbol is not bound yet.
	 */
	lazy = type == TYPE_JUMP_SLOT && sp_elf_within(&m->range, now) &&
	       (symbol->st_shndx == SHN_UNDEF ||
		(uintptr_t)now != m->tables.base + symbol->st_value);
	next = v->choose(&m->range, name, now, lazy);
	if (next != NULL && next != now)
		replace(m, slot, now, next);
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct visit *v = arg;
	struct importer m;
	bool finished;

	if (!read_importer(info, &m))
		return 0;
	finished = is_finished(&m);
	for (size_t i = 0; i < m.tables.jmprels; i++)
		offer(v, &m, &m.tables.jmprel[i], finished);
	for (size_t i = 0; i < m.tables.relas; i++)
		offer(v, &m, &m.tables.rela[i], finished);
	return 0;
}

bool sp_relocations_visit(sp_relocations_choose *choose)
{
	struct visit v = {.choose = choose, .complete = true};

	(void)sp_fork_barrier_walk(visit, &v);
	return v.complete;
}

struct reference {
	const struct sp_elf_range *object;
	const char *name;
	const void *found;
};

static int visit_reference(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct reference *want = arg;
	struct importer m;

	if (!read_importer(info, &m) || m.range.start != want->object->start)
		return 0;
	for (size_t i = 0; i < m.tables.relas; i++) {
		const ElfW(Rela) *r = &m.tables.rela[i];
		const ElfW(Sym) *symbol = &m.tables.sym[ELF64_R_SYM(r->r_info)];

		if (ELF64_R_TYPE(r->r_info) == TYPE_GLOB_DAT && ELF64_R_SYM(r->r_info) != 0 &&
		    strcmp(m.tables.str + symbol->st_name, want->name) == 0) {
			want->found = *(const void *const *)(m.tables.base + r->r_offset);
			break;
		}
	}
	return 1;
}

const void *sp_relocations_reference(const struct sp_elf_range *object, const char *name)
{
	struct reference want = {.object = object, .name = name};

	if (object->size != 0)
		(void)sp_fork_barrier_walk(visit_reference, &want);
	return want.found;
}

struct import {
	const void *address;
	const char *prefix;
	bool found;
};

static bool is_of(const struct sp_elf_tables *t, const ElfW(Rela) * r, const char *prefix)
{
	return strncmp(t->str + t->sym[ELF64_R_SYM(r->r_info)].st_name, prefix, strlen(prefix)) ==
	       0;
}

static int visit_import(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct import *want = arg;
	struct importer m;

	if (!read_importer(info, &m) || !sp_elf_within(&m.range, want->address))
		return 0;
	for (size_t i = 0; i < m.tables.jmprels && !want->found; i++)
		want->found = is_of(&m.tables, &m.tables.jmprel[i], want->prefix);
	for (size_t i = 0; i < m.tables.relas && !want->found; i++)
		want->found = is_of(&m.tables, &m.tables.rela[i], want->prefix);
	return 1;
}

bool sp_relocations_imports(const void *address, const char *prefix)
{
	struct import want = {.address = address, .prefix = prefix};

	(void)sp_fork_barrier_walk(visit_import, &want);
	return want.found;
}

static int visit_done(struct dl_phdr_info *info, size_t size SP_UNUSED, void *address)
{
	struct importer m;

	if (!read_importer(info, &m) || !sp_elf_within(&m.range, address))
		return 0;
	return is_finished(&m) ? 1 : 2;
}

bool sp_relocations_done(const void *address)
{
	return sp_fork_barrier_walk(visit_done, (void *)(uintptr_t)address) == 1;
}
