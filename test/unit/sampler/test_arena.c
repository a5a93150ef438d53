/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's information about our tables. */
#include "sampler/base/arena.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test/unit/emulated.h"

#define BYTES ((size_t)8 << 20)

TestSuite(arena, .timeout = 20);

/* The flags in /proc/self/smaps of the mapping at that address. */
static void flags_at(const void *at, char line[256])
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char start[32];
	bool is_there = false;

	cr_assert_not_null(f);
	(void)snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)at);
	while (fgets(line, 256, f) != NULL) {
		is_there |= strncmp(line, start, strlen(start)) == 0;
		if (is_there && strncmp(line, "VmFlags:", 8) == 0)
			break;
	}
	(void)fclose(f);
	cr_assert(is_there);
}

/* If the kernel uses huge pages for all mappings, each touched entry of a table would take 2 MiB. */
Test(arena, maps_memory_without_huge_pages)
{
	char line[256];
	void *at;

	if (emulated())
		cr_skip_test("the mappings are the emulator's");
	errno = 4711;
	at = sp_arena_map(BYTES);
	cr_assert_eq(errno, 4711);
	cr_assert_not_null(at);
	flags_at(at, line);
	cr_assert_not_null(strstr(line, " nh"), "%s", line);
	sp_arena_unmap(at, BYTES);
}
