/* SPDX-License-Identifier: Apache-2.0 */
/* Producer side of the ring. Runs in the signal handler of any thread; lock-free and bounded. */
#include "sampler/ring.h"

#include <errno.h>
#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Losing a race this often in a row means hundreds of threads in the handler: drop and count. */
#define PUT_TRIES 128

/* Reserves need bytes, plus the rest of the ring's end when they do not fit there. */
static int reserve(struct sp_ring *r, uint64_t need, uint64_t *at, uint64_t *skip)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	for (int i = 0; i < PUT_TRIES; i++) {
		/* pairs with the release of tail in drain(): what it freed is zeroed */
		uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
		uint64_t end = r->size - (head & (r->size - 1));

		/* The consumer has passed what we read as head: it is stale, the ring is not full. */
		if ((int64_t)(head - tail) < 0) {
			head = atomic_load_explicit(&r->head, memory_order_relaxed);
			continue;
		}
		*skip = end < need ? end : 0;
		if (head - tail + *skip + need > r->size)
			return -ENOSPC;
		*at = head;
		if (atomic_compare_exchange_weak_explicit(&r->head, &head, head + *skip + need,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return 0;
	}
	return -ENOSPC;
}

SP_SIGSAFE int sp_ring_put(struct sp_ring *r, const struct sp_sample *s)
{
	uint64_t len = offsetof(struct sp_sample, pc) + (uint64_t)s->depth * sizeof(s->pc[0]);
	uint64_t need = len + sizeof(uint64_t);
	uint64_t at;
	uint64_t skip;

	if (r->word == NULL || s->depth > SP_FRAMES_MAX || reserve(r, need, &at, &skip) != 0)
		return -ENOSPC;
	uint64_t mask = r->size / sizeof(uint64_t) - 1;

	if (skip != 0) {
		/* pairs with the acquire in drain() */
		atomic_store_explicit(&r->word[(at / 8) & mask], SP_RING_PAD | skip,
				      memory_order_release);
		at += skip;
	}
	const char *from = (const char *)s;
	_Atomic uint64_t *to = &r->word[(at / 8) & mask];

	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t w;

		memcpy(&w, from + i * sizeof(w), sizeof(w));
		atomic_store_explicit(&to[1 + i], w, memory_order_relaxed);
	}
	/* pairs with the acquire in drain(): the record before its header */
	atomic_store_explicit(to, len, memory_order_release);
	return 0;
}

_Static_assert(offsetof(struct sp_sample, pc) % 8 == 0, "records are whole words");
