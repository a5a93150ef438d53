/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the span table by id, by handle and by reference, and marks spans that have a sample. Runs
 * inside the sampling signal handler or in APP context. The span may end at any moment and its
 * entry may be reused, so the key is checked before and after.
 */
#include "sampler/open_spans/span_table.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_span_tables sp_span_tables = {.spare_max = SP_SPAN_SPARE_MAX};
SP_TLS struct sp_span_spare *sp_span_spare_own;

/* The exchange fails if other threads or handlers mark a span in the same entry. */
#define NOTE_TRIES 4

/*
 * Copies the record of a cell's reference, if it has the key and the cell still has the reference
 * afterwards.
 */
static inline bool take_copy(const _Atomic uint64_t *c, uint64_t hash, int word, uint64_t key,
			     struct sp_span_record *out)
{
	uint32_t ref = sp_span_index_ref(sp_span_index_load(c, hash));

	if (ref == 0 || sp_span_word(sp_span_entry(ref), (unsigned)word) != key)
		return false;
	sp_span_load(ref, out);
	/* Does the entry still have that span? The cell is cleared before the entry is reused. */
	return sp_span_index_ref(atomic_load_explicit(c, memory_order_relaxed)) == ref;
}

static inline __attribute__((always_inline)) bool find(uint64_t key, int word,
						       struct sp_span_record *out)
{
	struct sp_span_line *index = sp_span_index();
	uint64_t hash = sp_span_index_hash(key);

	if (index == NULL || key == 0)
		return false;
	for (uint32_t i = 0; i < SP_SPAN_INDEX_REACH; i++) {
		struct sp_span_line *line = sp_span_index_line(index, hash, i);

#pragma GCC unroll 7
		for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++) {
			if (!take_copy(&line->cell[c], hash, word, key, out))
				continue;
			if (i <= 1)
				out->cell = &line->cell[c];
			return true;
		}
		if (i <= 1 && !sp_span_index_further(line))
			break;
	}
	return false;
}

SP_SIGSAFE bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out)
{
	return find(span_id, SP_SPAN_WORD_ID, out);
}

bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out)
{
	if (!find(handle, SP_SPAN_WORD_HANDLE, out))
		return false;
	out->cell = NULL;
	return true;
}

/* The entry while it has that span, otherwise NULL. */
static struct sp_span_words *entry_of(uint32_t ref, uint64_t span_id)
{
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;
	struct sp_span_words *e;

	if (sp_span_index() == NULL || n >= SP_SPANS_MAX || span_id == 0)
		return NULL;
	e = sp_span_entry(ref);
	/*
	 * pairs with the releases in store(): the words read later belong to this id or to a newer
	 * one
	 */
	if (atomic_load_explicit(&e->word[SP_SPAN_WORD_ID], memory_order_acquire) != span_id)
		return NULL;
	return e;
}

SP_SIGSAFE bool sp_span_table_holds(uint32_t ref, uint64_t span_id)
{
	return entry_of(ref, span_id) != NULL;
}

SP_SIGSAFE uint32_t sp_span_table_root_name(const struct sp_span_record *r)
{
	const struct sp_span_words *e = entry_of(r->root_ref, r->root_id);
	uint64_t names = e != NULL ? sp_span_word(e, SP_SPAN_WORD_NAMES) : 0;
	uint64_t renamed;

	/* Checked after the read, because it could be a word of the entry's next span. */
	if (e != NULL && (uint32_t)sp_span_word(e, SP_SPAN_WORD_PLACE) == r->root_ref &&
	    entry_of(r->root_ref, r->root_id) != NULL)
		return (uint32_t)(names >> 32);
	if (r->root_ref == 0)
		return r->root_name_id;
	renamed = atomic_load_explicit(sp_span_table_renamed(r->root_id, r->root_ref),
				       memory_order_relaxed);
	return renamed != 0 && (renamed & ~(uint64_t)UINT32_MAX) ==
				       sp_span_renamed_tag(r->root_id, r->root_ref)
		       ? (uint32_t)renamed
		       : r->root_name_id;
}

static inline void mark(uint32_t ref, uint64_t span_id, enum sp_span_mark which)
{
	_Atomic uint64_t *marked;
	uint64_t was;

	if (entry_of(ref, span_id) == NULL)
		return;
	marked = &sp_span_tables.marked[((ref & SP_SPAN_NUMBER_MASK) - 1) * SP_SPAN_MARKS + which];
	for (int i = 0; i < NOTE_TRIES; i++) {
		/*
		 * The old mark is read before the entry is checked. If the span ends between here
		 * and the exchange and the next span in the entry is marked, the exchange fails. If
		 * the next span is not marked yet, its own mark will replace ours. Pairs with the
		 * release below: a reader of a mark sees that its span was open.
		 */
		was = atomic_load_explicit(marked, memory_order_acquire);
		if (entry_of(ref, span_id) == NULL || was == span_id ||
		    atomic_compare_exchange_strong_explicit(
			    marked, &was, span_id, memory_order_release, memory_order_relaxed))
			return;
	}
}

SP_SIGSAFE void sp_span_table_mark_sample(uint32_t ref, uint64_t span_id)
{
	mark(ref, span_id, SP_SPAN_MARK_SAMPLE);
}

SP_SIGSAFE void sp_span_table_mark_wait(uint32_t ref, uint64_t span_id)
{
	mark(ref, span_id, SP_SPAN_MARK_WAIT);
}

/*
 * A thread closes a span first and reads the mark afterwards. If another thread closes the span now
 * and does not see the mark, the fence makes us see that the span is closed.
 */
SP_SIGSAFE bool sp_span_table_mark_allocation(uint32_t ref, uint64_t span_id)
{
	struct sp_span_record r;

	mark(ref, span_id, SP_SPAN_MARK_ALLOCATION);
	atomic_thread_fence(memory_order_seq_cst);
	return ref == 0 || sp_span_table_by_id(span_id, &r);
}
