/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an open span by its reference, inside the sampling signal handler or in APP context. */
#include "sampler/span_table_sig.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_span_words *_Atomic sp_span_words;
_Atomic uint64_t *_Atomic sp_span_noted;

/* Others that note a sample in the same entry can make it fail; one of them is a handler of the same span. */
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
	/* acquire: a word of the entry's next span shows that the id has gone, below */
	names = atomic_load_explicit(&e->word[SP_SPAN_WORD_NAMES], memory_order_acquire);
	if (entry_of(ref, span_id) == NULL)
		return false;
	memcpy(out, &names, sizeof(*out));
	return true;
}

SP_SIGSAFE void sp_span_table_note_sample(uint32_t ref, uint64_t span_id)
{
	_Atomic uint64_t *noted = atomic_load_explicit(&sp_span_noted, memory_order_acquire);
	uint64_t was;

	if (noted == NULL || entry_of(ref, span_id) == NULL)
		return;
	noted = &noted[(ref & SP_SPAN_NUMBER_MASK) - 1];
	for (int i = 0; i < NOTE_TRIES; i++) {
		/*
		 * The note before the entry: what was noted of the entry's next span must not be taken
		 * for what was there before. Where the span ends between here and the exchange, and
		 * the next one is noted, the exchange fails; where it is not, its own note replaces
		 * ours. Pairs with the release below: the note of a span, and that it is open.
		 */
		was = atomic_load_explicit(noted, memory_order_acquire);
		if (entry_of(ref, span_id) == NULL || was == span_id ||
		    atomic_compare_exchange_strong_explicit(
			    noted, &was, span_id, memory_order_release, memory_order_relaxed))
			return;
	}
}
