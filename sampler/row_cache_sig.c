/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping rows.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/row_cache.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_row_slot *_Atomic sp_row_slots;

/* An empty slot, an outdated row of the same pc, or else the one that was written less often. */
static struct sp_row_slot *victim(struct sp_row_slot *s, uintptr_t pc)
{
	struct sp_row_slot *least = s;

	for (unsigned i = 0; i < SP_ROW_CACHE_WAYS; i++) {
		uint64_t there = atomic_load_explicit(&s[i].pc, memory_order_relaxed);

		if (there == 0 || there == pc)
			return &s[i];
		if (atomic_load_explicit(&s[i].version, memory_order_relaxed) <
		    atomic_load_explicit(&least->version, memory_order_relaxed))
			least = &s[i];
	}
	return least;
}

SP_SIGSAFE void sp_row_cache_keep(uintptr_t pc, uint64_t identity, const struct sp_short_row *row)
{
	struct sp_row_slot *s = sp_row_ways(pc);
	uint64_t word[SP_ROW_WORDS];
	uint64_t version;

	if (s == NULL)
		return;
	s = victim(s, pc);
	version = atomic_load_explicit(&s->version, memory_order_relaxed);
	if ((version & 1) != 0 ||
	    !atomic_compare_exchange_strong_explicit(&s->version, &version, version + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	__builtin_memcpy(word, row, sizeof(*row));
	/* Release orders each of them after the odd version; pairs with the acquires of a reader. */
	atomic_store_explicit(&s->pc, pc, memory_order_release);
	atomic_store_explicit(&s->identity, identity, memory_order_release);
	for (unsigned i = 0; i < SP_ROW_WORDS; i++)
		atomic_store_explicit(&s->word[i], word[i], memory_order_release);
	atomic_store_explicit(&s->version, version + 2, memory_order_release);
}
