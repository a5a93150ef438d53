/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of the table of open spans (span_table.h). Threads start and end spans all the time and
 * must not wait for each other, so the table has no locks. A thread that takes a free entry owns it
 * until it publishes the entry's index words. Later the one caller that sets the index word of the
 * id back to 0 owns the entry and frees it. Readers copy the record and then check the key again.
 *
 * The index (span_table.h) has no tombstones, so a look-up reads one or two lines of it, whatever
 * happened before.
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
/* The entries, and one word for each that says which root was renamed. */
#define WORDS_SIZE ((size_t)SP_SPANS_MAX * (sizeof(struct sp_span_words) + sizeof(uint64_t)))

/*
 * The free entries: first a stack of entries that were used before, linked by number, then the
 * entries that were never used. If the top entry was taken and freed while a slow caller was
 * exchanging it, the change count beside the top makes the exchange fail. A thread also has a few
 * private free entries (struct sp_span_spare).
 */
static struct {
	_Atomic uint32_t
		*next;        /* use count << SP_SPAN_NUMBER_BITS | next free entry's number + 1 */
	_Atomic uint64_t top; /* change count << 32 | entry number + 1 */
	_Atomic uint32_t fresh; /* from this number on entries were never used */
} free_list;

int sp_span_table_init(void)
{
	struct sp_span_tables *t = &sp_span_tables;
	struct sp_span_line *index;

	if (sp_span_index() != NULL)
		return 0;
	t->words = sp_arena_map(WORDS_SIZE);
	t->marked = sp_arena_map((size_t)SP_SPAN_MARKS * SP_SPANS_MAX * sizeof(*t->marked));
	free_list.next = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*free_list.next));
	index = sp_arena_map(INDEX_SIZE);
	if (t->words == NULL || t->marked == NULL || free_list.next == NULL || index == NULL)
		return -ENOMEM;
	t->renamed = (_Atomic uint64_t *)(t->words + SP_SPANS_MAX);
	/* pairs with the acquire in sp_span_index() */
	atomic_store_explicit(&t->index, index, memory_order_release);
	return 0;
}

/*
 * noinline: a thread that has ended a span has a private free entry. 0 = all entries are taken.
 */
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

/* A reference to a free entry, which the caller owns; 0 = all entries are taken. */
static inline uint32_t take(void)
{
	struct sp_span_spare *spare = sp_span_spare_own;

	return spare != NULL && spare->n > 0 ? spare->ref[--spare->n] : take_shared();
}

void sp_span_table_give(struct sp_span_spare *spare, uint32_t ref)
{
	uint32_t max = atomic_load_explicit(&sp_span_tables.spare_max, memory_order_relaxed);

	give_shared(ref);
	/* A thread may have more than max: the limit was higher while there were fewer threads. */
	while (spare != NULL && spare->n > max)
		give_shared(spare->ref[--spare->n]);
}

void sp_span_table_thread_ended(struct sp_span_spare *spare)
{
	while (spare->n > 0)
		give_shared(spare->ref[--spare->n]);
}

/*
 * A thread that becomes idle still has the number of free entries that was allowed when it last
 * ended a span. At worst, for threads that came one by one, these add up to SPARES for the first
 * 128 threads, SPARES * ln(16) for those up to 2,048, and one for each further thread.
 */
void sp_span_table_threads(uint32_t threads)
{
	_Atomic uint32_t *max = &sp_span_tables.spare_max;
	uint32_t now = threads > SP_SPAN_SPARE_THREADS ? 0U
		       : threads > SP_SPAN_SPARES      ? 1U
						  : SP_SPAN_SPARES / (threads + (threads == 0));
	uint32_t old = atomic_load_explicit(max, memory_order_relaxed);

	/* Of two calls at the same time the one with more threads counts. */
	while (now < old && !atomic_compare_exchange_weak_explicit(
				    max, &old, now, memory_order_relaxed, memory_order_relaxed))
		continue;
}
_Static_assert(SP_SPAN_SPARES * 4 + SP_SPAN_SPARE_THREADS - SP_SPAN_SPARES < SP_SPANS_MAX - 1024,
	       "1 + ln(16) < 4, and some are left");

/* How many entries were ever used; they have the lowest numbers. */
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
	sp_span_table_free(r->ref);
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

