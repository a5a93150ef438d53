/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One index of the table of open spans, from a 64-bit key to a reference. For span_table.c alone.
 * APP context, any number of threads, no locks.
 *
 * A key belongs to one cache line of cells and lies there, or in one of the lines that follow when
 * that one was full. A line counts its keys that had to go further, so that a look-up that finds
 * nothing, which is the common one, reads one line however many spans are open. A cell holds a piece
 * of the key's hash beside the reference: what it refers to is read only when it is most likely it.
 */
#ifndef SP_SPAN_INDEX_H
#define SP_SPAN_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/span_table.h"

#define SP_SPAN_INDEX_LINES 8192U
#define SP_SPAN_INDEX_CELLS 7U
/* Lines that a key may lie in: the bound of every walk here. */
#define SP_SPAN_INDEX_REACH 5U

struct sp_span_line {
	_Atomic uint64_t cell[SP_SPAN_INDEX_CELLS]; /* hash << 32 | reference; 0 = empty */
	_Atomic uint32_t beyond;                    /* keys of this line in lines behind it */
};
_Static_assert(sizeof(struct sp_span_line) == 64, "one cache line");
_Static_assert(SP_SPAN_INDEX_REACH *SP_SPAN_INDEX_CELLS == SP_SPAN_WINDOW, "as promised");

/* Fibonacci hashing: the upper bits depend on all bits of the key. */
static inline uint64_t sp_span_index_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct sp_span_line *sp_span_index_line(struct sp_span_line *index, uint64_t hash,
						      uint32_t i)
{
	return &index[((hash >> 40) + i) % SP_SPAN_INDEX_LINES];
}

static inline uint64_t sp_span_index_word(uint64_t hash, uint32_t ref)
{
	return (hash >> 32 << 32) | ref;
}

