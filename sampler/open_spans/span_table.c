/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of open spans (span_table.h). Threads start and end spans all the time and must not
 * wait for each other, so the table has no locks. An entry belongs to the thread that took it from
 * the free ones until its two index words are published. It is freed by the one caller that sets
 * its id index word back to 0. Readers copy the record and check the key again afterwards.
 *
 * Context: APP, any number of threads.
 */
#include "sampler/open_spans/span_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_free_list.h"
#include "sampler/open_spans/span_index.h"
#include "sampler/open_spans/span_keys.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table_sig.h"

#define INDEX_SIZE (SP_SPAN_INDEX_LINES * sizeof(struct sp_span_line))

/* Where the keys of each index begin in it. */
#define BY_ID SP_SPAN_INDEX_IN_FRONT
#define BY_HANDLE SP_SPAN_INDEX_AT_BACK

struct table {
	struct sp_span_line *by_id;
	struct sp_span_line *by_handle;
	bool ready;
};
static struct table table;

int sp_span_table_init(void)
{
	struct sp_span_words *words;
	_Atomic uint64_t *noted;

	if (table.ready)
		return 0;
	words = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*words));
	table.by_id = sp_arena_map(INDEX_SIZE);
	table.by_handle = sp_arena_map(INDEX_SIZE);
	noted = sp_arena_map((size_t)SP_SPAN_NOTES * SP_SPANS_MAX * sizeof(*noted));
	if (words == NULL || noted == NULL || table.by_id == NULL || table.by_handle == NULL ||
	    sp_span_free_list_init() != 0)
		return -ENOMEM;
	/* both pair with the acquires in span_table_sig.c */
	atomic_store_explicit(&sp_span_noted, noted, memory_order_release);
	atomic_store_explicit(&sp_span_words, words, memory_order_release);
	table.ready = true;
	return 0;
}

static struct sp_span_words *entry_of(uint32_t ref)
{
	return &atomic_load_explicit(&sp_span_words,
				     memory_order_relaxed)[(ref & SP_SPAN_NUMBER_MASK) - 1];
}

static void store(struct sp_span_words *e, const struct sp_span_record *r)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w;

		memcpy(&w, (const char *)r + i * sizeof(w), sizeof(w));
		/* Pairs with load(): whoever reads a new word finds the old reference removed. */
		atomic_store_explicit(&e->word[i], w, memory_order_release);
	}
}

static void load(const struct sp_span_words *e, struct sp_span_record *r)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w = atomic_load_explicit(&e->word[i], memory_order_acquire);

		memcpy((char *)r + i * sizeof(w), &w, sizeof(w));
	}
}

/* The span of that entry is no longer open, for readers by reference too. */
static void forget(uint32_t ref)
{
	/* relaxed: the words that follow it in the next store() carry a release */
	atomic_store_explicit(&entry_of(ref)->word[SP_SPAN_WORD_ID], 0, memory_order_relaxed);
	sp_span_free_list_give(ref);
}

int sp_span_table_add(struct sp_span_record *r)
{
	uint32_t e = table.ready ? sp_span_free_list_take() : 0;

	if (e == 0)
		return -ENOSPC;
	r->ref = e;
	if (r->root_id == r->span_id)
		r->root_ref = e;
	store(entry_of(e), r);
	if (!sp_span_index_put(table.by_id, BY_ID, r->span_id, e)) {
		forget(e);
		return -ENOSPC;
	}
	/* Without a handle entry nobody would find the span at its end. */
	if ((r->handle & SP_SPAN_BY_ID) != 0 ||
	    sp_span_index_put(table.by_handle, BY_HANDLE, r->handle, e))
		return 0;
	(void)sp_span_table_close(r);
	return -ENOSPC;
}

static bool has_key(uint32_t ref, int word, uint64_t key)
{
	return atomic_load_explicit(&entry_of(ref)->word[word], memory_order_relaxed) == key;
}

/* The record that a cell leads to, if it has the key and is still the one that the cell leads to. */
static inline bool take_copy(const _Atomic uint64_t *c, uint64_t hash, int word, uint64_t key,
			     struct sp_span_record *out)
{
	uint32_t ref = sp_span_index_ref(sp_span_index_load(c, hash));

	if (ref == 0 || !has_key(ref, word, key))
		return false;
	load(entry_of(ref), out);
	out->ref = ref;
	/* Still the same span after the copy? Its cell is cleared before the entry is reused. */
	return sp_span_index_ref(atomic_load_explicit(c, memory_order_relaxed)) == ref;
}

/* noinline, as this is rare: keys that are not in their home line, and lines with equal tags. */
__attribute__((noinline)) static bool find_anywhere(struct sp_span_line *index,
						    enum sp_span_index_from from, uint64_t key,
						    struct sp_span_record *out)
{
	int word = index == table.by_id ? SP_SPAN_WORD_ID : SP_SPAN_WORD_HANDLE;
	uint64_t hash = sp_span_index_hash(key);

