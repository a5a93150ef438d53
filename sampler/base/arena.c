/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous mappings for the core's tables. Context: APP (activation). */
#include "sampler/base/arena.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"

void *sp_arena_map(size_t size)
{
	int saved = errno;
	long at = sp_syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, (off_t)0);

	/*
	 * Our tables are large and mostly empty. If the kernel gives huge pages to all mappings,
	 * one touched entry would take 2 MiB. A kernel without huge pages refuses the advice, which
	 * does no harm.
	 */
	if (at != -1)
		(void)sp_syscall(SYS_madvise, (void *)at, size, (long)MADV_NOHUGEPAGE);
	errno = saved;
	return at == -1 ? NULL : (void *)at;
}

void sp_arena_unmap(void *base, size_t size)
{
	int saved = errno;

	(void)sp_syscall(SYS_munmap, base, size);
	errno = saved;
}

/*
 * No part of the region is larger than this share of the address space. Our other memory is mapped
 * in small pieces.
 */
#define SHARES 32U

uint64_t sp_arena_share(uint64_t most)
{
	struct rlimit limit;

	if (sp_syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur / SHARES > most)
		return most;
	return limit.rlim_cur / SHARES;
}

void sp_arena_wipe(void *base, size_t size)
{
	int saved = errno;

	if (base != NULL)
		(void)sp_syscall(SYS_madvise, base, size, (long)MADV_DONTNEED);
	errno = saved;
}
