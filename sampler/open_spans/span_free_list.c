/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack of the entries that were used and are free, which links them by number, and behind it those
 * that were never used. The change count beside the top keeps a slow caller from putting back a top that
 * went and came again meanwhile.
 */
#include "sampler/open_spans/span_free_list.h"

#include <errno.h>
#include <stdatomic.h>

#include "sampler/base/arena.h"

/* use count << SP_SPAN_NUMBER_BITS | next free entry's number + 1 */
static _Atomic uint32_t *next_free;
static _Atomic uint64_t top_free; /* change count << 32 | entry number + 1 */
static _Atomic uint32_t fresh;    /* entries never used yet start here */

int sp_span_free_list_init(void)
{
	next_free = sp_arena_map((size_t)SP_SPANS_MAX * sizeof(*next_free));
	return next_free != NULL ? 0 : -ENOMEM;
}

/* Off the shared stack, or never used; 0 = there is none. */
uint32_t sp_span_free_list_take_shared(void)
{
	uint64_t top = atomic_load_explicit(&top_free, memory_order_acquire);

	for (int tries = 0; tries < 1000 && (uint32_t)top != 0; tries++) {
		uint32_t n = (uint32_t)top;
		uint32_t next = atomic_load_explicit(&next_free[n - 1], memory_order_relaxed);
		uint64_t below = next & SP_SPAN_NUMBER_MASK;

		if (atomic_compare_exchange_weak_explicit(
			    &top_free, &top, ((top >> 32) + 1) << 32 | below, memory_order_acq_rel,
			    memory_order_acquire))
			return (next & ~SP_SPAN_NUMBER_MASK) | n;
	}
	uint32_t e = atomic_load_explicit(&fresh, memory_order_relaxed);

	do {
		if (e >= SP_SPANS_MAX)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&fresh, &e, e + 1, memory_order_relaxed,
							memory_order_relaxed));
	return e + 1;
}

void sp_span_free_list_give_shared(uint32_t ref)
{
	uint64_t top = atomic_load_explicit(&top_free, memory_order_relaxed);
	uint32_t n = ref & SP_SPAN_NUMBER_MASK;

	do {
		atomic_store_explicit(&next_free[n - 1],
				      (ref & ~SP_SPAN_NUMBER_MASK) | (uint32_t)top,
				      memory_order_relaxed);
	} while (
		!atomic_compare_exchange_weak_explicit(&top_free, &top, ((top >> 32) + 1) << 32 | n,
						       memory_order_acq_rel, memory_order_relaxed));
}

void sp_span_free_list_thread_ended(struct sp_span_spare *spare)
{
	while (spare->n > 0)
		sp_span_free_list_give_shared(spare->ref[--spare->n]);
}

uint32_t sp_span_free_list_used(void)
{
	return atomic_load_explicit(&fresh, memory_order_relaxed);
}

void sp_span_free_list_wipe(void)
{
	/* what others had at hand goes with their blocks, when these are claimed again */
	if (sp_span_spare_own != NULL)
		sp_span_spare_own->n = 0;
	sp_arena_wipe((void *)(uintptr_t)next_free, (size_t)SP_SPANS_MAX * sizeof(*next_free));
	atomic_store_explicit(&top_free, 0, memory_order_relaxed);
	atomic_store_explicit(&fresh, 0, memory_order_relaxed);
}