/* Lowers the line's count of keys further on: such a key was removed, or found no cell. */
static void one_less(struct sp_span_line *line)
{
	atomic_fetch_sub_explicit(&line->beyond, 1, memory_order_relaxed);
}

/*
 * Adds a key to the index. False if all lines in reach are full. Raises the counts of keys further
 * on before it stores the word: a thread that knows the key must not stop its search at the line in
 * front, or at the home line.
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

/*
 * Removes the word of that key and reference. True for exactly one of several concurrent callers.
 */
static bool take_out(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);

	for (uint32_t i = 0; i < SP_SPAN_INDEX_REACH; i++) {
		struct sp_span_line *line = sp_span_index_line(index, hash, i);

		for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
			uint64_t mine = sp_span_index_word(hash, ref);

			/*
			 * release: the word is removed before the entry gets new words; seq_cst for
			 * is_marked()
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
	/* Without its object in the index the span could not be found at its end. */
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

	/* orders as in take_out() */
	if (r->cell != NULL ? !atomic_compare_exchange_strong_explicit(
				      r->cell, &mine, 0, memory_order_seq_cst, memory_order_relaxed)
			    : index == NULL || !take_out(index, r->span_id, r->ref))
		return false;
	/* only one caller gets past the exchange above with this reference */
	if (r->cell != NULL && r->cell >= index[SP_SPAN_INDEX_FRONT].cell)
		one_less(sp_span_index_line(index, hash, 0));
	if (has_handle(r))
		(void)take_out(index, r->handle, r->ref);
	return true;
}

/*
 * If another thread ends the span meanwhile, our late store must not reach the next span of the
 * entry, so the names are exchanged only while they are the old ones. This fails only if the next
 * span has the same two names.
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
	/* Checked once more, as in sp_span_table_root_name(). */
	if (sp_span_table_holds(r->ref, r->span_id) &&
	    atomic_compare_exchange_strong_explicit(names, &from, root | name_id,
						    memory_order_release, memory_order_relaxed) &&
	    is_root)
		atomic_store_explicit(sp_span_table_renamed(r->span_id, r->ref),
				      sp_span_renamed_tag(r->span_id, r->ref) | name_id,
				      memory_order_relaxed);
}

/* Pairs with sp_span_table_mark_allocation(). */
static inline bool is_marked(const struct sp_span_record *r, enum sp_span_mark which)
{
	uint32_t n = ((r->ref & SP_SPAN_NUMBER_MASK) - 1) % SP_SPANS_MAX;
	const _Atomic uint64_t *marked = sp_span_tables.marked;

	return marked != NULL && atomic_load_explicit(&marked[(size_t)n * SP_SPAN_MARKS + which],
						      memory_order_seq_cst) == r->span_id;
}

bool sp_span_table_has_mark(const struct sp_span_record *r)
{
	return is_marked(r, SP_SPAN_MARK_SAMPLE) || is_marked(r, SP_SPAN_MARK_WAIT);
}

bool sp_span_table_has_sample(const struct sp_span_record *r)
{
	return is_marked(r, SP_SPAN_MARK_SAMPLE);
}

bool sp_span_table_has_wait(const struct sp_span_record *r)
{
	return is_marked(r, SP_SPAN_MARK_WAIT);
}

bool sp_span_table_has_allocation(const struct sp_span_record *r)
{
	return is_marked(r, SP_SPAN_MARK_ALLOCATION);
}

/*
 * A word for each entry with the keys of the attributes of ours that the program has set itself.
 * Programs hardly ever do, so these words are not part of the entries. The upper bits have the hash
 * of the span's id, so that keys of an earlier span in the same entry do not count for the next
 * span. Part of .bss, so the pages cost nothing until the first key.
 */
#define KEYS UINT64_C(0xff)
/* More threads do not set attributes of one span at the same moment. */
#define KEY_TRIES 64U
static _Atomic uint64_t key_words[SP_SPANS_MAX];
/* Until a span has a key the words are not read, which would cost a cache miss. */
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

/* The record of a cell's span. False if the cell is empty, or has changed meanwhile. */
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
 * Walks the entries, because few were ever used: freed entries are taken first. The index is as
 * large as a second-level cache, and walking it would empty the thread's caches, and cost a forked
 * child 0.2 ms for pages that were never touched. An entry is complete if the index leads to it.
 */
