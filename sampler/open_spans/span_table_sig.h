/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of the span table, which APP writes and the signal handler reads. */
#ifndef SP_SPAN_TABLE_SIG_H
#define SP_SPAN_TABLE_SIG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_index.h"
#include "sampler/open_spans/span_table.h"

#define SP_SPAN_WORDS (offsetof(struct sp_span_record, ref) / sizeof(uint64_t))

/* The record as words, so that a reader racing with reuse reads stale values, not torn ones. */
struct sp_span_words {
	_Atomic uint64_t word[SP_SPAN_WORDS];
};
_Static_assert(offsetof(struct sp_span_record, ref) == 64, "one cache line");
_Static_assert(offsetof(struct sp_span_record, span_id) == 0, "word 0 is the id");
_Static_assert(offsetof(struct sp_span_record, handle) == 16, "word 2 is the handle");
_Static_assert(offsetof(struct sp_span_record, name_id) == 48, "word 6 is both names");
_Static_assert(offsetof(struct sp_span_record, root_name_id) == 52, "word 6 is both names");
_Static_assert(offsetof(struct sp_span_record, root_ref) == 56, "word 7 is what is below");
_Static_assert(offsetof(struct sp_span_record, thread) == 60, "of 16 bits, from bit 32 on");
_Static_assert(offsetof(struct sp_span_record, sdk) == 62, "of 8 bits, from bit 48 on");
_Static_assert(offsetof(struct sp_span_record, beyond) == 63, "of 8 bits, from bit 56 on");

/* The id is 0 before the first use and after the span's release. */
enum {
	SP_SPAN_WORD_ID = 0,
	SP_SPAN_WORD_ROOT = 1,
	SP_SPAN_WORD_HANDLE = 2,
	SP_SPAN_WORD_TRACE = 3,
	SP_SPAN_WORD_START = 5,
	SP_SPAN_WORD_NAMES = 6,
	SP_SPAN_WORD_PLACE = 7
};

/*
 * A reference to an entry: its number + 1, and above that how often the entry was used before.
 * Without the count, a slow caller could take a reused entry for the span that it had found.
 */
#define SP_SPAN_NUMBER_BITS 15U
#define SP_SPAN_NUMBER_MASK ((1U << SP_SPAN_NUMBER_BITS) - 1)
_Static_assert(SP_SPANS_MAX <= SP_SPAN_NUMBER_MASK, "a number and its 1 fit");

/* Where the keys of each index begin in it. */
#define SP_SPAN_BY_ID_FROM SP_SPAN_INDEX_IN_FRONT
#define SP_SPAN_BY_HANDLE_FROM SP_SPAN_INDEX_AT_BACK

/*
 * NULL before sp_span_table_init(), and the same from then on. The index by id comes last, so whoever
 * sees it sees the others.
 */
struct sp_span_tables {
	struct sp_span_words *words;
	struct sp_span_line *by_handle;
	/*
	 * For each entry the id of the last span that was sampled, and of the last that has a wait in a
	 * profile. An id and not a flag: if a slow handler writes it after the
	 * entry was reused, it does not count for the next span.
	 */
	_Atomic uint64_t *noted;
	struct sp_span_line *_Atomic by_id;
};
enum sp_span_note { SP_SPAN_NOTE_SAMPLE, SP_SPAN_NOTE_WAIT, SP_SPAN_NOTES };
SP_HIDDEN struct sp_span_tables sp_span_tables;

static inline SP_SIGSAFE struct sp_span_line *sp_span_index_by_id(void)
{
	/* pairs with the release in sp_span_table_init() */
	return atomic_load_explicit(&sp_span_tables.by_id, memory_order_acquire);
}

static inline SP_SIGSAFE struct sp_span_words *sp_span_entry(uint32_t ref)
{
	return &sp_span_tables.words[(ref & SP_SPAN_NUMBER_MASK) - 1];
}

/* A word of an entry, and what it says. */
static inline SP_SIGSAFE uint64_t sp_span_word(const struct sp_span_words *e, unsigned which)
{
	return atomic_load_explicit(&e->word[which], memory_order_acquire);
}

static inline void sp_span_set_word(struct sp_span_words *e, unsigned which, uint64_t w)
{
	/* Pairs with sp_span_load(): whoever reads a new word finds the old reference removed. */
	atomic_store_explicit(&e->word[which], w, memory_order_release);
}

static inline uint16_t sp_span_word_thread(uint64_t place)
{
	return (uint16_t)(place >> 32);
}

static inline uint8_t sp_span_word_beyond(uint64_t place)
{
	return (uint8_t)(place >> 56);
}

static inline SP_SIGSAFE void sp_span_load(uint32_t ref, struct sp_span_record *r)
{
	const struct sp_span_words *e = sp_span_entry(ref);

#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w = sp_span_word(e, (unsigned)i);

		__builtin_memcpy((char *)r + i * sizeof(w), &w, sizeof(w));
	}
	r->ref = ref;
	r->cell = NULL;
}

/* any | *cell: as one instruction where there is one, since a load of its own would take a register more. */
static inline uint64_t sp_span_or_cell(uint64_t any, const _Atomic uint64_t *cell)
{
#if defined(__x86_64__)
	__asm__("orq %1, %0" : "+r"(any) : "m"(*cell) : "cc");
	return any;
#else
	return any | atomic_load_explicit(cell, memory_order_relaxed);
#endif
}

/* For sp_span_table_room(). */
_Atomic uint64_t *sp_span_table_find_room(struct sp_span_line *line, uint64_t hash);

/*
 * Where the table, which has been made, has a cell in the line in front for a span with an id of that hash,
 * which it certainly does not have. False: it may have it, or there is no room in front. A line without any
 * key is the common case, which one comparison tells.
 */
static inline bool sp_span_table_room(uint64_t hash, _Atomic uint64_t **cell)
{
	struct sp_span_line *line = sp_span_index_line(sp_span_index_by_id(), hash, 0);
	uint64_t any = atomic_load_explicit(&line->beyond, memory_order_relaxed);

#pragma GCC unroll 7
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++)
		any = sp_span_or_cell(any, &line->cell[c]);
	*cell = &line->cell[0];
	if (any == 0)
		return true;
	*cell = sp_span_table_find_room(line, hash);
	return *cell != NULL;
}

/* The two notes of the span in that entry. */
static inline bool sp_span_table_is_noted(uint32_t ref, uint64_t span_id)
{
	const _Atomic uint64_t *noted =
		&sp_span_tables.noted[(size_t)((ref & SP_SPAN_NUMBER_MASK) - 1) * SP_SPAN_NOTES];

	return atomic_load_explicit(&noted[SP_SPAN_NOTE_SAMPLE], memory_order_relaxed) == span_id ||
	       atomic_load_explicit(&noted[SP_SPAN_NOTE_WAIT], memory_order_relaxed) == span_id;
}

/* For sp_span_table_leave(). */
void sp_span_table_give_shared(uint32_t ref);

/* Whoever closed the span: its entry is another span's from now on, and has another reference then. */
static inline void sp_span_table_leave(uint32_t ref)
{
	struct sp_span_spare *spare = sp_span_spare_own;
	uint32_t next_use = ref + SP_SPAN_NUMBER_MASK + 1;

	/* relaxed: the words that follow it in the entry's next record carry a release */
	atomic_store_explicit(&sp_span_entry(ref)->word[SP_SPAN_WORD_ID], 0, memory_order_relaxed);
	if (spare != NULL && spare->n < SP_SPAN_SPARE_MAX)
		spare->ref[spare->n++] = next_use;
	else
		sp_span_table_give_shared(next_use);
}

#endif
