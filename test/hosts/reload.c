/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a library, works in it, unloads it, and goes on with the next library. So most libraries come and go between
 * two readings of the mappings, and a library gets the addresses of an earlier one. Prints how often a library began
 * at the address of the library before it. In the first round each library stays longer, so that a reading of the
 * mappings shows it. Usage: reload ROUNDS MS FIRST_MS LIBRARY...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "test/hosts/host.h"

#define KINDS 4

/* Each library has its own caller, so that a stack shows the library. */
#define CALLER(name)                                                                               \
	__attribute__((noinline)) static void name(void (*burn)(int), int ms)                      \
	{                                                                                          \
		burn(ms);                                                                          \
		__asm__ volatile("" ::: "memory");                                                 \
	}

CALLER(in_library_a)
CALLER(in_library_b)
CALLER(in_library_c)
CALLER(in_library_d)

static void (*const caller[KINDS])(void (*burn)(int), int ms) = {in_library_a, in_library_b,
								 in_library_c, in_library_d};

static uintptr_t begin_of(void *handle)
{
	struct link_map *map = NULL;

	HOST_CHECK(dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0);
	return map->l_addr;
}

/* Returns the address of the library. */
static uintptr_t visit(const char *path, int kind, int ms)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	uintptr_t at;
	void (*burn)(int);

	if (handle == NULL)
		fprintf(stderr, "%s\n", dlerror());
	HOST_CHECK(handle != NULL);
	burn = (void (*)(int))dlsym(handle, "burn");
	HOST_CHECK(burn != NULL);
	at = begin_of(handle);
	caller[kind](burn, ms);
	HOST_CHECK(dlclose(handle) == 0);
	return at;
}

int main(int argc, char **argv)
{
	int rounds = argc > 4 ? atoi(argv[1]) : 0;
	int libraries = argc - 4 < KINDS ? argc - 4 : KINDS;
	uintptr_t last = 0;
	unsigned reused = 0;

	for (int i = 0; i < rounds * libraries; i++) {
		uintptr_t at = visit(argv[4 + i % libraries], i % libraries,
				     atoi(argv[i < libraries ? 3 : 2]));

		reused += at <= last && last - at < 0x100000;
		last = at;
	}
	printf("reused %u\n", reused);
	return 21;
}
