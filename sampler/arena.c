/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous mappings for the core's tables. Contexts: APP (activation), BG. */
#include "sampler/arena.h"

#include <errno.h>
#include <sys/mman.h>

void *sp_arena_map(size_t size)
{
	int saved = errno;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

void sp_arena_wipe(void *base, size_t size)
{
	int saved = errno;

	if (base != NULL)
		(void)madvise(base, size, MADV_DONTNEED);
	errno = saved;
}
