/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the table of open spans (span_table.h). Threads start and end spans all the time and must
 * not wait for each other, so the table has no locks. An entry belongs to the thread that took it from
 * the free ones until its index words are published, and then to the one caller that sets the word of its id
 * back to 0, who gives it back. Readers copy the record and check the key again afterwards.
 *
 * The index (span_table.h) has no tombstones, and a look-up reads one or two lines of it, whatever happened
 * before.
 *
 * Context: APP, any number of threads.
 */
#include "sampler/open_spans/span_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"

#define INDEX_SIZE (SP_SPAN_INDEX_LINES * sizeof(struct sp_span_line))
/* The entries, and a word for each that says which root was renamed. */
#define WORDS_SIZE ((size_t)SP_SPANS_MAX * (sizeof(struct sp_span_words) + sizeof(uint64_t)))

/*
 * The free entries: a stack of those that were used, which links them by number, and behind it those that
 * were never used. The change count beside the top keeps a slow caller from putting back a top that went
 * and came again meanwhile. A thread has a few at hand (struct sp_span_spare).
 */
static struct {
	_Atomic uint32_t
		*next;        /* use count << SP_SPAN_NUMBER_BITS | next free entry's number + 1 */
	_Atomic uint64_t top; /* change count << 32 | entry number + 1 */
	_Atomic uint32_t fresh; /* entries never used yet start here */
} free_list;

int sp_span_table_init(void)
{
	struct sp_span_tables *t = &sp_span_tables;
	struct sp_span_line *index;

	if (sp_span_index() != NULL)
		return 0;
	t->words = sp_arena_map(WORDS_SIZE);
	t->noted = sp_arena_map((size_t)SP_SPAN_NOTES * SP_SPANS_MAX * sizeof(*t->noted));
	free_list.next = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*free_list.next));
	index = sp_arena_map(INDEX_SIZE);
	if (t->words == NULL || t->noted == NULL || free_list.next == NULL || index == NULL)
		return -ENOMEM;
	t->renamed = (_Atomic uint64_t *)(t->words + SP_SPANS_MAX);
	/* pairs with the acquire in sp_span_index() */
	atomic_store_explicit(&t->index, index, memory_order_release);
	return 0;
}

/* noinline: a thread that has ended a span has one at hand. 0 = there is none. */
static __attribute__((noinline)) uint32_t take_shared(void)
{
	uint64_t top = atomic_load_explicit(&free_list.top, memory_order_acquire);

	for (int tries = 0; tries < 1000 && (uint32_t)top != 0; tries++) {
		uint32_t n = (uint32_t)top;
		uint32_t next = atomic_load_explicit(&free_list.next[n - 1], memory_order_relaxed);
		uint64_t below = next & SP_SPAN_NUMBER_MASK;

		if (atomic_compare_exchange_weak_explicit(
			    &free_list.top, &top, ((top >> 32) + 1) << 32 | below,
			    memory_order_acq_rel, memory_order_acquire))
			return (next & ~SP_SPAN_NUMBER_MASK) | n;
	}
	uint32_t e = atomic_load_explicit(&free_list.fresh, memory_order_relaxed);

	do {
		if (e >= SP_SPANS_MAX)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		&free_list.fresh, &e, e + 1, memory_order_relaxed, memory_order_relaxed));
	return e + 1;
}

static void give_shared(uint32_t ref)
{
	uint64_t top = atomic_load_explicit(&free_list.top, memory_order_relaxed);
	uint32_t n = ref & SP_SPAN_NUMBER_MASK;

	do {
		atomic_store_explicit(&free_list.next[n - 1],
				      (ref & ~SP_SPAN_NUMBER_MASK) | (uint32_t)top,
				      memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&free_list.top, &top, ((top >> 32) + 1) << 32 | n, memory_order_acq_rel,
		memory_order_relaxed));
}

/* A reference to an entry that is the caller's alone; 0 = all are taken. */
static inline uint32_t take(void)
{
	struct sp_span_spare *spare = sp_span_spare_own;

	return spare != NULL && spare->n > 0 ? spare->ref[--spare->n] : take_shared();
}

void sp_span_table_give(struct sp_span_spare *spare, uint32_t ref)
{
	uint32_t max = atomic_load_explicit(&sp_span_tables.spare_max, memory_order_relaxed);

	give_shared(ref);
	/* What it has from when there were fewer threads. */
	while (spare != NULL && spare->n > max)
		give_shared(spare->ref[--spare->n]);
}

void sp_span_table_thread_ended(struct sp_span_spare *spare)
{
	while (spare->n > 0)
		give_shared(spare->ref[--spare->n]);
}

/*
 * A thread that does nothing any more keeps what it was allowed when it last ended a span. At worst that is, summed up
 * over threads that came one by one, SPARES for the first 128, SPARES * ln(16) for those up to 2,048, and one for each
 * of the others.
 */
