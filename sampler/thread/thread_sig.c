/* SPDX-License-Identifier: Apache-2.0 */
/* The thread facts that the signal handler needs: a thread's block, and its name in the kernel. */
#include "sampler/thread/thread.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

SP_TLS struct sp_thread *sp_thread_own;
SP_TLS bool sp_thread_excluded;
struct sp_thread_table sp_thread_table;

SP_SIGSAFE struct sp_thread *sp_thread_at(uint32_t index)
{
	struct sp_thread_table *t = &sp_thread_table;
	char *slab;

	/* pairs with sp_thread_claim(): the slab is mapped before the number of blocks is raised */
	if (index >= atomic_load_explicit(&t->used, memory_order_acquire) ||
	    index >= SP_THREADS_MAX)
		return NULL;
	slab = atomic_load_explicit(&t->slab[index / SP_THREAD_SLAB], memory_order_acquire);
	if (slab == NULL)
		return NULL;
	return (struct sp_thread *)(void *)(slab +
					    (size_t)(index % SP_THREAD_SLAB) * SP_THREAD_STRIDE);
}

SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES])
{
	/* The result if a seccomp filter refuses the call. */
	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)sp_syscall(SYS_prctl, (long)PR_GET_NAME, name);
}

/* False only if the kernel says that the thread has no list. */
static bool has_robust_list(long tid)
{
	const void *list = NULL;
	size_t size;

	return sp_syscall(SYS_get_robust_list, tid, &list, &size) != 0 || list != NULL;
}

/*
 * No system call shows whose storage a thread uses. But a thread of glibc has a list of robust
 * mutexes in the kernel before any function of the program runs in it (2.36: start_thread), and so
 * has the first thread; a thread of a raw clone() has no list. If not even the first thread has a
 * list, in a child of a raw fork or after that thread has ended, the list shows nothing, and all
 * threads count as having their own storage.
 */
SP_SIGSAFE bool sp_thread_has_storage(uint32_t tid)
{
	int saved = errno;
	bool has = has_robust_list((long)tid) || !has_robust_list(sp_syscall(SYS_getpid));

	errno = saved;
	return has;
}
