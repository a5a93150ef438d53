/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of the span table, which span_table.c writes and the signal handler reads. For
 * span_table.c, span_table_sig.c and span_keys.c alone.
 */
#ifndef SP_SPAN_TABLE_SIG_H
#define SP_SPAN_TABLE_SIG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

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

/* The id is 0 before the first use and after the span's removal. */
enum { SP_SPAN_WORD_ID = 0, SP_SPAN_WORD_HANDLE = 2, SP_SPAN_WORD_NAMES = 6 };

/*
 * A reference to an entry: its number + 1, and above that how often the entry was used before.
 * Without the count, a slow caller could take a reused entry for the span that it had found.
 */
#define SP_SPAN_NUMBER_BITS 15U
#define SP_SPAN_NUMBER_MASK ((1U << SP_SPAN_NUMBER_BITS) - 1)
_Static_assert(SP_SPANS_MAX <= SP_SPAN_NUMBER_MASK, "a number and its 1 fit");

/* NULL before sp_span_table_init(), and the same from then on. */
extern struct sp_span_words *_Atomic sp_span_words;

/*
 * For each entry the id of the last span that was sampled, and after these for each of the last that has a wait in a
 * profile. An id and not a flag: if a slow handler writes it after the entry was reused, it does not count for the
 * next span.
 */
#define SP_SPAN_NOTES 2U
extern _Atomic uint64_t *_Atomic sp_span_noted;

#endif
