/* SPDX-License-Identifier: Apache-2.0 */
/* Copies function tables without a lock (haproxy_table.h). APP context. */
#include "preload/sdk/haproxy/haproxy_table.h"

#include "preload/sdk/haproxy/haproxy_versions.h"

/* Threads that come here at the same time write the same words, so none has to wait for another. */
static void fill(struct sp_haproxy_table *t, const uintptr_t *own, size_t slots,
		 const struct sp_haproxy_swap *swaps)
{
	for (size_t i = 0; i < slots; i++) {
		uintptr_t word = own[i];

		for (const struct sp_haproxy_swap *s = swaps; s->function != NULL; s++) {
			if (s->slot == i)
				word = (uintptr_t)s->function;
		}
		atomic_store_explicit(&t->copy[i], word, memory_order_relaxed);
	}
	/* pairs with the load in sp_haproxy_table_copy() */
	atomic_store_explicit(&t->ready, true, memory_order_release);
}

const void *sp_haproxy_table_copy(struct sp_haproxy_table *t, const void *function, const void *own,
				  size_t slots, const struct sp_haproxy_swap *swaps)
{
	/* given to readers only when its words no longer change */
	const void *copy = (const void *)(uintptr_t)t->copy;
	const void *first = NULL;

	if (atomic_load_explicit(&t->ready, memory_order_acquire))
		return own == sp_haproxy_table_own(t) ? copy : NULL;
	if (own == atomic_load_explicit(&t->refused, memory_order_relaxed))
		return NULL;
	if (slots > SP_HAPROXY_SPAN_SLOTS || !sp_haproxy_table_ok(function, own, slots)) {
		atomic_store_explicit(&t->refused, own, memory_order_relaxed);
		return NULL;
	}
	if (!atomic_compare_exchange_strong_explicit(&t->own, &first, own, memory_order_relaxed,
						     memory_order_relaxed) &&
	    first != own)
		return NULL;
	fill(t, own, slots, swaps);
	return copy;
}