bool sp_span_table_next_of(uint32_t *at, uint32_t *most, struct sp_span_record *out)
{
	uint32_t n = used();

	while (*at < n && *most != 0) {
		uint32_t number = ++*at;
		uint64_t id = atomic_load_explicit(&sp_span_entry(number)->word[SP_SPAN_WORD_ID],
						   memory_order_relaxed);

		--*most;
		if (id != 0 && sp_span_table_by_id(id, out) &&
		    (out->ref & SP_SPAN_NUMBER_MASK) == number)
			return true;
	}
	if (*at >= n)
		*at = 0;
	return false;
}

bool sp_span_table_next(uint32_t *at, struct sp_span_record *out)
{
	uint32_t all = SP_SPANS_MAX;

	return sp_span_table_next_of(at, &all, out);
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

/* The number of open spans in the entries with numbers from `from` to `to`. */
static uint32_t count_open(uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t ref = from; ref <= to; ref++)
		n += atomic_load_explicit(&sp_span_entry(ref)->word[SP_SPAN_WORD_ID],
					  memory_order_relaxed) != 0;
	return n;
}

uint32_t sp_span_table_count(void)
{
	return count_open(1, used());
}

uint32_t sp_span_table_count_on(void)
{
	static uint32_t at, so_far, counted;
	uint32_t end = used();
	uint32_t to = end > at && end - at > SP_SPAN_LOOK_MAX ? at + SP_SPAN_LOOK_MAX : end;

	so_far += count_open(at + 1, to);
	at = to;
	if (to == end) {
		counted = so_far;
		at = so_far = 0;
	}
	return counted;
}

/*
 * The owner of a stack may forget a frame while another thread ends the span of the frame. Both
 * threads exchange this word, so the second thread sees the value of the first. If the entry has
 * another span by now, the word differs, because only the owner starts spans on this thread.
 */
bool sp_span_table_forget(const struct sp_span_record *r, uint8_t forgot)
{
	uint64_t word = (uint64_t)r->sdk << 48 | (uint64_t)r->thread << 32 | r->root_ref;

	return atomic_compare_exchange_strong_explicit(
		&sp_span_entry(r->ref)->word[SP_SPAN_WORD_PLACE], &word,
		word | (uint64_t)forgot << 56, memory_order_acq_rel, memory_order_relaxed);
}

uint8_t sp_span_table_end_elsewhere(const struct sp_span_record *r)
{
	return sp_span_word_forgot(atomic_fetch_or_explicit(
		&sp_span_entry(r->ref)->word[SP_SPAN_WORD_PLACE],
		(uint64_t)SP_SPAN_ENDED_ELSEWHERE << 56, memory_order_acq_rel));
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
 * At the fork, other threads of the parent may have been changing the table. A walk of such a table
 * could loop for ever or read half a record, so the child starts with an empty table.
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
	/* Private free entries of other threads are dropped when their blocks are claimed again. */
	if (sp_span_spare_own != NULL)
		sp_span_spare_own->n = 0;
}

void sp_span_table_forked(uint32_t had_block, uint16_t has_block, const uint64_t *ids,
			  unsigned n_ids)
{
	static struct sp_span_record kept[2 * SP_SPAN_DEPTH_MAX]; /* too large for a small stack */
	static uint8_t keys[SP_ARRAY_LEN(kept)];
	struct sp_span_record root;
	uint32_t at = 0;
	size_t n = 0;

	if (sp_span_index() == NULL)
		return;
	for (unsigned i = 0; i < n_ids; i++)
		n += !among(ids[i], ids, i) && sp_span_table_by_id(ids[i], &kept[n]);
	while (n < SP_ARRAY_LEN(kept) && sp_span_table_next(&at, &kept[n]))
		n += kept[n].thread == had_block && !among(kept[n].span_id, ids, n_ids);
	for (size_t i = 0; i < n; i++) {
		keys[i] = sp_span_keys(&kept[i]);
		/* The root may have been renamed and have ended. */
		kept[i].root_name_id = sp_span_table_root_name(&kept[i]);
		/* Other threads of the parent do not exist here. */
		kept[i].thread = kept[i].thread == had_block ? has_block : SP_SPAN_NO_THREAD;
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
