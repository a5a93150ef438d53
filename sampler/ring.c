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

/* What does not fit is dropped, but its words are zeroed all the same. */
static void take(char *out, uint64_t size, _Atomic uint64_t *from, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++) {
		uint64_t w = atomic_load_explicit(&from[i], memory_order_relaxed);

		if ((i + 1) * sizeof(w) <= size)
			memcpy(out + i * sizeof(w), &w, sizeof(w));
		atomic_store_explicit(&from[i], 0, memory_order_relaxed);
	}
}

uint64_t sp_ring_take(struct sp_ring *r, void *out, uint64_t size)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint64_t header;
	uint64_t len;

	if (r->word == NULL)
		return 0;
	do {
		_Atomic uint64_t *at = &r->word[(tail & (r->size - 1)) / 8];

		/* pairs with the release of the header in sp_ring_put_parts() */
		header = atomic_load_explicit(at, memory_order_acquire);
		if (header == 0)
			return 0;
		len = header & ~SP_RING_PAD;
		atomic_store_explicit(at, 0, memory_order_relaxed);
		if (header & SP_RING_PAD) {
			tail += len;
		} else {
			take(out, size, at + 1, len / 8);
			tail += len + sizeof(uint64_t);
		}
		/* pairs with the acquire of tail in reserve(): zeroed before it is free */
		atomic_store_explicit(&r->tail, tail, memory_order_release);
	} while (header & SP_RING_PAD);
	return len;
}

unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_sample *s, void *arg),
		       void *arg, unsigned max)
{
	static struct sp_sample s; /* one consumer; 4 KiB would be much for a small stack */
	unsigned n = 0;

	while (n < max && sp_ring_take(r, &s, sizeof(s)) != 0) {
		n++;
		put(&s, arg);
	}
	return n;
}
