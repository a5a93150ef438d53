/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of the span table: a hash table from a 64-bit key to a reference. For span_table.c
 * alone, except the hash function. APP context, any number of threads, no locks.
 *
 * Each key has a home, which is one cache line of cells. It lies there or, if that line was full,
 * in one of the lines that follow. A line counts its keys that had to go further. So a look-up that
 * finds nothing, which is the common case, reads one line, however many spans are open.
 *
 * Span ids are random. In a large index the home of each would have left the caches since it was
 * last used, and this cache miss would cost more than all the rest of a span. So the first line of
 * an id is in a small part in front, which suffices for some thousand open spans. When a line in
 * front was full once, later keys of it go to the large part behind. Handles are addresses that
 * malloc() reuses soon, so they start behind.
 *
 * A cell holds a part of the key's hash, its tag, beside the reference: the record itself is read
 * only when the tag matches. The tag is the lower half, where it can be compared without a shift.
 */
#ifndef SP_SPAN_INDEX_H
#define SP_SPAN_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/open_spans/span_table.h"

/* Of 64 bytes each: the part in front is a fraction of a second-level cache. */
#define SP_SPAN_INDEX_FRONT 1024U
#define SP_SPAN_INDEX_BACK 8192U
#define SP_SPAN_INDEX_LINES (SP_SPAN_INDEX_FRONT + SP_SPAN_INDEX_BACK)
#define SP_SPAN_INDEX_CELLS 7U
/* Lines that a key may lie in: the bound of every walk here. */
#define SP_SPAN_INDEX_REACH 5U

/* The number of the line in which keys of a kind begin. A constant in every call. */
enum sp_span_index_from { SP_SPAN_INDEX_IN_FRONT = 0, SP_SPAN_INDEX_AT_BACK = 1 };

struct sp_span_line {
	_Atomic uint64_t cell[SP_SPAN_INDEX_CELLS]; /* reference << 32 | tag; 0 = empty */
	/*
	 * How many of this line's keys lie in lines after it. In front: 1 from the first such key
	 * on.
	 */
	_Atomic uint32_t beyond;
};
_Static_assert(sizeof(struct sp_span_line) == 64, "one cache line");
_Static_assert(SP_SPAN_INDEX_REACH *SP_SPAN_INDEX_CELLS == SP_SPAN_WINDOW, "as promised");

/* Fibonacci hashing: the upper bits depend on all bits of the key. */
static inline uint64_t sp_span_index_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15);
}

/* Line 0 is the one in front. */
static inline struct sp_span_line *sp_span_index_line(struct sp_span_line *index, uint64_t hash,
						      uint32_t i)
{
	if (i == 0)
		return &index[(hash >> 40) % SP_SPAN_INDEX_FRONT];
	return &index[SP_SPAN_INDEX_FRONT + ((hash >> 40) + i) % SP_SPAN_INDEX_BACK];
}

static inline uint64_t sp_span_index_word(uint64_t hash, uint32_t ref)
{
	return (uint64_t)ref << 32 | hash >> 32;
}

static inline uint32_t sp_span_index_ref(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline bool sp_span_index_put_in(struct sp_span_line *line, uint64_t word)
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

/* Keys of that line may lie further on. */
static inline bool sp_span_index_further(const struct sp_span_line *line)
{
	return atomic_load_explicit(&line->beyond, memory_order_relaxed) != 0;
}

/* noinline: lines are seldom full. */
__attribute__((noinline)) static bool sp_span_index_put_beyond(struct sp_span_line *index,
							       enum sp_span_index_from from,
							       uint64_t hash, uint64_t word)
{
	struct sp_span_line *home = sp_span_index_line(index, hash, 1);

	/*
	 * Before the word is stored: a thread that knows of the key must not stop searching at its
	 * home line.
	 */
	atomic_fetch_add_explicit(&home->beyond, 1, memory_order_relaxed);
	for (uint32_t i = 2; i < from + SP_SPAN_INDEX_REACH; i++) {
		if (sp_span_index_put_in(sp_span_index_line(index, hash, i), word))
			return true;
	}
	atomic_fetch_sub_explicit(&home->beyond, 1, memory_order_relaxed);
	/* The line in front may have a free cell by now. */
	return from == SP_SPAN_INDEX_IN_FRONT &&
	       sp_span_index_put_in(sp_span_index_line(index, hash, 0), word);
}

/* False if all lines in reach are full. */
static inline bool sp_span_index_put(struct sp_span_line *index, enum sp_span_index_from from,
				     uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	uint64_t word = sp_span_index_word(hash, ref);
	struct sp_span_line *front = sp_span_index_line(index, hash, 0);

	if (from == SP_SPAN_INDEX_IN_FRONT && !sp_span_index_further(front)) {
		if (sp_span_index_put_in(front, word))
			return true;
		/*
		 * As in sp_span_index_put_beyond(). In front the keys are not counted, and the flag
		 * stays for good.
		 */
		atomic_store_explicit(&front->beyond, 1, memory_order_relaxed);
	}
	return sp_span_index_put_in(sp_span_index_line(index, hash, 1), word) ||
	       sp_span_index_put_beyond(index, from, hash, word);
}

/* The cell's word, if it may be of a key with that hash; otherwise 0. */
static inline uint64_t sp_span_index_load(const _Atomic uint64_t *cell, uint64_t hash)
{
	/* pairs with the release in put_in(): the record before its reference */
	uint64_t word = atomic_load_explicit(cell, memory_order_acquire);

	return (uint32_t)word == hash >> 32 ? word : 0;
}

/* The line's first cell with the tag of that hash; SP_SPAN_INDEX_CELLS = none has it. */
static inline uint32_t sp_span_index_match(const struct sp_span_line *line, uint64_t hash)
{
	uint32_t tag = (uint32_t)(hash >> 32);

	/* Relaxed, because a caller who uses the reference loads the cell again with acquire. */
#pragma GCC unroll 7
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
		if ((uint32_t)atomic_load_explicit(&line->cell[c], memory_order_relaxed) == tag)
			return c;
	}
	return SP_SPAN_INDEX_CELLS;
}

