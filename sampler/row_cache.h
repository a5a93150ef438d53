/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of rules that were decoded before, by pc: one table for all threads of the process, since
 * they run the same code, so a new thread finds it warm and a thread costs no memory of its own.
 *
 * A row is kept under the identity of the object that it was decoded from, and found only under
 * the identity that the object at that address has now (object_id_sig.h). So nothing has to be told
 * of dlclose and dlopen: what belongs to an object that is gone is never found again.
 *
 * Contexts: SIG (find, keep), APP (init). Lock-free: a reader that meets a writer misses, a writer
 * that meets another one keeps nothing. A slot whose writer never came back (fork, siglongjmp out
 * of a handler that interrupted ours) stays unused.
 */
#ifndef SP_ROW_CACHE_H
#define SP_ROW_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/short_row_sig.h"

/* Two slots for each hash; 64 bytes each, 512 KiB in all, of which only what is used gets memory. */
#define SP_ROW_CACHE_SLOTS 8192U

/* APP, at activation. Reserves the table. Idempotent. 0 or -ENOMEM; without it nothing is found. */
int sp_row_cache_init(void);

#define SP_ROW_CACHE_WAYS 2U
#define SP_ROW_WORDS (sizeof(struct sp_short_row) / sizeof(uint64_t))

/*
 * A sequence lock of which nobody waits for the other: its words are read with acquire and written
 * with release order, so that none can pass the version.
 */
struct sp_row_slot {
	_Atomic uint64_t version; /* odd while a writer is in it */
	_Atomic uint64_t pc;      /* 0 = empty */
	_Atomic uint64_t identity;
	_Atomic uint64_t word[SP_ROW_WORDS];
};

_Static_assert(sizeof(struct sp_row_slot) == 64, "a slot is one cache line");
_Static_assert(SP_ROW_WORDS == 5, "sp_row_slot_read() copies five words");

/* For row_cache*.c and what is inline here. */
extern struct sp_row_slot *_Atomic sp_row_slots;

/* The slots that pc may be in. Fibonacci hashing; return addresses differ in their low bits. */
static inline SP_SIGSAFE struct sp_row_slot *sp_row_ways(uintptr_t pc)
{
	/* pairs with the release in sp_row_cache_init() */
	struct sp_row_slot *slots = atomic_load_explicit(&sp_row_slots, memory_order_acquire);
	uint64_t hash = (uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (slots == NULL)
		return NULL;
	return slots + hash % (SP_ROW_CACHE_SLOTS / SP_ROW_CACHE_WAYS) * SP_ROW_CACHE_WAYS;
}

/* Word by word: a wider load could not be served from the stores that are on their way. */
static inline SP_SIGSAFE void sp_row_slot_word(struct sp_row_slot *s, unsigned i,
					       struct sp_short_row *row)
{
	uint64_t word = atomic_load_explicit(&s->word[i], memory_order_acquire);

	__builtin_memcpy((char *)row + i * sizeof(word), &word, sizeof(word));
}

static inline SP_SIGSAFE bool sp_row_slot_read(struct sp_row_slot *s, uintptr_t pc,
					       uint64_t identity, struct sp_short_row *row)
{
	/* pairs with the last store of sp_row_cache_keep() */
	uint64_t version = atomic_load_explicit(&s->version, memory_order_acquire);

	if (atomic_load_explicit(&s->pc, memory_order_acquire) != pc ||
	    atomic_load_explicit(&s->identity, memory_order_acquire) != identity)
		return false;
	sp_row_slot_word(s, 0, row);
	sp_row_slot_word(s, 1, row);
	sp_row_slot_word(s, 2, row);
	sp_row_slot_word(s, 3, row);
	sp_row_slot_word(s, 4, row);
	return (version & 1) == 0 &&
	       atomic_load_explicit(&s->version, memory_order_relaxed) == version;
}

/* SIG. identity is not 0. */
static inline SP_SIGSAFE bool sp_row_cache_find(uintptr_t pc, uint64_t identity,
						struct sp_short_row *row)
{
	struct sp_row_slot *s = sp_row_ways(pc);

	return s != NULL && (sp_row_slot_read(&s[0], pc, identity, row) ||
			     sp_row_slot_read(&s[1], pc, identity, row));
}

/* SIG. Replaces an outdated row of the same pc, or another one. identity is not 0. */
SP_SIGSAFE void sp_row_cache_keep(uintptr_t pc, uint64_t identity, const struct sp_short_row *row);

#endif