void sp_span_table_threads(uint32_t threads)
{
	_Atomic uint32_t *max = &sp_span_tables.spare_max;
	uint32_t now = threads > SP_SPAN_SPARE_THREADS ? 0U
		       : threads > SP_SPAN_SPARES      ? 1U
						  : SP_SPAN_SPARES / (threads + (threads == 0));
	uint32_t old = atomic_load_explicit(max, memory_order_relaxed);

	/* Of two that come at once the later one counts. */
	while (now < old && !atomic_compare_exchange_weak_explicit(
				    max, &old, now, memory_order_relaxed, memory_order_relaxed))
		continue;
}
_Static_assert(SP_SPAN_SPARES * 4 + SP_SPAN_SPARE_THREADS - SP_SPAN_SPARES < SP_SPANS_MAX - 1024,
	       "1 + ln(16) < 4, and some are left");

/* How many entries were ever taken: those with the numbers below. */
static uint32_t used(void)
{
	return atomic_load_explicit(&free_list.fresh, memory_order_relaxed);
}

static void store(struct sp_span_words *e, const struct sp_span_record *r)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w;

		memcpy(&w, (const char *)r + i * sizeof(w), sizeof(w));
		sp_span_set_word(e, (unsigned)i, w);
	}
}

void sp_span_table_release(const struct sp_span_record *r)
{
	sp_span_table_leave(r->ref);
}

static inline bool put_in(struct sp_span_line *line, uint64_t word)
{
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
		uint64_t none = 0;

		if (atomic_load_explicit(&line->cell[c], memory_order_relaxed) != 0)
			continue;
		/* pairs with the acquire in sp_span_index_load() */
		if (atomic_compare_exchange_strong_explicit(&line->cell[c], &none, word,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

/* A key does not lie further on: it is gone, or found no place there. */
static void one_less(struct sp_span_line *line)
{
	atomic_fetch_sub_explicit(&line->beyond, 1, memory_order_relaxed);
}

/*
 * False if all lines in reach are full. That keys lie further on is said before the word is stored: a
 * thread that knows of the key must not stop searching at the line in front, or at its home line.
 */
static bool put(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	uint64_t word = sp_span_index_word(hash, ref);
	struct sp_span_line *front = sp_span_index_line(index, hash, 0);
	struct sp_span_line *home = sp_span_index_line(index, hash, 1);

	if (!sp_span_index_further(front) && put_in(front, word))
		return true;
	atomic_fetch_add_explicit(&front->beyond, 1, memory_order_relaxed);
	if (put_in(home, word))
		return true;
	atomic_fetch_add_explicit(&home->beyond, 1, memory_order_relaxed);
	for (uint32_t i = 2; i < SP_SPAN_INDEX_REACH; i++) {
		if (put_in(sp_span_index_line(index, hash, i), word))
			return true;
	}
	one_less(home);
	one_less(front);
	/* The line in front may have a free cell by now. */
	return put_in(front, word);
}

/* Removes that reference of the key. True for exactly one of several concurrent callers. */
static bool take_out(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);

	for (uint32_t i = 0; i < SP_SPAN_INDEX_REACH; i++) {
		struct sp_span_line *line = sp_span_index_line(index, hash, i);

		for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
			uint64_t mine = sp_span_index_word(hash, ref);

			/*
			 * release: the reference is gone before the entry gets new words; seq_cst for
			 * is_noted()
			 */
			if (atomic_load_explicit(&line->cell[c], memory_order_relaxed) != mine ||
			    !atomic_compare_exchange_strong_explicit(&line->cell[c], &mine, 0,
								     memory_order_seq_cst,
								     memory_order_relaxed))
				continue;
			if (i > 0)
				one_less(sp_span_index_line(index, hash, 0));
			if (i > 1)
				one_less(sp_span_index_line(index, hash, 1));
			return true;
		}
	}
	return false;
}

static bool has_handle(const struct sp_span_record *r)
{
	return (r->handle & SP_SPAN_BY_ID) == 0;
}

int sp_span_table_add(struct sp_span_record *r)
{
	struct sp_span_line *index = sp_span_index();

	r->ref = index != NULL ? take() : 0;
	if (r->ref == 0)
		return -ENOSPC;
	r->cell = NULL;
	if (r->root_id == r->span_id)
		r->root_ref = r->ref;
	store(sp_span_entry(r->ref), r);
	if (!put(index, r->span_id, r->ref)) {
		sp_span_table_release(r);
		return -ENOSPC;
	}
	/* Without its object in the index nobody would find the span at its end. */
	if (!has_handle(r) || put(index, r->handle, r->ref))
		return 0;
	if (sp_span_table_close(r))
		sp_span_table_release(r);
	return -ENOSPC;
}

static bool may_be_in(const struct sp_span_line *line, uint64_t hash)
{
	bool may = sp_span_index_further(line);

	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++)
		may |= sp_span_index_load(&line->cell[c], hash) != 0;
	return may;
}