	for (uint32_t i = from; i < from + SP_SPAN_INDEX_REACH; i++) {
		const struct sp_span_line *line = sp_span_index_line(index, hash, i);

		for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
			if (take_copy(&line->cell[c], hash, word, key, out))
				return true;
		}
		if (i <= 1 && !sp_span_index_further(line))
			break;
	}
	return false;
}

/* Looks at one line, and calls no function if that suffices. */
static inline __attribute__((always_inline)) bool find_from(struct sp_span_line *index,
							    enum sp_span_index_from from,
							    uint64_t key, int word,
							    struct sp_span_record *out)
{
	uint64_t hash = sp_span_index_hash(key);
	const struct sp_span_line *line = sp_span_index_line(index, hash, from);
	uint32_t c = sp_span_index_match(line, hash);

	if (c == SP_SPAN_INDEX_CELLS && !sp_span_index_further(line))
		return false;
	if (c < SP_SPAN_INDEX_CELLS && take_copy(&line->cell[c], hash, word, key, out))
		return true;
	return find_anywhere(index, from, key, out);
}

/* noinline, as this is rare: ids whose line in front is, or was, full and has no matching tag. */
__attribute__((noinline)) static bool find_behind(uint64_t span_id, struct sp_span_record *out)
{
	return find_from(table.by_id, SP_SPAN_INDEX_AT_BACK, span_id, SP_SPAN_WORD_ID, out);
}

bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out)
{
	uint64_t hash = sp_span_index_hash(span_id);
	const struct sp_span_line *front;

	if (!table.ready || span_id == 0)
		return false;
	front = sp_span_index_line(table.by_id, hash, 0);
	if (sp_span_index_further(front) && sp_span_index_match(front, hash) == SP_SPAN_INDEX_CELLS)
		return find_behind(span_id, out);
	return find_from(table.by_id, BY_ID, span_id, SP_SPAN_WORD_ID, out);
}

bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out)
{
	return table.ready && handle != 0 &&
	       find_from(table.by_handle, BY_HANDLE, handle, SP_SPAN_WORD_HANDLE, out);
}

static inline bool may_be_in(const struct sp_span_line *line, uint64_t hash)
{
	return sp_span_index_further(line) ||
	       sp_span_index_match(line, hash) != SP_SPAN_INDEX_CELLS;
}

bool sp_span_table_may_have(uint64_t span_id, uint64_t handle)
{
	uint64_t id_hash = sp_span_index_hash(span_id);
	uint64_t handle_hash = sp_span_index_hash(handle);

	return table.ready &&
	       (may_be_in(sp_span_index_line(table.by_id, id_hash, BY_ID), id_hash) ||
		((handle & SP_SPAN_BY_ID) == 0 &&
		 may_be_in(sp_span_index_line(table.by_handle, handle_hash, BY_HANDLE),
			   handle_hash)));
}

/* Of several callers that found the span, one removes it. */
bool sp_span_table_close(const struct sp_span_record *r)
{
	if (!sp_span_index_remove(table.by_id, BY_ID, r->span_id, r->ref))
		return false;
	/* nobody else gets past the line above with this reference */
	if ((r->handle & SP_SPAN_BY_ID) == 0)
		sp_span_index_clear(table.by_handle, BY_HANDLE, r->handle, r->ref);
	forget(r->ref);
	return true;
}

bool sp_span_table_remove(uint64_t span_id, struct sp_span_record *out)
{
	return sp_span_table_by_id(span_id, out) && sp_span_table_close(out);
}

/*
 * If the span ends meanwhile on another thread, a late store must not reach the next span of the
 * entry, so names are exchanged only while they are the old ones. This fails only if the next span
 * has the very same two names.
 */
void sp_span_table_rename(const struct sp_span_record *r, uint32_t name_id)
{
	struct sp_span_names old;
	struct sp_span_names new;
	uint64_t from;
	uint64_t to;

	if (!sp_span_table_names(r->ref, r->span_id, &old))
		return;
	new.name_id = name_id;
	new.root_name_id = r->span_id == r->root_id ? name_id : old.root_name_id;
	memcpy(&from, &old, sizeof(from));
	memcpy(&to, &new, sizeof(to));
	(void)atomic_compare_exchange_strong_explicit(&entry_of(r->ref)->word[SP_SPAN_WORD_NAMES],
						      &from, to, memory_order_release,
						      memory_order_relaxed);
}

