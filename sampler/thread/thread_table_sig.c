/* SPDX-License-Identifier: Apache-2.0 */
/* What the signal handler asks of a thread: its block, and its name in the kernel. */
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

	/* pairs with sp_thread_claim(): the slab before the number of blocks that are handed out */
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

/* Unless the kernel says that it has none. */
static bool has_robust_list(long tid)
{
	const void *list = NULL;
	size_t size;

	return sp_syscall(SYS_get_robust_list, tid, &list, &size) != 0 || list != NULL;
}

/*
 * No system call tells whose storage a thread uses, but glibc (2.36: start_thread) gives the kernel a list of robust
 * mutexes for each thread that it makes, before any function of the program's runs there, as for the first one, and
 * a new thread has none. Where not even the first thread has a list, this tells nothing, and all count as threads
 * with their own storage: in a child of a raw fork, or once that thread has ended.
 */
SP_SIGSAFE bool sp_thread_has_storage(uint32_t tid)
{
	int saved = errno;
	bool has = has_robust_list((long)tid) || !has_robust_list(sp_syscall(SYS_getpid));

	errno = saved;
	return has;
}
