/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind finds objects with dl_iterate_phdr, which takes a lock of the dynamic loader. The
 * handler interrupts the loader itself between any two instructions, so this program brings its
 * own dl_iterate_phdr: during a walk it answers from _dl_find_object, otherwise it passes through.
 */
#include "test/step/reference.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define SYMBOL(name) STRING(name)

typedef int iterate_fn(struct dl_phdr_info *info, size_t size, void *data);

static __typeof__(&unw_init_local2) init_local2;
static __typeof__(&unw_step) step;
static __typeof__(&unw_get_reg) get_reg;
static int (*next_iterate)(iterate_fn *fn, void *data);
/* The pc that libunwind is about to look up; 0 outside of a walk. */
static uintptr_t walking_pc;

__attribute__((visibility("default"))) int dl_iterate_phdr(iterate_fn *fn, void *data)
{
	struct dl_find_object found;
	struct dl_phdr_info info;
	const ElfW(Ehdr) * elf;

	if (walking_pc == 0) {
		if (next_iterate == NULL)
			*(void **)&next_iterate = dlsym(RTLD_NEXT, "dl_iterate_phdr");
		return next_iterate(fn, data);
	}
	/* libunwind looks up pc or pc - 1, which are both in one object. */
	if (_dl_find_object((void *)(walking_pc - 1), &found) != 0)
		return 0;
	elf = found.dlfo_map_start;
	memset(&info, 0, sizeof(info));
	info.dlpi_addr = found.dlfo_link_map->l_addr;
	info.dlpi_name = found.dlfo_link_map->l_name;
	info.dlpi_phdr = (const void *)((const char *)elf + elf->e_phoff);
	info.dlpi_phnum = elf->e_phnum;
	info.dlpi_adds = 1;
	return fn(&info, sizeof(info), data);
}

int reference_init(void)
{
	void *lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	__typeof__(&unw_set_caching_policy) set_caching;
	unw_addr_space_t *space;

	if (lib == NULL) {
		fprintf(stderr, "reference: %s\n", dlerror());
		return -1;
	}
	*(void **)&init_local2 = dlsym(lib, SYMBOL(unw_init_local2));
	*(void **)&step = dlsym(lib, SYMBOL(unw_step));
	*(void **)&get_reg = dlsym(lib, SYMBOL(unw_get_reg));
	*(void **)&set_caching = dlsym(lib, SYMBOL(unw_set_caching_policy));
	space = dlsym(lib, SYMBOL(unw_local_addr_space));
	if (!init_local2 || !step || !get_reg || !set_caching || !space) {
		fprintf(stderr, "reference: libunwind.so.8 lacks a symbol\n");
		return -1;
	}
	/* Workloads load and unload libraries, and libunwind's cache never forgets. */
	set_caching(*space, UNW_CACHE_NONE);
	return 0;
}

unsigned reference_walk(const void *ucontext, uint64_t *pc, unsigned max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unsigned n = 0;
	unw_word_t ip;

	memcpy(&context, ucontext, sizeof(context));
	if (init_local2(&cursor, &context, UNW_INIT_SIGNAL_FRAME) != 0)
		return 0;
	do {
		if (n == max || get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0)
			break;
		pc[n++] = ip;
		/* A leaf may be at its object's first byte; callers never are. */
		walking_pc = n == 1 ? ip + 1 : ip;
	} while (step(&cursor) > 0);
	walking_pc = 0;
	return n;
}
