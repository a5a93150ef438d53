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

/* The id is 0 before the first use and after the span's release. */
enum { SP_SPAN_WORD_ID = 0, SP_SPAN_WORD_HANDLE = 2, SP_SPAN_WORD_NAMES = 6 };

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

static inline SP_SIGSAFE void sp_span_load(uint32_t ref, struct sp_span_record *r)
{
	const struct sp_span_words *e = sp_span_entry(ref);

#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w = atomic_load_explicit(&e->word[i], memory_order_acquire);

		__builtin_memcpy((char *)r + i * sizeof(w), &w, sizeof(w));
	}
	r->ref = ref;
	r->cell = NULL;
}

#endif
