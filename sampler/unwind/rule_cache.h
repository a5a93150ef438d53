/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule cache: compact rules that were decoded before, by pc. There is one table for all threads
 * of the process, because they run the same code: a new thread finds it warm, and a thread costs no
 * memory of its own.
 *
 * A library can be replaced by another one at the same addresses (dlclose, dlopen), and an old rule
 * would then give a wrong stack. A rule is therefore stored under the identity of its object
 * (object_identity_sig.h) and found only under the identity that the object at that address has
 * now. Nothing has to be hooked or invalidated.
 *
 * Several threads may write one slot at once, and a writer may be interrupted for good. The first
 * word of a slot is therefore a checksum over key and rule: a slot with words of two writers does
 * not match any key, and is simply not found. No thread ever waits. Contexts: SIG (find, keep), APP
 * (init).
 */
#ifndef SP_RULE_CACHE_H
#define SP_RULE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/unwind/compact_rule_sig.h"

/* Two slots for each hash, in one cache line; 256 KiB in all, of which only what is used gets memory. */
#define SP_RULE_CACHE_SLOTS 8192U
#define SP_RULE_CACHE_WAYS 2U

/* APP, at activation. Reserves the table. Idempotent. 0 or -ENOMEM; without it nothing is found. */
int sp_rule_cache_init(void);

struct sp_rule_slot {
	_Atomic uint64_t folded; /* 0 = empty */
	_Atomic uint64_t word[SP_COMPACT_RULE_WORDS];
};

struct sp_rule_set {
	struct sp_rule_slot way[SP_RULE_CACHE_WAYS];
};

#define SP_RULE_CACHE_SETS (SP_RULE_CACHE_SLOTS / SP_RULE_CACHE_WAYS)
#define SP_RULE_SET_SHIFT 6
_Static_assert(sizeof(struct sp_rule_set) == 1U << SP_RULE_SET_SHIFT, "a set is one cache line");

/* For rule_cache.c, rule_cache_sig.c and the inline functions here. */
extern struct sp_rule_set *_Atomic sp_rule_sets;

/* SIG. The table for sp_rule_cache_find, NULL if there is none. */
static inline SP_SIGSAFE struct sp_rule_set *sp_rule_cache(void)
{
	/* pairs with the release in sp_rule_cache_init() */
	return atomic_load_explicit(&sp_rule_sets, memory_order_acquire);
}

/*
 * Fibonacci hashing; return addresses differ in their low bits. The pc of a caller is what was read
 * from the stack less 1, which is taken back here: a walk waits for each of these operations.
 */
static inline SP_SIGSAFE uint64_t sp_rule_hash(uintptr_t pc)
{
	return ((uint64_t)pc + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The hash's bits from 32 up are the number of the set, and are here taken times its size. */
static inline SP_SIGSAFE struct sp_rule_set *sp_rule_set_of(struct sp_rule_set *sets, uint64_t hash)
{
	uint64_t offset = hash >> (32 - SP_RULE_SET_SHIFT) &
			  ((uint64_t)(SP_RULE_CACHE_SETS - 1) << SP_RULE_SET_SHIFT);

	return (struct sp_rule_set *)(void *)((char *)sets + offset);
}

/*
 * Multiplied, because the words of rules are small and alike: with a plain XOR a change in one
 * could cancel a change in another.
 */
static inline SP_SIGSAFE uint64_t sp_rule_fold(uint64_t key, const struct sp_compact_rule *rule)
{
	return key ^ rule->word[0] ^ rule->word[1] * UINT64_C(0xc2b2ae3d27d4eb4f) ^
	       rule->word[2] * UINT64_C(0xff51afd7ed558ccd);
}

static inline SP_SIGSAFE bool sp_rule_slot_read(struct sp_rule_slot *s, uint64_t key,
						struct sp_compact_rule *rule)
{
	rule->word[0] = atomic_load_explicit(&s->word[0], memory_order_relaxed);
	rule->word[1] = atomic_load_explicit(&s->word[1], memory_order_relaxed);
	rule->word[2] = atomic_load_explicit(&s->word[2], memory_order_relaxed);
	return sp_rule_fold(key, rule) == atomic_load_explicit(&s->folded, memory_order_relaxed);
}

/* SIG. sets is what sp_rule_cache() said, and not NULL; identity is not 0. */
static inline SP_SIGSAFE bool sp_rule_cache_find(struct sp_rule_set *sets, uintptr_t pc,
						 uint64_t identity, struct sp_compact_rule *rule)
{
	uint64_t hash = sp_rule_hash(pc);
	struct sp_rule_set *set = sp_rule_set_of(sets, hash);

	return sp_rule_slot_read(&set->way[0], hash ^ identity, rule) ||
	       sp_rule_slot_read(&set->way[1], hash ^ identity, rule);
}

/* SIG. Stores the rule in an empty slot or in place of another rule. identity is not 0. */
SP_SIGSAFE void sp_rule_cache_keep(uintptr_t pc, uint64_t identity,
				   const struct sp_compact_rule *rule);

#endif
