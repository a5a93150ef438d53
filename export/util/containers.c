/* SPDX-License-Identifier: Apache-2.0 */
#include "export/util/containers.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An array begins with about a page and is then doubled. */
#define SP_GROW_BYTES ((size_t)4096)
#define SP_GROW_ITEMS ((size_t)16)

bool sp_grow(void *array, size_t *cap, size_t want, size_t most, size_t size)
{
	size_t first = SP_GROW_BYTES / size > SP_GROW_ITEMS ? SP_GROW_BYTES / size : SP_GROW_ITEMS;
	size_t bigger;
	void *old, *more;

	if (want <= *cap)
		return true;
	if (most > (size_t)PTRDIFF_MAX / size)
		most = (size_t)PTRDIFF_MAX / size;
	if (want > most)
		return false;
	bigger = *cap < most / 2 ? *cap * 2 : most;
	if (bigger < first)
		bigger = first < most ? first : most;
	if (bigger < want)
		bigger = want;
	/*
	 * The pointer is copied, because the aliasing rules forbid to access a pointer of another type as void
	 * pointer.
	 */
	memcpy(&old, array, sizeof(old));
	more = realloc(old, bigger * size);
	if (more == NULL)
		return false;
	memcpy(array, &more, sizeof(more));
	*cap = bigger;
	return true;
}

size_t sp_sorted_upto(const void *array, size_t n, size_t size, size_t key, uint64_t value)
{
	size_t low = 0;

	for (size_t high = n; low < high;) {
		size_t mid = low + (high - low) / 2;
		uint64_t at;

		memcpy(&at, (const char *)array + mid * size + key, sizeof(at));
		if (at <= value)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/*
 * The hash table has open addressing and linear probing. The table stores each hash beside the item's number. So it
 * can grow without reading the items, and only items with the same hash are compared.
 */
#define SP_HASH_SLOTS 512U

/* A longer row of used slots exists only if an attacker has chosen the hashes. */
#define SP_HASH_ROW_MAX 4096U

/*
 * The table always has a free slot. False if the free slot is further than `most` from the first slot for this hash.
 */
static bool insert(struct sp_hash_index *x, struct sp_hash_slot s, uint32_t most)
{
	uint32_t at = s.hash & (x->slots - 1);

	for (uint32_t row = 0; x->slot[at].item != 0; row++) {
		if (row == most)
			return false;
		at = (at + 1) & (x->slots - 1);
	}
	x->slot[at] = s;
	x->n++;
	return true;
}

static bool grow(struct sp_hash_index *x)
{
	struct sp_hash_index bigger = {.slots = x->slots != 0 ? x->slots * 2 : SP_HASH_SLOTS};

	/* The largest power of two doubled is 0. */
	if (bigger.slots != 0)
		bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (bigger.slot == NULL)
		return false;
	for (uint32_t i = 0; i < x->slots; i++)
		if (x->slot[i].item != 0)
			(void)insert(&bigger, x->slot[i], UINT32_MAX);
	free(x->slot);
	*x = bigger;
	return true;
}

bool sp_hash_index_put(struct sp_hash_index *x, uint32_t hash, uint32_t item)
{
	return item != UINT32_MAX && (x->n < x->slots / 2 || grow(x)) &&
	       insert(x, (struct sp_hash_slot){hash, item + 1}, SP_HASH_ROW_MAX);
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

#define SP_POOL_CHUNK ((size_t)64 * 1024)

struct sp_pool_chunk {
	struct sp_pool_chunk *next;
	size_t used;
	size_t size;
	alignas(max_align_t) unsigned char bytes[];
};

static struct sp_pool_chunk *chunk_new(struct sp_pool *p, size_t size)
{
	size_t room = size > SP_POOL_CHUNK ? size : SP_POOL_CHUNK;
	struct sp_pool_chunk *c = calloc(1, sizeof(*c) + room);

	if (c == NULL)
		return NULL;
	c->size = room;
	c->next = p->top;
	p->top = c;
	p->bytes += sizeof(*c) + room;
	return c;
}

void *sp_pool_get(struct sp_pool *p, size_t size)
{
	struct sp_pool_chunk *c = p->top;
	void *got;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (c == NULL || c->size - c->used < size)
		c = chunk_new(p, size);
	if (c == NULL)
		return NULL;
	got = c->bytes + c->used;
	c->used += size;
	return got;
}

void sp_pool_fini(struct sp_pool *p)
{
	while (p->top != NULL) {
		struct sp_pool_chunk *c = p->top;

		p->top = c->next;
		free(c);
	}
	p->bytes = 0;
}

/*
 * Each profile has such a table of texts. The server searches label keys by the first or by the last equal string,
 * depending on the code path, so each text must be in the table exactly once.
 */
static uint32_t hash(const char *s, size_t len)
{
	return (uint32_t)sp_hash_add_bytes(0, s, len);
}

const char *sp_strtab_get(const struct sp_strtab *t, uint32_t id, size_t *len)
{
	*len = t->offset[id + 1] - t->offset[id] - 1;
	return t->bytes + t->offset[id];
}

static bool find(const struct sp_strtab *t, uint32_t h, const char *s, size_t len, uint32_t *id)
{
	for (uint32_t step = 0; sp_hash_index_next(&t->by_text, h, &step, id);) {
		size_t have;
		const char *text = sp_strtab_get(t, *id, &have);

		if (have == len && memcmp(text, s, len) == 0)
			return true;
	}
	return false;
}

bool sp_strtab_find(const struct sp_strtab *t, const char *s, size_t len, uint32_t *id)
{
	return find(t, hash(s, len), s, len, id);
}

int sp_strtab_put(struct sp_strtab *t, const char *s, size_t len, uint32_t *id)
{
	uint32_t h = hash(s, len);

	if (find(t, h, s, len, id))
		return 0;
	if (!SP_GROW(t->offset, t->offset_cap, (size_t)t->n + 2, SIZE_MAX) ||
	    !SP_GROW(t->bytes, t->cap, t->used + len + 1, SIZE_MAX) ||
	    !sp_hash_index_put(&t->by_text, h, t->n))
		return -ENOMEM;
	t->offset[t->n] = t->used;
	memcpy(t->bytes + t->used, s, len);
	t->bytes[t->used + len] = '\0';
	t->used += len + 1;
	*id = t->n++;
	t->offset[t->n] = t->used;
	return 0;
}

void sp_strtab_cut(struct sp_strtab *t, uint32_t n)
{
	t->n = n;
	t->used = t->offset[n];
}

int sp_strtab_init(struct sp_strtab *t)
{
	uint32_t empty;

	memset(t, 0, sizeof(*t));
	return sp_strtab_put(t, "", 0, &empty);
}

void sp_strtab_fini(struct sp_strtab *t)
{
	sp_hash_index_fini(&t->by_text);
	free(t->offset);
	free(t->bytes);
	memset(t, 0, sizeof(*t));
}
