/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces functions in the SDK's vtables, which the loader has made read-only. INIT and APP
 * context.
 */
#define _GNU_SOURCE
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/try_lock.h"

static struct sp_try_lock busy;

/* Where a word lies. */
struct place {
	uintptr_t address;
	bool found;      /* in a segment */
	bool executable; /* which has code in it */
	bool readonly;   /* and which is only read, or the page is so since it was relocated */
};

/* The loader protects whole pages: those that end with the segment, or before it does. */
static bool is_protected(uintptr_t address, uintptr_t base, const ElfW(Phdr) * p)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t end = base + p->p_vaddr + p->p_memsz;

	return (address & ~(page_size - 1)) + page_size <= end;
}

static bool within(uintptr_t address, uintptr_t base, const ElfW(Phdr) * p)
{
	return address - base - p->p_vaddr < p->p_memsz;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct place *place = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (!within(place->address, info->dlpi_addr, p))
			continue;
		if (p->p_type == PT_LOAD) {
			place->found = true;
			place->executable = (p->p_flags & PF_X) != 0;
			place->readonly = place->readonly || (p->p_flags & PF_W) == 0;
		}
		if (p->p_type == PT_GNU_RELRO && is_protected(place->address, info->dlpi_addr, p))
			place->readonly = true;
	}
	return place->found;
}

/*
 * Under a lock: two slots may lie in one page, and one thread must not write what another has just
 * protected again.
 */
static bool put(const struct place *place, const void *function)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)(place->address & ~(page_size - 1));
	const void *_Atomic *word = (void *)place->address;
	bool done;

	if (!sp_try_lock(&busy))
		return false;
	done = !place->readonly ||
	       sp_syscall(SYS_mprotect, page, page_size, PROT_READ | PROT_WRITE) == 0;
	if (done) {
		atomic_store_explicit(word, function, memory_order_release);
		if (place->readonly)
			(void)sp_syscall(SYS_mprotect, page, page_size, PROT_READ);
	}
	sp_unlock(&busy);
	return done;
}

bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function)
{
	struct place place = {.address = (uintptr_t)slot};
	bool done;

	(void)sp_fork_barrier_walk(visit, &place);
	if (!place.found || (place.executable && place.readonly))
		return false;
	/* A child that is forked meanwhile would have the page writable, and the lock held. */
	sp_fork_barrier_enter();
	done = put(&place, function);
	sp_fork_barrier_leave();
	return done;
}
