/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow, search in sorted arrays, hash tables, tables of texts, and memory in many small pieces.
 * Contexts: the exporter, and spanprof-report.
 */
#ifndef SP_CONTAINERS_H
#define SP_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Makes room for `want` items in an array of malloc'ed memory (NULL at first) that has room for `cap`, a size_t,
 * which never becomes more than `most`. Doubles, so that adding one by one stays cheap. New items are not zeroed.
 * False when out of memory or when `want` is over `most`; the array is unchanged then.
 */
#define SP_GROW(array, cap, want, most)                                                            \
	sp_grow((void *)&(array), &(cap), (want), (most), sizeof(*(array)))

/* As SP_GROW, with the address of the array pointer and the size of an item. */
bool sp_grow(void *array, size_t *cap, size_t want, size_t most, size_t size);

/*
 * Searches an array that is sorted by a uint64_t in each item, such as a start address. Returns the
 * number of items whose key is at most value. Only the last of these items may contain value; the
 * next item begins behind value. array may be NULL if n is 0.
 */
#define SP_SORTED_UPTO(array, n, key, value)                                                       \
	sp_sorted_upto((array), (n), sizeof(*(array)), offsetof(__typeof__(*(array)), key), (value))

/* As SP_SORTED_UPTO, with the size of an item and the offset of its key. */
size_t sp_sorted_upto(const void *array, size_t n, size_t size, size_t key, uint64_t value);

/*
 * A hash table of item numbers. The items are in an array of the caller. The caller computes the hash of an item and
 * compares items that have the same hash:
 *
 *	for (uint32_t step = 0; sp_hash_index_next(&x, hash, &step, &i);)
 *		if (is_it(&item[i], key))
 *			return i;
 *
 * Single items cannot be removed. Only the caller's array bounds the table.
 */

struct sp_hash_slot {
	uint32_t hash;
	uint32_t item; /* plus 1; 0 = free */
};

/* Must be zeroed before the first use. */
struct sp_hash_index {
	struct sp_hash_slot *slot;
	uint32_t slots; /* 0 or a power of two, at most half used */
	uint32_t n;
};

/* Adds a word to a hash. The hash may begin with any number, and its lower 32 bits may be used alone. */
static inline uint64_t sp_hash_add(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* Adds the bytes of a text or a record. */
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

/* Finds the next item with this hash; *step is 0 at first. False when there is none. */
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

/*
 * Adds an item, even if an equal item is there. False if memory is short, or if thousands of items have that hash,
 * because each search would pass all of them; the table is unchanged then.
 */
bool sp_hash_index_put(struct sp_hash_index *x, uint32_t hash, uint32_t item);

/* Forgets all items, and keeps the memory. */
void sp_hash_index_clear(struct sp_hash_index *x);
void sp_hash_index_fini(struct sp_hash_index *x);

/* Memory in use. */
static inline size_t sp_hash_index_bytes(const struct sp_hash_index *x)
{
	return x->slots * sizeof(*x->slot);
}

/* A bump allocator: many small zeroed pieces with stable addresses, freed together. */

struct sp_pool_chunk;

/* Must be zeroed before the first use. */
struct sp_pool {
	struct sp_pool_chunk *top;
	size_t bytes; /* taken from malloc so far */
};

/* Zeroed memory, aligned for any type; NULL when out of memory. */
void *sp_pool_get(struct sp_pool *p, size_t size);

void sp_pool_fini(struct sp_pool *p);

/* Interned strings with dense ids in the order in which they were added; id 0 is always "". */

struct sp_strtab {
	char *bytes; /* NUL-terminated texts, one after the other */
	size_t used;
	size_t cap;
	size_t *offset; /* of each text; n + 1 entries are valid */
	uint32_t n;
	size_t offset_cap;
	struct sp_hash_index by_text;
};

/* 0 or -ENOMEM; sp_strtab_fini() may follow in both cases. */
int sp_strtab_init(struct sp_strtab *t);
void sp_strtab_fini(struct sp_strtab *t);

/* The id of a text, if it is there. */
bool sp_strtab_find(const struct sp_strtab *t, const char *s, size_t len, uint32_t *id);

/*
 * The id of a text, which is added if it is missing. A text that is read as a C string must hold no NUL. 0 or
 * -ENOMEM.
 */
int sp_strtab_put(struct sp_strtab *t, const char *s, size_t len, uint32_t *id);

/* Removes every id >= n. No text may be added afterwards. */
void sp_strtab_cut(struct sp_strtab *t, uint32_t n);

/* Memory in use. */
static inline size_t sp_strtab_bytes(const struct sp_strtab *t)
{
	return t->cap + t->offset_cap * sizeof(*t->offset) + sp_hash_index_bytes(&t->by_text);
}

const char *sp_strtab_get(const struct sp_strtab *t, uint32_t id, size_t *len);

#endif
