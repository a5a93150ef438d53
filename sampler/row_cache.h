/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of rules that were decoded before, by pc: one table for all threads of the process, since
 * they run the same code, so a new thread finds it warm and a thread costs no memory of its own.
 *
 * A row is kept under the identity of the object that it was decoded from, and found only under
 * the identity that the object at that address has now (object_identity_sig.h). So nothing has to be told
 * of dlclose and dlopen: what belongs to an object that is gone is not found again unless it returns.
 *
 * Contexts: SIG (find, keep), APP (init). Lock-free, and nobody waits or leaves a mess: a slot's first
 * word is key and row folded into one, so a slot that several threads write at once, or one that was
 * interrupted, is that of no key. Keys differ in all of their bits, and so does what words are folded
 * to, so a mixture of rows that folds to the right word is as likely as two objects with one identity.
 */
#ifndef SP_ROW_CACHE_H
#define SP_ROW_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/short_row_sig.h"

/* Two slots for each hash, in one cache line; 256 KiB in all, of which only what is used gets memory. */
#define SP_ROW_CACHE_SLOTS 8192U
#define SP_ROW_CACHE_WAYS 2U

/* APP, at activation. Reserves the table. Idempotent. 0 or -ENOMEM; without it nothing is found. */
int sp_row_cache_init(void);

struct sp_row_slot {
	_Atomic uint64_t folded; /* 0 = empty */
	_Atomic uint64_t word[SP_SHORT_ROW_WORDS];
};

struct sp_row_set {
	struct sp_row_slot way[SP_ROW_CACHE_WAYS];
};

#define SP_ROW_CACHE_SETS (SP_ROW_CACHE_SLOTS / SP_ROW_CACHE_WAYS)
#define SP_ROW_SET_SHIFT 6
_Static_assert(sizeof(struct sp_row_set) == 1U << SP_ROW_SET_SHIFT, "a set is one cache line");

/* For row_cache*.c and what is inline here. */
extern struct sp_row_set *_Atomic sp_row_sets;

/* SIG. The table for sp_row_cache_find, NULL if there is none. */
static inline SP_SIGSAFE struct sp_row_set *sp_row_cache(void)
{
	/* pairs with the release in sp_row_cache_init() */
	return atomic_load_explicit(&sp_row_sets, memory_order_acquire);
}

/*
 * Fibonacci hashing; return addresses differ in their low bits. The pc of a caller is what was read
 * from the stack less 1, which is taken back here: a walk waits for each of these operations.
 */
static inline SP_SIGSAFE uint64_t sp_row_hash(uintptr_t pc)
{
	return ((uint64_t)pc + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The hash's bits from 32 up are the number of the set, and are here taken times its size. */
static inline SP_SIGSAFE struct sp_row_set *sp_row_set_of(struct sp_row_set *sets, uint64_t hash)
{
	uint64_t offset = hash >> (32 - SP_ROW_SET_SHIFT) &
			  ((uint64_t)(SP_ROW_CACHE_SETS - 1) << SP_ROW_SET_SHIFT);

	return (struct sp_row_set *)(void *)((char *)sets + offset);
}

/* Multiplied, since the words of rows are small and alike and would make up for each other's changes. */
static inline SP_SIGSAFE uint64_t sp_row_fold(uint64_t key, const struct sp_short_row *row)
{
	return key ^ row->word[0] ^ row->word[1] * UINT64_C(0xc2b2ae3d27d4eb4f) ^
	       row->word[2] * UINT64_C(0xff51afd7ed558ccd);
}

static inline SP_SIGSAFE bool sp_row_slot_read(struct sp_row_slot *s, uint64_t key,
					       struct sp_short_row *row)
{
	row->word[0] = atomic_load_explicit(&s->word[0], memory_order_relaxed);
	row->word[1] = atomic_load_explicit(&s->word[1], memory_order_relaxed);
	row->word[2] = atomic_load_explicit(&s->word[2], memory_order_relaxed);
	return sp_row_fold(key, row) == atomic_load_explicit(&s->folded, memory_order_relaxed);
}

/* SIG. sets is what sp_row_cache() said, and not NULL; identity is not 0. */
static inline SP_SIGSAFE bool sp_row_cache_find(struct sp_row_set *sets, uintptr_t pc,
						uint64_t identity, struct sp_short_row *row)
{
	uint64_t hash = sp_row_hash(pc);
	struct sp_row_set *set = sp_row_set_of(sets, hash);

	return sp_row_slot_read(&set->way[0], hash ^ identity, row) ||
	       sp_row_slot_read(&set->way[1], hash ^ identity, row);
}

/* SIG. In an empty slot or instead of another row. identity is not 0. */
SP_SIGSAFE void sp_row_cache_keep(uintptr_t pc, uint64_t identity, const struct sp_short_row *row);

#endif
