/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping rows.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/row_cache.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_row_set *_Atomic sp_row_sets;

/* An empty slot, or else one of the two without regard: what is in them says nothing of their use. */
static struct sp_row_slot *victim(struct sp_row_set *set)
{
	uint64_t first = atomic_load_explicit(&set->way[0].folded, memory_order_relaxed);
	uint64_t second = atomic_load_explicit(&set->way[1].folded, memory_order_relaxed);

	if (first == 0 || second == 0)
		return &set->way[first != 0];
	return &set->way[(first ^ second) >> 32 & 1];
}

SP_SIGSAFE void sp_row_cache_keep(uintptr_t pc, uint64_t identity, const struct sp_short_row *row)
{
	struct sp_row_set *sets = sp_row_cache();
	uint64_t hash = sp_row_hash(pc);
	struct sp_row_slot *s;

	if (sets == NULL)
		return;
	s = victim(sp_row_set_of(sets, hash));
	for (unsigned i = 0; i < SP_SHORT_ROW_WORDS; i++)
		atomic_store_explicit(&s->word[i], row->word[i], memory_order_relaxed);
	atomic_store_explicit(&s->folded, sp_row_fold(hash ^ identity, row), memory_order_relaxed);
}
