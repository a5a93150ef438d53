/* SPDX-License-Identifier: Apache-2.0 */
/* Consumer side and life of the ring. Contexts: APP (init, at activation), BG (drain). */
#include "sampler/ring.h"

#include <errno.h>
#include <string.h>

#include "sampler/arena.h"

int sp_ring_init(struct sp_ring *r, uint64_t size)
{
	memset(r, 0, sizeof(*r));
	r->word = sp_arena_map(size);
	if (r->word == NULL)
		return -ENOMEM;
	r->size = size;
	return 0;
}

void sp_ring_reset(struct sp_ring *r)
{
	sp_arena_wipe((void *)(uintptr_t)r->word, r->size);
	atomic_store_explicit(&r->head, 0, memory_order_relaxed);
	atomic_store_explicit(&r->tail, 0, memory_order_relaxed);
}

static void take(struct sp_sample *out, _Atomic uint64_t *from, uint64_t words)
{
	char *to = (char *)out;

	for (uint64_t i = 0; i < words; i++) {
		uint64_t w = atomic_load_explicit(&from[i], memory_order_relaxed);

		memcpy(to + i * sizeof(w), &w, sizeof(w));
		atomic_store_explicit(&from[i], 0, memory_order_relaxed);
	}
}

unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_sample *s, void *arg),
		       void *arg, unsigned max)
{
	static struct sp_sample s; /* one consumer; 4 KiB would be much for a small stack */
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	unsigned n = 0;

	if (r->word == NULL)
		return 0;
	while (n < max) {
		_Atomic uint64_t *at = &r->word[(tail & (r->size - 1)) / 8];
		/* pairs with the release of the header in put() */
		uint64_t header = atomic_load_explicit(at, memory_order_acquire);
		uint64_t len = header & ~SP_RING_PAD;

		if (header == 0)
			break;
		atomic_store_explicit(at, 0, memory_order_relaxed);
		if (header & SP_RING_PAD) {
			tail += len;
		} else {
			take(&s, at + 1, len / 8);
			tail += len + sizeof(uint64_t);
			n++;
		}
		/* pairs with the acquire of tail in reserve(): zeroed before it is free */
		atomic_store_explicit(&r->tail, tail, memory_order_release);
		if (!(header & SP_RING_PAD))
			put(&s, arg);
	}
	return n;
}