bool sp_span_table_may_have(uint64_t span_id, uint64_t handle)
{
	struct sp_span_line *index = sp_span_index();
	uint64_t id_hash = sp_span_index_hash(span_id);
	uint64_t handle_hash = sp_span_index_hash(handle);

	return index != NULL &&
	       (may_be_in(sp_span_index_line(index, id_hash, 0), id_hash) ||
		((handle & SP_SPAN_BY_ID) == 0 &&
		 may_be_in(sp_span_index_line(index, handle_hash, 0), handle_hash)));
}

_Atomic uint64_t *sp_span_table_find_room(struct sp_span_line *line, uint64_t hash)
{
	uint32_t c = 0;

	if (may_be_in(line, hash))
		return NULL;
	while (c < SP_SPAN_INDEX_CELLS &&
	       atomic_load_explicit(&line->cell[c], memory_order_relaxed) != 0)
		c++;
	return c < SP_SPAN_INDEX_CELLS ? &line->cell[c] : NULL;
}

bool sp_span_table_close(const struct sp_span_record *r)
{
	struct sp_span_line *index = sp_span_index();
	const uint64_t hash = sp_span_index_hash(r->span_id);
	uint64_t mine = sp_span_index_word(hash, r->ref);

	/* as in take_out() */
	if (r->cell != NULL ? !atomic_compare_exchange_strong_explicit(
				      r->cell, &mine, 0, memory_order_seq_cst, memory_order_relaxed)
			    : index == NULL || !take_out(index, r->span_id, r->ref))
		return false;
	/* nobody else gets past the line above with this reference */
	if (r->cell != NULL && r->cell >= index[SP_SPAN_INDEX_FRONT].cell)
		one_less(sp_span_index_line(index, hash, 0));
	if (has_handle(r))
		(void)take_out(index, r->handle, r->ref);
	return true;
}

/*
 * If the span ends meanwhile on another thread, a late store must not reach the next span of the
 * entry, so names are exchanged only while they are the old ones. This fails only if the next span
 * has the very same two names.
 */
void sp_span_table_rename(const struct sp_span_record *r, uint32_t name_id)
{
	bool is_root = r->span_id == r->root_id;
	_Atomic uint64_t *names;
	uint64_t from;
	uint64_t root;

	if (!sp_span_table_holds(r->ref, r->span_id))
		return;
	names = &sp_span_entry(r->ref)->word[SP_SPAN_WORD_NAMES];
	from = atomic_load_explicit(names, memory_order_acquire);
	root = is_root ? (uint64_t)name_id << 32 : from & ~(uint64_t)UINT32_MAX;
	/* Once more, as in sp_span_table_root_name(). */
	if (sp_span_table_holds(r->ref, r->span_id) &&
	    atomic_compare_exchange_strong_explicit(names, &from, root | name_id,
						    memory_order_release, memory_order_relaxed) &&
	    is_root)
		atomic_store_explicit(sp_span_table_renamed(r->span_id, r->ref),
				      sp_span_renamed_tag(r->span_id, r->ref) | name_id,
				      memory_order_relaxed);
}

/* Pairs with sp_span_table_note_allocation(), as that says. */
static inline bool is_noted(const struct sp_span_record *r, enum sp_span_note which)
{
	uint32_t n = ((r->ref & SP_SPAN_NUMBER_MASK) - 1) % SP_SPANS_MAX;
	const _Atomic uint64_t *noted = sp_span_tables.noted;

	return noted != NULL && atomic_load_explicit(&noted[(size_t)n * SP_SPAN_NOTES + which],
						     memory_order_seq_cst) == r->span_id;
}

bool sp_span_table_has_note(const struct sp_span_record *r)
{
	return is_noted(r, SP_SPAN_NOTE_SAMPLE) || is_noted(r, SP_SPAN_NOTE_WAIT);
}

bool sp_span_table_has_sample(const struct sp_span_record *r)
{
	return is_noted(r, SP_SPAN_NOTE_SAMPLE);
}

bool sp_span_table_has_wait(const struct sp_span_record *r)
{
	return is_noted(r, SP_SPAN_NOTE_WAIT);
}

bool sp_span_table_has_allocation(const struct sp_span_record *r)
{
	return is_noted(r, SP_SPAN_NOTE_ALLOCATION);
}

/*
 * Hardly any span has an attribute of ours from the program, so this is kept outside of the entries. The
 * upper bits hold the hash of the span's id, so that keys of an earlier span in the same entry do not
 * count for the next one. Part of .bss, so its pages cost nothing until the first key.
 */
