/* SPDX-License-Identifier: Apache-2.0 */
/* Finds each real function once. Context: APP. */
#include "preload/elf/resolve.h"

#include <stdatomic.h>
#include <stddef.h>

#include "preload/elf/elf_walk.h"
#include "sampler/base/compiler.h"

#define NAME_(sym) #sym,
static const char *const names[SP_NEXT_N] = {SP_FOR_EACH_NEXT(NAME_)};
static void *_Atomic cache[SP_NEXT_N];

const char *sp_next_name(enum sp_next which)
{
	return names[which];
}

void *sp_resolve(const char *name)
{
	return sp_elf_find(name, NULL);
}

void *sp_next(enum sp_next which)
{
	/* Two threads may search at the same time; both find the same address. */
	void *p = atomic_load_explicit(&cache[which], memory_order_relaxed);

	if (p == NULL) {
		p = sp_resolve(names[which]);
		atomic_store_explicit(&cache[which], p, memory_order_relaxed);
	}
	return p;
}

void sp_next_sdk(const struct sp_elf_range *object, void *found[SP_NEXT_SDK_N])
{
	sp_elf_find_each(object, names, found, SP_NEXT_SDK_N);
	sp_elf_find_each(NULL, names, found, SP_NEXT_SDK_N);
}

void *sp_next_known(enum sp_next which)
{
	return atomic_load_explicit(&cache[which], memory_order_relaxed);
}

void sp_next_early(void)
{
	void *found[SP_NEXT_N - SP_NEXT_SDK_N] = {NULL};

	sp_elf_find_each(NULL, &names[SP_NEXT_SDK_N], found, SP_ARRAY_LEN(found));
	for (unsigned i = 0; i < SP_ARRAY_LEN(found); i++)
		atomic_store_explicit(&cache[SP_NEXT_SDK_N + i], found[i], memory_order_relaxed);
}
