/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of open spans. APP context, any number of threads, no locks. An entry belongs to
 * whoever took it from the free stack until its two index words are published; it is freed by the
 * one caller that turns its id index word back to 0. Readers copy and check the key again.
 */
#include "sampler/span_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sampler/arena.h"
#include "sampler/compiler.h"
#include "sampler/span_stack.h"
#include "sampler/span_table_sig.h"

#define INDEX_SIZE ((size_t)SP_SPANS_MAX * 4)
struct table {
	_Atomic uint32_t *by_id;     /* references; 0 = none */
	_Atomic uint32_t *by_handle; /* references; 0 = none */
	_Atomic uint32_t
		*link;         /* use count << SP_SPAN_NUMBER_BITS | next free entry's number + 1 */
	_Atomic uint64_t free; /* change count << 32 | entry number + 1 */
	_Atomic uint32_t fresh; /* entries never used yet start here */
	_Atomic uint32_t open;
};
static struct table table;

int sp_span_table_init(void)
{
	struct sp_span_words *words;
	_Atomic uint64_t *marks;

	if (table.link != NULL)
		return 0;
	words = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*words));
	table.by_id = sp_arena_map(INDEX_SIZE * sizeof(*table.by_id));
	table.by_handle = sp_arena_map(INDEX_SIZE * sizeof(*table.by_handle));
	table.link = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*table.link));
	marks = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*marks));
	if (words == NULL || marks == NULL || table.by_id == NULL || table.by_handle == NULL ||
	    table.link == NULL)
		return -ENOMEM;
	/* both pair with the acquires in span_table_sig.c */
	atomic_store_explicit(&sp_span_marks, marks, memory_order_release);
	atomic_store_explicit(&sp_span_words, words, memory_order_release);
	return 0;
}

static uint32_t hash(uint64_t key)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static _Atomic uint32_t *cell(_Atomic uint32_t *index, uint64_t key, uint32_t i)
{
	return &index[(hash(key) + i) % INDEX_SIZE];
}

static struct sp_span_words *entry_of(uint32_t ref)
{
	return &atomic_load_explicit(&sp_span_words,
				     memory_order_relaxed)[(ref & SP_SPAN_NUMBER_MASK) - 1];
}

/* A reference to an entry that is the caller's alone; 0 = all are taken. */
static uint32_t take_entry(void)
{
	uint64_t top = atomic_load_explicit(&table.free, memory_order_acquire);

	for (int tries = 0; tries < 1000 && (uint32_t)top != 0; tries++) {
		uint32_t n = (uint32_t)top;
		uint32_t link = atomic_load_explicit(&table.link[n - 1], memory_order_relaxed);
		uint64_t below = link & SP_SPAN_NUMBER_MASK;

		if (atomic_compare_exchange_weak_explicit(
			    &table.free, &top, ((top >> 32) + 1) << 32 | below,
			    memory_order_acq_rel, memory_order_acquire))
			return (link & ~SP_SPAN_NUMBER_MASK) | n;
	}
	uint32_t e = atomic_load_explicit(&table.fresh, memory_order_relaxed);

	do {
		if (e >= SP_SPANS_MAX)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		&table.fresh, &e, e + 1, memory_order_relaxed, memory_order_relaxed));
	return e + 1;
}

static void give_entry(uint32_t ref)
{
	uint64_t top = atomic_load_explicit(&table.free, memory_order_relaxed);
	uint32_t n = ref & SP_SPAN_NUMBER_MASK;
	uint32_t used = (ref & ~SP_SPAN_NUMBER_MASK) + SP_SPAN_NUMBER_MASK + 1;

	do {
		atomic_store_explicit(&table.link[n - 1], used | (uint32_t)top,
				      memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&table.free, &top, ((top >> 32) + 1) << 32 | n, memory_order_acq_rel,
		memory_order_relaxed));
}

