/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that the program has set, one word for each entry of the span table. Context: APP. */
#include "sampler/open_spans/span_keys.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "sampler/open_spans/span_index.h"
#include "sampler/open_spans/span_table_sig.h"

#define KEYS UINT64_C(0xff)
/* Threads that set attributes of one span at the very same time. */
#define TRIES 64U

/*
 * The upper bits hold the hash of the span's id, so that keys of an earlier span in the same entry
 * do not count for the next one. Part of .bss, so its pages cost nothing until the first key.
 */
static _Atomic uint64_t words[SP_SPANS_MAX];
/* While no span ever had a key, the word need not be read, which would be a cache miss. */
static _Atomic bool any;

static _Atomic uint64_t *word_of(const struct sp_span_record *r)
{
	return &words[((r->ref & SP_SPAN_NUMBER_MASK) - 1) % SP_SPANS_MAX];
}

static uint64_t tag_of(const struct sp_span_record *r)
{
	return sp_span_index_hash(r->span_id) & ~KEYS;
}

static uint8_t keys_in(uint64_t word, const struct sp_span_record *r)
{
	return (word & ~KEYS) == tag_of(r) ? (uint8_t)(word & KEYS) : 0;
}

void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys)
{
	_Atomic uint64_t *w = word_of(r);
	uint64_t old = atomic_load_explicit(w, memory_order_relaxed);

	for (unsigned i = 0; i < TRIES; i++) {
		if (atomic_compare_exchange_weak_explicit(
			    w, &old, tag_of(r) | keys_in(old, r) | keys, memory_order_relaxed,
			    memory_order_relaxed))
			break;
	}
	/* pairs with sp_span_keys() */
	atomic_store_explicit(&any, true, memory_order_release);
}

uint8_t sp_span_keys(const struct sp_span_record *r)
{
	if (!atomic_load_explicit(&any, memory_order_acquire))
		return 0;
	return keys_in(atomic_load_explicit(word_of(r), memory_order_relaxed), r);
}