/* The cell of the line that holds exactly that word, or NULL. */
static inline _Atomic uint64_t *sp_span_index_cell_in(struct sp_span_line *line, uint64_t word)
{
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
		if (atomic_load_explicit(&line->cell[c], memory_order_relaxed) == word)
			return &line->cell[c];
	}
	return NULL;
}

/*
 * The same in all lines of the key. *far tells that the word is in a line after its home, which
 * counts it.
 */
static inline _Atomic uint64_t *sp_span_index_cell(struct sp_span_line *index,
						   enum sp_span_index_from from, uint64_t hash,
						   uint64_t word, bool *far)
{
	struct sp_span_line *front = sp_span_index_line(index, hash, 0);
	_Atomic uint64_t *cell = NULL;

	*far = false;
	/* where it most likely is comes first */
	if (from == SP_SPAN_INDEX_AT_BACK || sp_span_index_further(front))
		cell = sp_span_index_cell_in(sp_span_index_line(index, hash, 1), word);
	if (from == SP_SPAN_INDEX_IN_FRONT && cell == NULL)
		cell = sp_span_index_cell_in(front, word);
	for (uint32_t i = 1; cell == NULL && i < from + SP_SPAN_INDEX_REACH; i++) {
		cell = sp_span_index_cell_in(sp_span_index_line(index, hash, i), word);
		*far = i > 1;
	}
	return cell;
}

static inline void sp_span_index_nearer(struct sp_span_line *index, uint64_t hash)
{
	atomic_fetch_sub_explicit(&sp_span_index_line(index, hash, 1)->beyond, 1,
				  memory_order_relaxed);
}

/* Empties the cell, which is in the key's home line, if that reference of the key is still there. */
static inline bool sp_span_index_empty(_Atomic uint64_t *cell, uint64_t key, uint32_t ref)
{
	uint64_t mine = sp_span_index_word(sp_span_index_hash(key), ref);

	return atomic_compare_exchange_strong_explicit(cell, &mine, 0, memory_order_acq_rel,
						       memory_order_relaxed);
}

/* Removes that reference of the key. True for exactly one of several concurrent callers. */
static inline bool sp_span_index_remove(struct sp_span_line *index, enum sp_span_index_from from,
					uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	uint64_t mine = sp_span_index_word(hash, ref);
	bool far;
	_Atomic uint64_t *cell = sp_span_index_cell(index, from, hash, mine, &far);

	if (cell == NULL || !atomic_compare_exchange_strong_explicit(
				    cell, &mine, 0, memory_order_acq_rel, memory_order_relaxed))
		return false;
	if (far)
		sp_span_index_nearer(index, hash);
	return true;
}

/* The same where there can be no other caller. */
static inline void sp_span_index_clear(struct sp_span_line *index, enum sp_span_index_from from,
				       uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	bool far;
	_Atomic uint64_t *cell =
		sp_span_index_cell(index, from, hash, sp_span_index_word(hash, ref), &far);

	if (cell == NULL)
		return;
	/* release: the reference is gone before the entry gets new words */
	atomic_store_explicit(cell, 0, memory_order_release);
	if (far)
		sp_span_index_nearer(index, hash);
}

#endif
