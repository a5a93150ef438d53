/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves the rule cache. Context: APP, at activation. */
#include "sampler/unwind/rule_cache.h"

#include <errno.h>
#include <stddef.h>

#include "sampler/base/arena.h"

int sp_rule_cache_init(void)
{
	struct sp_rule_set *sets;

	if (atomic_load_explicit(&sp_rule_sets, memory_order_relaxed) != NULL)
		return 0;
	sets = sp_arena_map(SP_RULE_CACHE_SETS * sizeof(*sets));
	if (sets == NULL)
		return -ENOMEM;
	/* pairs with the acquire in sp_rule_cache() */
	atomic_store_explicit(&sp_rule_sets, sets, memory_order_release);
	return 0;
}
