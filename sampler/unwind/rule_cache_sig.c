/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores rules in the rule cache.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/rule_cache.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_rule_set *_Atomic sp_rule_sets;

/* An empty slot, or else either of the two: a slot does not record how often it is used. */
static struct sp_rule_slot *victim(struct sp_rule_set *set)
{
	uint64_t first = atomic_load_explicit(&set->way[0].folded, memory_order_relaxed);
	uint64_t second = atomic_load_explicit(&set->way[1].folded, memory_order_relaxed);

	if (first == 0 || second == 0)
		return &set->way[first != 0];
	return &set->way[(first ^ second) >> 32 & 1];
}

SP_SIGSAFE void sp_rule_cache_keep(uintptr_t pc, uint64_t identity,
				   const struct sp_compact_rule *rule)
{
	struct sp_rule_set *sets = sp_rule_cache();
	uint64_t hash = sp_rule_hash(pc);
	struct sp_rule_slot *s;

	if (sets == NULL)
		return;
	s = victim(sp_rule_set_of(sets, hash));
	for (unsigned i = 0; i < SP_COMPACT_RULE_WORDS; i++)
		atomic_store_explicit(&s->word[i], rule->word[i], memory_order_relaxed);
	atomic_store_explicit(&s->folded, sp_rule_fold(hash ^ identity, rule),
			      memory_order_relaxed);
}
