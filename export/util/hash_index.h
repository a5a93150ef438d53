/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of the numbers of items. The items are in an array of the caller, who computes the
 * hash of an item and compares items with the same hash:
 *
 *	for (uint32_t step = 0; sp_hash_index_next(&x, hash, &step, &i);)
 *		if (is_it(&item[i], key))
 *			return i;
 *
 * Items stay until all are forgotten. Bounded only by the caller's array.
 */
#ifndef SP_HASH_INDEX_H
#define SP_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sp_hash_slot {
	uint32_t hash;
	uint32_t item; /* plus 1; 0 = free */
};

/* Zero it at first use. */
struct sp_hash_index {
	struct sp_hash_slot *slot;
	uint32_t slots; /* 0 or a power of two, at most half used */
	uint32_t n;
};

/* Adds a word to a hash, which begins with any number. Its lower 32 bits may be used alone. */
static inline uint64_t sp_hash_add(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* The bytes of a text or a record. */
static inline uint64_t sp_hash_add_bytes(uint64_t h, const void *bytes, size_t len)
{
	const char *at = bytes;
	uint64_t word = 0;

	h = sp_hash_add(h, len);
	for (; len >= sizeof(word); at += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		h = sp_hash_add(h, word);
	}
	word = 0;
	memcpy(&word, at, len);
	return sp_hash_add(h, word);
}

/* The next item with this hash; *step is 0 at first. False when there is none. */
static inline bool sp_hash_index_next(const struct sp_hash_index *x, uint32_t hash, uint32_t *step,
				      uint32_t *item)
{
	while (x->slots != 0) {
		const struct sp_hash_slot *s = &x->slot[(hash + (*step)++) & (x->slots - 1)];

		*item = s->item - 1;
		if (s->item == 0 || s->hash == hash)
			return s->item != 0;
	}
	return false;
}

/* Adds an item, whether or not an equal one is there. False, and nothing changed, when out of memory. */
bool sp_hash_index_put(struct sp_hash_index *x, uint32_t hash, uint32_t item);

/* Forgets all items, and keeps the memory. */
void sp_hash_index_clear(struct sp_hash_index *x);
void sp_hash_index_fini(struct sp_hash_index *x);

/* Memory in use. */
static inline size_t sp_hash_index_bytes(const struct sp_hash_index *x)
{
	return x->slots * sizeof(*x->slot);
}

#endif
