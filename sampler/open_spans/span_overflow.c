/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the spans and scopes that do not fit on a thread's stack (span_overflow.h). APP context;
 * lock-free.
 */
#include "sampler/open_spans/span_overflow.h"

#include <string.h>

#include "sampler/open_spans/span_stack.h"

static bool is_of_the_root(const struct sp_span_overflow *r, const struct sp_span_entry *e)
{
	return e->span_id != SP_SPAN_BLANK && e->root_id == r->root_id &&
	       (e->token == SP_SPAN_YIELDS) == r->yields;
}

static uint32_t storage_of(const struct sp_span_entry *e)
{
	return e->token < SP_SPAN_NO_SCOPE ? UINT32_C(1) << e->token % SP_SPAN_STORAGES : 0;
}

/* The handler does not look at any of this while the count is 0. */
static void begin(struct sp_span_overflow *r, const struct sp_span_entry *e)
{
	r->again = 0;
	r->yields = e->token == SP_SPAN_YIELDS;
	r->storages = storage_of(e);
	r->root_id = e->root_id;
	r->root_name_id = e->root_name_id;
	r->root_ref = e->root_id == e->span_id ? e->ref : e->root_ref;
	memcpy(r->trace_id, e->trace_id, sizeof(r->trace_id));
	atomic_store_explicit(&r->alike, e->span_id != SP_SPAN_BLANK, memory_order_relaxed);
}

void sp_span_overflow_add(struct sp_span_overflow *r, const struct sp_span_entry *e)
{
	uint32_t was = atomic_load_explicit(&r->open, memory_order_acquire);
	bool full;

	/* another thread may take the last one away meanwhile */
	do {
		if ((was & SP_SPAN_OVERFLOW_COUNT_MASK) == 0)
			begin(r, e);
		else if (!is_of_the_root(r, e))
			atomic_store_explicit(&r->alike, false, memory_order_relaxed);
		r->storages |= storage_of(e);
		full = (was & SP_SPAN_OVERFLOW_COUNT_MASK) == SP_SPAN_OVERFLOW_COUNT_MASK;
		/* the words that the handler reads, before the count that tells it to read them */
		atomic_signal_fence(memory_order_release);
	} while (!full && !atomic_compare_exchange_weak_explicit(&r->open, &was, was + 1,
								 memory_order_acq_rel,
								 memory_order_acquire));
}

void sp_span_overflow_leave(struct sp_span_overflow *r, uint32_t generation)
{
	uint32_t was = atomic_load_explicit(&r->open, memory_order_relaxed);

	while ((was & SP_SPAN_OVERFLOW_COUNT_MASK) != 0 &&
	       was >> SP_SPAN_OVERFLOW_COUNT_BITS == generation &&
	       !atomic_compare_exchange_weak_explicit(&r->open, &was, was - 1, memory_order_acq_rel,
						      memory_order_relaxed))
		continue;
}

void sp_span_overflow_clear(struct sp_span_overflow *r)
{
	uint32_t next = (sp_span_overflow_generation(r) + 1) % SP_SPAN_OVERFLOW_GENERATIONS;

	atomic_store_explicit(&r->open, next << SP_SPAN_OVERFLOW_COUNT_BITS, memory_order_release);
}
