/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves the table of rows. Context: APP, at activation. */
#include "sampler/row_cache.h"

#include <errno.h>
#include <stddef.h>

#include "sampler/arena.h"

int sp_row_cache_init(void)
{
	struct sp_row_set *sets;

	if (atomic_load_explicit(&sp_row_sets, memory_order_relaxed) != NULL)
		return 0;
	sets = sp_arena_map(SP_ROW_CACHE_SETS * sizeof(*sets));
	if (sets == NULL)
		return -ENOMEM;
	/* pairs with the acquire in sp_row_cache() */
	atomic_store_explicit(&sp_row_sets, sets, memory_order_release);
	return 0;
}