static bool publish(_Atomic uint32_t *index, uint64_t key, uint32_t ref)
{
	for (uint32_t i = 0; i < SP_SPAN_WINDOW; i++) {
		uint32_t none = 0;

		/* pairs with the acquire in find() */
		if (atomic_compare_exchange_strong_explicit(cell(index, key, i), &none, ref,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

/* Takes the key out of the index; true for the one caller that really did. */
static bool unpublish(_Atomic uint32_t *index, uint64_t key, uint32_t ref)
{
	for (uint32_t i = 0; i < SP_SPAN_WINDOW; i++) {
		uint32_t mine = ref;

		if (atomic_compare_exchange_strong_explicit(cell(index, key, i), &mine, 0,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

static void store(struct sp_span_words *e, const struct sp_span_record *r)
{
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w;

		memcpy(&w, (const char *)r + i * sizeof(w), sizeof(w));
		/* pairs with load(): whoever reads a new word finds the old reference gone */
		atomic_store_explicit(&e->word[i], w, memory_order_release);
	}
}

static void load(const struct sp_span_words *e, struct sp_span_record *r)
{
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
	give_entry(ref);
}

int sp_span_table_add(struct sp_span_record *r)
{
	if (table.link == NULL)
		return -ENOSPC;
	uint32_t e = take_entry();

	if (e == 0)
		return -ENOSPC;
	r->ref = e;
	if (r->root_id == r->span_id)
		r->root_ref = e;
	store(entry_of(e), r);
	if (!publish(table.by_id, r->span_id, e)) {
		forget(e);
		return -ENOSPC;
	}
	atomic_fetch_add_explicit(&table.open, 1, memory_order_relaxed);
	/* Without a handle entry the end comes by id from the owner's stack, or never. */
	if (publish(table.by_handle, r->handle, e))
		return 0;
	struct sp_span_record gone;

	(void)sp_span_table_remove(r->span_id, &gone);
	return -ENOSPC;
}

static bool has_key(uint32_t ref, int word, uint64_t key)
{
	return atomic_load_explicit(&entry_of(ref)->word[word], memory_order_relaxed) == key;
}

static uint32_t find(_Atomic uint32_t *index, uint64_t key, int word, struct sp_span_record *out)
{
	if (table.link == NULL || key == 0)
		return 0;
	for (uint32_t i = 0; i < SP_SPAN_WINDOW; i++) {
		_Atomic uint32_t *c = cell(index, key, i);
		/* pairs with publish(): the record before its reference */
		uint32_t ref = atomic_load_explicit(c, memory_order_acquire);

		if (ref == 0 || !has_key(ref, word, key))
			continue;
		load(entry_of(ref), out);
		/* still the same span after the copy? Its cell is cleared before reuse. */
		if (atomic_load_explicit(c, memory_order_relaxed) == ref) {
			out->ref = ref;
			return ref;
		}
	}
	return 0;
}

bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out)
{
	return find(table.by_id, span_id, SP_SPAN_WORD_ID, out) != 0;
}

bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out)
{
	return find(table.by_handle, handle, SP_SPAN_WORD_HANDLE, out) != 0;
}

bool sp_span_table_remove(uint64_t span_id, struct sp_span_record *out)
{
	uint32_t e = find(table.by_id, span_id, SP_SPAN_WORD_ID, out);

	if (e == 0 || !unpublish(table.by_id, span_id, e))
		return false;
	(void)unpublish(table.by_handle, out->handle, e);
	forget(e);
	atomic_fetch_sub_explicit(&table.open, 1, memory_order_relaxed);
	return true;
}

/*
 * A store that comes late, because the span ended meanwhile on another thread, must not reach the
 * entry's next span. What may still slip through is a next span with the very same two names.
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

bool sp_span_table_marked(const struct sp_span_record *r)
{
	const _Atomic uint64_t *marks = atomic_load_explicit(&sp_span_marks, memory_order_relaxed);
	uint32_t n = (r->ref & SP_SPAN_NUMBER_MASK) - 1;

	return marks != NULL && n < SP_SPANS_MAX &&
	       atomic_load_explicit(&marks[n], memory_order_relaxed) == r->span_id;
}

/* The record behind a word of an index. False if there is none, or no longer. */
static bool load_cell(const _Atomic uint32_t *c, struct sp_span_record *out)
{
	/* pairs with publish() */
	uint32_t ref = atomic_load_explicit(c, memory_order_acquire);

	if (ref == 0)
		return false;
	load(entry_of(ref), out);
	out->ref = ref;
	return atomic_load_explicit(c, memory_order_relaxed) == ref;
}

bool sp_span_table_next(uint32_t *at, struct sp_span_record *out)
{
	while (table.link != NULL && *at < INDEX_SIZE) {
		if (load_cell(&table.by_id[(*at)++], out))
			return true;
	}
	return false;
}

bool sp_span_table_oldest(const struct sp_span_record *r, bool by_handle,
			  struct sp_span_record *out)
{
	_Atomic uint32_t *index = by_handle ? table.by_handle : table.by_id;
	struct sp_span_record other;
	bool found = false;

	for (uint32_t i = 0; table.link != NULL && i < SP_SPAN_WINDOW; i++) {
		if (!load_cell(cell(index, by_handle ? r->handle : r->span_id, i), &other) ||
		    (found && other.start_ns >= out->start_ns))
			continue;
		*out = other;
		found = true;
	}
	return found;
}

uint32_t sp_span_table_count(void)
{
	return atomic_load_explicit(&table.open, memory_order_relaxed);
}

static bool among(uint64_t id, const uint64_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (ids[i] == id)
			return true;
	}
	return false;
}

/* Other threads may have been anywhere in here at the fork: the child starts from an empty table. */
static void wipe(void)
{
	sp_arena_wipe((void *)(uintptr_t)table.by_id, INDEX_SIZE * sizeof(*table.by_id));
	sp_arena_wipe((void *)(uintptr_t)table.by_handle, INDEX_SIZE * sizeof(*table.by_handle));
	sp_arena_wipe((void *)(uintptr_t)table.link, (size_t)SP_SPANS_MAX * sizeof(*table.link));
	sp_arena_wipe((void *)(uintptr_t)atomic_load_explicit(&sp_span_words, memory_order_relaxed),
		      (size_t)SP_SPANS_MAX * sizeof(struct sp_span_words));
	atomic_store_explicit(&table.free, 0, memory_order_relaxed);
	atomic_store_explicit(&table.fresh, 0, memory_order_relaxed);
	atomic_store_explicit(&table.open, 0, memory_order_relaxed);
}

void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n_ids)
{
	static struct sp_span_record kept[2 * SP_SPAN_DEPTH_MAX]; /* too much for a small stack */
	struct sp_span_record root;
	size_t n = 0;

	if (table.link == NULL)
		return;
	for (uint32_t i = 0; i < INDEX_SIZE && n < SP_ARRAY_LEN(kept); i++) {
		uint32_t ref = atomic_load_explicit(&table.by_id[i], memory_order_relaxed);

		if (ref == 0)
			continue;
		load(entry_of(ref), &kept[n]);
		if (kept[n].thread == keep_thread || among(kept[n].span_id, ids, n_ids))
			n++;
	}
	wipe();
	for (size_t i = 0; i < n; i++)
		(void)sp_span_table_add(&kept[i]);
	for (size_t i = 0; i < n; i++) {
		kept[i].root_ref = sp_span_table_by_id(kept[i].root_id, &root) ? root.ref : 0;
		store(entry_of(kept[i].ref), &kept[i]);
	}
}
