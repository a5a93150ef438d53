/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an open span by its reference, and notes that it has a sample. Runs inside the sampling
 * signal handler or in APP context. The span may end at any moment, and its entry be reused, so the
 * id is checked before and after.
 */
#include "sampler/open_spans/span_table_sig.h"

#include "sampler/open_spans/span_free_list.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_span_words *_Atomic sp_span_words;
_Atomic uint64_t *_Atomic sp_span_noted;
SP_TLS struct sp_span_spare *sp_span_spare_own;

/*
 * The exchange fails if others note a sample in the same entry, among them handlers of the same
 * span.
 */
#define NOTE_TRIES 4

/* The entry while it holds that span, otherwise NULL. */
static struct sp_span_words *entry_of(uint32_t ref, uint64_t span_id)
{
	/* pairs with the release in sp_span_table_init() */
	struct sp_span_words *all = atomic_load_explicit(&sp_span_words, memory_order_acquire);
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;

	if (all == NULL || n >= SP_SPANS_MAX || span_id == 0)
		return NULL;
	/* pairs with the releases in store(): the words that belong to this id, or newer ones */
	if (atomic_load_explicit(&all[n].word[SP_SPAN_WORD_ID], memory_order_acquire) != span_id)
		return NULL;
	return &all[n];
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

SP_SIGSAFE bool sp_span_table_is_open(uint32_t ref, uint64_t span_id)
{
	return entry_of(ref, span_id) != NULL;
}

static inline void note(uint32_t ref, uint64_t span_id, uint32_t first)
{
	_Atomic uint64_t *noted = atomic_load_explicit(&sp_span_noted, memory_order_acquire);
	uint64_t was;

	if (noted == NULL || entry_of(ref, span_id) == NULL)
		return;
	noted = &noted[first + (ref & SP_SPAN_NUMBER_MASK) - 1];
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
	note(ref, span_id, 0);
}

SP_SIGSAFE void sp_span_table_note_wait(uint32_t ref, uint64_t span_id)
{
	note(ref, span_id, SP_SPANS_MAX);
}