static bool is_noted(const struct sp_span_record *r, uint32_t first)
{
	const _Atomic uint64_t *noted = atomic_load_explicit(&sp_span_noted, memory_order_relaxed);
	uint32_t n = (r->ref & SP_SPAN_NUMBER_MASK) - 1;

	return noted != NULL && n < SP_SPANS_MAX &&
	       atomic_load_explicit(&noted[first + n], memory_order_relaxed) == r->span_id;
}

bool sp_span_table_has_sample(const struct sp_span_record *r)
{
	return is_noted(r, 0);
}

bool sp_span_table_has_wait(const struct sp_span_record *r)
{
	return is_noted(r, SP_SPANS_MAX);
}

/* The record behind a cell of an index. False if there is none, or no longer. */
static bool load_cell(const _Atomic uint64_t *c, struct sp_span_record *out)
{
	/* pairs with sp_span_index_put_in() */
	uint64_t word = atomic_load_explicit(c, memory_order_acquire);

	if (word == 0)
		return false;
	out->ref = sp_span_index_ref(word);
	load(entry_of(out->ref), out);
	return atomic_load_explicit(c, memory_order_relaxed) == word;
}

/*
 * Entries are taken again as soon as they are free, so few of them were ever used. To read an index
 * through instead, which is as large as a second-level cache, would cost the thread that does it its
 * caches, and a forked child 0.2 ms for pages that nobody has touched yet. That the index leads to the
 * entry shows that it is complete.
 */
bool sp_span_table_next(uint32_t *at, struct sp_span_record *out)
{
	uint32_t used = table.ready ? sp_span_free_list_used() : 0;

	while (*at < used) {
		uint32_t number = ++*at;
		uint64_t id = atomic_load_explicit(&entry_of(number)->word[SP_SPAN_WORD_ID],
						   memory_order_relaxed);

		if (id != 0 && sp_span_table_by_id(id, out) &&
		    (out->ref & SP_SPAN_NUMBER_MASK) == number)
			return true;
	}
	return false;
}

bool sp_span_table_oldest(const struct sp_span_record *r, bool by_handle,
			  struct sp_span_record *out)
{
	struct sp_span_line *index = by_handle ? table.by_handle : table.by_id;
	uint32_t from = by_handle ? BY_HANDLE : BY_ID;
	uint64_t hash = sp_span_index_hash(by_handle ? r->handle : r->span_id);
	struct sp_span_record other;
	bool found = false;

	for (uint32_t i = 0; table.ready && i < SP_SPAN_WINDOW; i++) {
		struct sp_span_line *line =
			sp_span_index_line(index, hash, from + i / SP_SPAN_INDEX_CELLS);

		if (!load_cell(&line->cell[i % SP_SPAN_INDEX_CELLS], &other) ||
		    (found && other.start_ns >= out->start_ns))
			continue;
		*out = other;
		found = true;
	}
	return found;
}

uint32_t sp_span_table_count(void)
{
	uint32_t used = sp_span_free_list_used();
	uint32_t n = 0;

	for (uint32_t ref = 1; ref <= used; ref++)
		n += !has_key(ref, SP_SPAN_WORD_ID, 0);
	return n;
}

static bool among(uint64_t id, const uint64_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (ids[i] == id)
			return true;
	}
	return false;
}

/*
 * Other threads of the parent may have been in the middle of a change at the fork. Reading such a
 * table could loop for ever or show half a record, so the child starts from an empty one.
 */
static void wipe(void)
{
	sp_arena_wipe(table.by_id, INDEX_SIZE);
	sp_arena_wipe(table.by_handle, INDEX_SIZE);
	sp_arena_wipe((void *)(uintptr_t)atomic_load_explicit(&sp_span_words, memory_order_relaxed),
		      (size_t)SP_SPANS_MAX * sizeof(struct sp_span_words));
	sp_span_free_list_wipe();
}

void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n_ids)
{
	static struct sp_span_record kept[2 * SP_SPAN_DEPTH_MAX]; /* too much for a small stack */
	static uint8_t keys[SP_ARRAY_LEN(kept)];
	struct sp_span_record root;
	uint32_t at = 0;
	size_t n = 0;

	if (!table.ready)
		return;
	while (n < SP_ARRAY_LEN(kept) && sp_span_table_next(&at, &kept[n])) {
		keys[n] = sp_span_keys(&kept[n]);
		if (kept[n].thread == keep_thread || among(kept[n].span_id, ids, n_ids))
			n++;
	}
	wipe();
	for (size_t i = 0; i < n; i++) {
		if (sp_span_table_add(&kept[i]) == 0 && keys[i] != 0)
			sp_span_keys_add(&kept[i], keys[i]);
	}
	for (size_t i = 0; i < n; i++) {
		kept[i].root_ref = sp_span_table_by_id(kept[i].root_id, &root) ? root.ref : 0;
		store(entry_of(kept[i].ref), &kept[i]);
	}
}
