/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the thread table that the signal handler reads. */
#include "sampler/thread_table.h"

#include <stddef.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

SP_TLS struct sp_thread *sp_thread_own;
SP_TLS bool sp_thread_excluded;
struct sp_thread_table sp_thread_table;

SP_SIGSAFE struct sp_thread *sp_thread_at(uint32_t index)
{
	struct sp_thread_table *t = &sp_thread_table;
	/* pairs with the release in sp_thread_init() */
	char *base = atomic_load_explicit(&t->blocks, memory_order_acquire);

	if (base == NULL || index >= atomic_load_explicit(&t->used, memory_order_acquire))
		return NULL;
	return (struct sp_thread *)(void *)(base + (size_t)index * SP_THREAD_STRIDE);
}
