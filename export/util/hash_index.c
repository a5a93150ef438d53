/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing and linear probing. The hashes are stored beside the numbers,
 * so that growing needs nothing of the items, and items with another hash are not compared.
 */
#include "export/util/hash_index.h"

#include <stdlib.h>
#include <string.h>

#define SP_HASH_SLOTS 512U

/* There is always a free slot. */
static void insert(struct sp_hash_index *x, struct sp_hash_slot s)
{
	uint32_t at = s.hash & (x->slots - 1);

	while (x->slot[at].item != 0)
		at = (at + 1) & (x->slots - 1);
	x->slot[at] = s;
	x->n++;
}

static bool grow(struct sp_hash_index *x)
{
	struct sp_hash_index bigger = {.slots = x->slots != 0 ? x->slots * 2 : SP_HASH_SLOTS};

	/* Twice the largest power of two is none. */
	if (bigger.slots != 0)
		bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (bigger.slot == NULL)
		return false;
	for (uint32_t i = 0; i < x->slots; i++)
		if (x->slot[i].item != 0)
			insert(&bigger, x->slot[i]);
	free(x->slot);
	*x = bigger;
	return true;
}

bool sp_hash_index_put(struct sp_hash_index *x, uint32_t hash, uint32_t item)
{
	if (item == UINT32_MAX || (x->n >= x->slots / 2 && !grow(x)))
		return false;
	insert(x, (struct sp_hash_slot){hash, item + 1});
	return true;
}

void sp_hash_index_clear(struct sp_hash_index *x)
{
	if (x->slot != NULL)
		memset(x->slot, 0, sp_hash_index_bytes(x));
	x->n = 0;
}

void sp_hash_index_fini(struct sp_hash_index *x)
{
	free(x->slot);
	*x = (struct sp_hash_index){0};
}
