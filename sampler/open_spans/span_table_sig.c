/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the span table, by id, by handle and by reference, and notes that a span has a sample. Runs
 * inside the sampling signal handler or in APP context. The span may end at any moment, and its entry
 * be reused, so the key is checked before and after.
 */
#include "sampler/open_spans/span_table.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_span_tables sp_span_tables;
SP_TLS struct sp_span_spare *sp_span_spare_own;

/*
 * The exchange fails if others note a sample in the same entry, among them handlers of the same
 * span.
 */
#define NOTE_TRIES 4

/* The record that a cell leads to, if it has the key and is still the one that the cell leads to. */
static inline bool take_copy(_Atomic uint64_t *c, uint64_t hash, int word, uint64_t key,
			     struct sp_span_record *out)
{
	uint32_t ref = sp_span_index_ref(sp_span_index_load(c, hash));

	if (ref == 0 ||
	    atomic_load_explicit(&sp_span_entry(ref)->word[word], memory_order_relaxed) != key)
		return false;
	sp_span_load(ref, out);
	/* Still the same span after the copy? Its cell is cleared before the entry is reused. */
	return sp_span_index_ref(atomic_load_explicit(c, memory_order_relaxed)) == ref;
}

/* noinline, as this is rare: keys that are not in their home line, and lines with equal tags. */
static __attribute__((noinline)) bool find_anywhere(struct sp_span_line *index,
						    enum sp_span_index_from from, uint64_t key,
						    int word, struct sp_span_record *out)
{
	uint64_t hash = sp_span_index_hash(key);

	for (uint32_t i = from; i < from + SP_SPAN_INDEX_REACH; i++) {
		struct sp_span_line *line = sp_span_index_line(index, hash, i);

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
static inline __attribute__((always_inline)) bool find(struct sp_span_line *index,
						       enum sp_span_index_from from, uint64_t key,
						       int word, struct sp_span_record *out)
{
	uint64_t hash = sp_span_index_hash(key);
	struct sp_span_line *line = sp_span_index_line(index, hash, from);
	uint32_t c = sp_span_index_match(line, hash);

	if (c == SP_SPAN_INDEX_CELLS && !sp_span_index_further(line))
		return false;
	if (c < SP_SPAN_INDEX_CELLS && take_copy(&line->cell[c], hash, word, key, out)) {
		if (word == SP_SPAN_WORD_ID)
			out->cell = &line->cell[c];
		return true;
	}
	return find_anywhere(index, from, key, word, out);
}

/* noinline, as this is rare: ids whose line in front is, or was, full and has no matching tag. */
static __attribute__((noinline)) bool find_behind(struct sp_span_line *index, uint64_t span_id,
						  struct sp_span_record *out)
{
	return find(index, SP_SPAN_INDEX_AT_BACK, span_id, SP_SPAN_WORD_ID, out);
}

SP_SIGSAFE bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out)
{
	struct sp_span_line *index = sp_span_index_by_id();
	uint64_t hash = sp_span_index_hash(span_id);
	const struct sp_span_line *front;

	if (index == NULL || span_id == 0)
		return false;
	front = sp_span_index_line(index, hash, 0);
	if (sp_span_index_further(front) && sp_span_index_match(front, hash) == SP_SPAN_INDEX_CELLS)
		return find_behind(index, span_id, out);
	return find(index, SP_SPAN_BY_ID_FROM, span_id, SP_SPAN_WORD_ID, out);
}

bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out)
{
	return sp_span_index_by_id() != NULL && handle != 0 &&
	       find(sp_span_tables.by_handle, SP_SPAN_BY_HANDLE_FROM, handle, SP_SPAN_WORD_HANDLE,
		    out);
}

/* The entry while it holds that span, otherwise NULL. */
static struct sp_span_words *entry_of(uint32_t ref, uint64_t span_id)
{
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;
	struct sp_span_words *e;

	if (sp_span_index_by_id() == NULL || n >= SP_SPANS_MAX || span_id == 0)
		return NULL;
	e = sp_span_entry(ref);
	/* pairs with the releases in store(): the words that belong to this id, or newer ones */
	if (atomic_load_explicit(&e->word[SP_SPAN_WORD_ID], memory_order_acquire) != span_id)
		return NULL;
	return e;
}

SP_SIGSAFE bool sp_span_table_names(uint32_t ref, uint64_t span_id, struct sp_span_names *out)
{
	struct sp_span_words *e = entry_of(ref, span_id);
	uint64_t names;

	if (e == NULL)
		return false;
	/*
	 * acquire: a word of the entry's next span is noticed, because the check below then
	 * finds another id
	 */
	names = atomic_load_explicit(&e->word[SP_SPAN_WORD_NAMES], memory_order_acquire);
	if (entry_of(ref, span_id) == NULL)
		return false;
	memcpy(out, &names, sizeof(*out));
	return true;
}

static inline void note(uint32_t ref, uint64_t span_id, enum sp_span_note which)
{
	_Atomic uint64_t *noted;
	uint64_t was;

	if (entry_of(ref, span_id) == NULL)
		return;
	noted = &sp_span_tables.noted[((ref & SP_SPAN_NUMBER_MASK) - 1) * SP_SPAN_NOTES + which];
	for (int i = 0; i < NOTE_TRIES; i++) {
		/*
		 * The old note is read before the entry is checked. If the span ends between here
		 * and the exchange and the next span in the entry is noted, the exchange fails. If
		 * the next span is not noted yet, its own note will replace ours. Pairs with the
		 * release below: whoever sees a note sees that its span was open.
		 */
		was = atomic_load_explicit(noted, memory_order_acquire);
		if (entry_of(ref, span_id) == NULL || was == span_id ||
		    atomic_compare_exchange_strong_explicit(
			    noted, &was, span_id, memory_order_release, memory_order_relaxed))
			return;
	}
}

SP_SIGSAFE void sp_span_table_note_sample(uint32_t ref, uint64_t span_id)
{
	note(ref, span_id, SP_SPAN_NOTE_SAMPLE);
}

SP_SIGSAFE void sp_span_table_note_wait(uint32_t ref, uint64_t span_id)
{
	note(ref, span_id, SP_SPAN_NOTE_WAIT);
}
