/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves the table of rows. Context: APP, at activation. */
#include "sampler/row_cache.h"

#include <errno.h>
#include <stddef.h>

#include "sampler/arena.h"

int sp_row_cache_init(void)
{
	struct sp_row_slot *slots;

	if (atomic_load_explicit(&sp_row_slots, memory_order_relaxed) != NULL)
		return 0;
	slots = sp_arena_map(SP_ROW_CACHE_SLOTS * sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	/* pairs with the acquire in sp_row_ways() */
	atomic_store_explicit(&sp_row_slots, slots, memory_order_release);
	return 0;
}