#define KEYS UINT64_C(0xff)
/* Threads that set attributes of one span at the very same time. */
#define KEY_TRIES 64U
static _Atomic uint64_t key_words[SP_SPANS_MAX];
/* While no span ever had a key, the word need not be read, which would be a cache miss. */
static _Atomic bool any_keys;

static _Atomic uint64_t *keys_of(const struct sp_span_record *r)
{
	return &key_words[((r->ref & SP_SPAN_NUMBER_MASK) - 1) % SP_SPANS_MAX];
}

static uint64_t keys_tag(const struct sp_span_record *r)
{
	return sp_span_index_hash(r->span_id) & ~KEYS;
}

static uint8_t keys_in(uint64_t word, const struct sp_span_record *r)
{
	return (word & ~KEYS) == keys_tag(r) ? (uint8_t)(word & KEYS) : 0;
}

void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys)
{
	_Atomic uint64_t *w = keys_of(r);
	uint64_t old = atomic_load_explicit(w, memory_order_relaxed);

	for (unsigned i = 0; i < KEY_TRIES; i++) {
		if (atomic_compare_exchange_weak_explicit(
			    w, &old, keys_tag(r) | keys_in(old, r) | keys, memory_order_relaxed,
			    memory_order_relaxed))
			break;
	}
	/* pairs with sp_span_keys() */
	atomic_store_explicit(&any_keys, true, memory_order_release);
}

uint8_t sp_span_keys(const struct sp_span_record *r)
{
	if (!atomic_load_explicit(&any_keys, memory_order_acquire))
		return 0;
	return keys_in(atomic_load_explicit(keys_of(r), memory_order_relaxed), r);
}

/* The record behind a cell of an index. False if there is none, or no longer. */
static bool load_cell(const _Atomic uint64_t *c, struct sp_span_record *out)
{
	/* pairs with put_in() */
	uint64_t word = atomic_load_explicit(c, memory_order_acquire);

	if (word == 0)
		return false;
	out->ref = sp_span_index_ref(word);
	sp_span_load(out->ref, out);
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
	uint32_t n = used();

	while (*at < n) {
		uint32_t number = ++*at;
		uint64_t id = atomic_load_explicit(&sp_span_entry(number)->word[SP_SPAN_WORD_ID],
						   memory_order_relaxed);

		if (id != 0 && sp_span_table_by_id(id, out) &&
		    (out->ref & SP_SPAN_NUMBER_MASK) == number)
			return true;
	}
	return false;
}

bool sp_span_table_oldest(uint64_t key, struct sp_span_record *out)
{
	struct sp_span_line *index = sp_span_index();
	uint64_t hash = sp_span_index_hash(key);
	struct sp_span_record other;
	bool found = false;

	for (uint32_t i = 0; index != NULL && i < SP_SPAN_WINDOW; i++) {
		struct sp_span_line *line =
			sp_span_index_line(index, hash, i / SP_SPAN_INDEX_CELLS);

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
	uint32_t end = used();
	uint32_t n = 0;

	for (uint32_t ref = 1; ref <= end; ref++)
		n += atomic_load_explicit(&sp_span_entry(ref)->word[SP_SPAN_WORD_ID],
					  memory_order_relaxed) != 0;
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
	sp_arena_wipe(sp_span_index(), INDEX_SIZE);
	sp_arena_wipe(sp_span_tables.words, WORDS_SIZE);
	sp_arena_wipe((void *)(uintptr_t)free_list.next,
		      (size_t)SP_SPANS_MAX * sizeof(*free_list.next));
	atomic_store_explicit(&free_list.top, 0, memory_order_relaxed);
	atomic_store_explicit(&free_list.fresh, 0, memory_order_relaxed);
	atomic_store_explicit(&sp_span_tables.spare_max, SP_SPAN_SPARE_MAX, memory_order_relaxed);
	/* what others had at hand goes with their blocks, when these are claimed again */
	if (sp_span_spare_own != NULL)
		sp_span_spare_own->n = 0;
}

void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n_ids)
{
	static struct sp_span_record kept[2 * SP_SPAN_DEPTH_MAX]; /* too much for a small stack */
	static uint8_t keys[SP_ARRAY_LEN(kept)];
	struct sp_span_record root;
	uint32_t at = 0;
	size_t n = 0;

	if (sp_span_index() == NULL)
		return;
	while (n < SP_ARRAY_LEN(kept) && sp_span_table_next(&at, &kept[n])) {
		keys[n] = sp_span_keys(&kept[n]);
		/* Its root may have been renamed and be gone. */
		kept[n].root_name_id = sp_span_table_root_name(&kept[n]);
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
		store(sp_span_entry(kept[i].ref), &kept[i]);
	}
}