static inline bool sp_span_index_put_in(struct sp_span_line *line, uint64_t word)
{
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
		uint64_t none = 0;

		if (atomic_load_explicit(&line->cell[c], memory_order_relaxed) != 0)
			continue;
		/* pairs with the acquire in sp_span_index_ref() */
		if (atomic_compare_exchange_strong_explicit(&line->cell[c], &none, word,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

/* False if all lines in reach are full. */
static inline bool sp_span_index_put(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	uint64_t word = sp_span_index_word(hash, ref);
	struct sp_span_line *home = sp_span_index_line(index, hash, 0);

	if (sp_span_index_put_in(home, word))
		return true;
	/* before the word is there: who has been told of the key must not stop at its line */
	atomic_fetch_add_explicit(&home->beyond, 1, memory_order_relaxed);
	for (uint32_t i = 1; i < SP_SPAN_INDEX_REACH; i++) {
		if (sp_span_index_put_in(sp_span_index_line(index, hash, i), word))
			return true;
	}
	atomic_fetch_sub_explicit(&home->beyond, 1, memory_order_relaxed);
	return false;
}

/* Bit c: cell c of the line may hold the key. */
static inline uint32_t sp_span_index_match(struct sp_span_line *line, uint64_t hash)
{
	uint64_t word[SP_SPAN_INDEX_CELLS];
	uint64_t any = 0;
	uint32_t bits = 0;

	/* relaxed: who looks at the cell's reference loads it again, with acquire */
#pragma GCC unroll 7
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
		word[c] = atomic_load_explicit(&line->cell[c], memory_order_relaxed);
		any |= word[c];
	}
	/* Most spans that are looked for are not there, and most lines are empty. */
	if (any == 0)
		return 0;
#pragma GCC unroll 7
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++)
		bits |= (uint32_t)(word[c] >> 32 == hash >> 32) << c;
	return bits;
}

/* Where a walk over the cells of a key stands. Begins as sp_span_index_walk(). */
struct sp_span_walk {
	uint64_t hash;
	struct sp_span_line *line;
	uint32_t number;      /* of lines behind the first one */
	uint32_t bits;        /* cells of this line still to be looked at */
	_Atomic uint64_t *at; /* the cell found */
};

static inline struct sp_span_walk sp_span_index_walk(struct sp_span_line *index, uint64_t key)
{
	struct sp_span_walk w = {.hash = sp_span_index_hash(key)};

	w.line = sp_span_index_line(index, w.hash, 0);
	w.bits = sp_span_index_match(w.line, w.hash);
	return w;
}

/* The walk that has just begun ends here: no key of this line is like that one. */
static inline bool sp_span_index_over(const struct sp_span_walk *w)
{
	return w->bits == 0 && atomic_load_explicit(&w->line->beyond, memory_order_relaxed) == 0;
}

static inline bool sp_span_index_further(struct sp_span_line *index, struct sp_span_walk *w)
{
	if (w->number == 0 && atomic_load_explicit(&w->line->beyond, memory_order_relaxed) == 0)
		return false;
	if (++w->number == SP_SPAN_INDEX_REACH)
		return false;
	w->line = sp_span_index_line(index, w->hash, w->number);
	w->bits = sp_span_index_match(w->line, w->hash);
	return true;
}

/* What the cell refers to, if that may be the key's; otherwise 0. */
static inline uint32_t sp_span_index_ref(const _Atomic uint64_t *cell, uint64_t hash)
{
	/* pairs with the release in put(): the record before its reference */
	uint64_t word = atomic_load_explicit(cell, memory_order_acquire);

	return word >> 32 == hash >> 32 ? (uint32_t)word : 0;
}

/* The next reference that may be the key's; 0 = there is none. */
static inline uint32_t sp_span_index_next(struct sp_span_line *index, struct sp_span_walk *w)
{
	do {
		while (w->bits != 0) {
			uint32_t ref;

			w->at = &w->line->cell[__builtin_ctz(w->bits)];
			w->bits &= w->bits - 1;
			ref = sp_span_index_ref(w->at, w->hash);
			if (ref != 0)
				return ref;
		}
	} while (sp_span_index_further(index, w));
	return 0;
}

/*
 * The cell that holds exactly that word of the key, or NULL; *far tells that it lies behind the
 * key's own line.
 */
static inline _Atomic uint64_t *sp_span_index_cell(struct sp_span_line *index, uint64_t hash,
						   uint64_t word, bool *far)
{
	for (uint32_t i = 0; i < SP_SPAN_INDEX_REACH; i++) {
		struct sp_span_line *line = sp_span_index_line(index, hash, i);

		*far = i != 0;
		for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
			if (atomic_load_explicit(&line->cell[c], memory_order_relaxed) == word)
				return &line->cell[c];
		}
	}
	return NULL;
}

static inline void sp_span_index_nearer(struct sp_span_line *index, uint64_t hash)
{
	atomic_fetch_sub_explicit(&sp_span_index_line(index, hash, 0)->beyond, 1,
				  memory_order_relaxed);
}

/* Takes that reference of the key out; true for the one of several callers that really did. */
static inline bool sp_span_index_remove(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	uint64_t mine = sp_span_index_word(hash, ref);
	bool far;
	_Atomic uint64_t *cell = sp_span_index_cell(index, hash, mine, &far);

	if (cell == NULL || !atomic_compare_exchange_strong_explicit(
				    cell, &mine, 0, memory_order_acq_rel, memory_order_relaxed))
		return false;
	if (far)
		sp_span_index_nearer(index, hash);
	return true;
}

/* The same for the only caller there can be. */
static inline void sp_span_index_clear(struct sp_span_line *index, uint64_t key, uint32_t ref)
{
	uint64_t hash = sp_span_index_hash(key);
	bool far;
	_Atomic uint64_t *cell =
		sp_span_index_cell(index, hash, sp_span_index_word(hash, ref), &far);

	if (cell == NULL)
		return;
	/* release: the reference is gone before the entry gets new words */
	atomic_store_explicit(cell, 0, memory_order_release);
	if (far)
		sp_span_index_nearer(index, hash);
}

#endif
