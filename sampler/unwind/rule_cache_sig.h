/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common steps of a walk: compact rules, the cache of decoded rules, and the fast path, which
 * takes such steps with the walk's state in registers. Context: SIG.
 */
#ifndef SP_RULE_CACHE_SIG_H
#define SP_RULE_CACHE_SIG_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

/*
 * A compact rule: the common form of an unwinding rule in three words without pointers, so that it
 * fits into the rule cache and can be applied from registers. Rows have this form if the CFA is a
 * register plus a constant, registers are saved below the CFA at whole words, and the return
 * address is saved, too, or still in its own register.
 *
 * The saved registers lie close together at one end of the frame. So the place of a register is a
 * number of words, counted upwards from the lowest saved register, which is called the bottom.
 */
#define SP_COMPACT_RULE_WORDS 3U

/*
 * word[0], from bit 0: the offset of the bottom from the base register in bytes (32 bits, signed);
 * words from the bottom to the CFA (16); the place of the return address (8); the base register
 * (6); two flags. word[1]: the places of the first eight saved registers, + 1, a byte each; 0 = no
 * more. word[2]: a bit for each saved register except the return address (40 bits); the next
 * places.
 */
struct sp_compact_rule {
	uint64_t word[SP_COMPACT_RULE_WORDS];
};

#define SP_COMPACT_RULE_PLACES 11U
#define SP_COMPACT_RULE_PLACE_MAX 254U
#define SP_COMPACT_RULE_SAVED ((UINT64_C(1) << 40) - 1)
#define SP_COMPACT_RULE_MORE_SHIFT 40
/* The frame has no caller. */
#define SP_COMPACT_RULE_OUTERMOST (UINT64_C(1) << 62)
/* The return address is still in its register. */
#define SP_COMPACT_RULE_LINKED (UINT64_C(1) << 63)

_Static_assert(SP_ARCH_REGS <= 40, "a bit for each register");

static inline SP_SIGSAFE uintptr_t sp_compact_rule_bottom(uint64_t first, uintptr_t base)
{
	return base + (uintptr_t)(intptr_t)(int32_t)first;
}

static inline SP_SIGSAFE uintptr_t sp_compact_rule_bytes(uint64_t first)
{
	return (first >> 32 & 0xffff) * sizeof(uintptr_t);
}

static inline SP_SIGSAFE uintptr_t sp_compact_rule_return(uint64_t first, uintptr_t bottom)
{
	return bottom + (first >> 48 & 0xff) * sizeof(uintptr_t);
}

static inline SP_SIGSAFE unsigned sp_compact_rule_base(uint64_t first)
{
	return first >> 56 & 0x3f;
}

/* The address of the first of these places. */
static inline SP_SIGSAFE uintptr_t sp_compact_rule_place(uint64_t places, uintptr_t bottom)
{
	return bottom + ((places & 0xff) - 1) * sizeof(uintptr_t);
}

/* False if the row has no compact form. */
SP_SIGSAFE bool sp_compact_rule_make(const struct sp_cfi_row *row, struct sp_compact_rule *out);

/*
 * The rule cache: decoded rules in compact form, by pc. All threads of the process share one table,
 * because they run the same code: a new thread finds a full table and needs no memory of its own.
 *
 * A library can be replaced by another one at the same addresses (dlclose, dlopen), and an old rule
 * would then give a wrong stack. So a rule is stored under the identity of its object, and found
 * only by the identity that the object at that address has now. No hook and no invalidation is
 * needed.
 *
 * Several threads may write one slot at once, and a writer may be interrupted and never continue.
 * So the first word of a slot is a checksum over key and rule: a slot with words of two writers
 * matches no key, and is not found. No thread ever waits.
 */

/*
 * Two slots for each hash, in one cache line; 256 KiB in all. Only used pages take memory.
 */
#define SP_RULE_CACHE_SLOTS 8192U
#define SP_RULE_CACHE_WAYS 2U

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

/* The table; the inline functions below read it. */
extern struct sp_rule_set *_Atomic sp_rule_sets;

/* SIG. The table for sp_rule_cache_find(); NULL = there is none. */
static inline SP_SIGSAFE struct sp_rule_set *sp_rule_cache(void)
{
	/* pairs with the release in sp_rule_cache_init() */
	return atomic_load_explicit(&sp_rule_sets, memory_order_acquire);
}

/*
 * APP, at activation. Reserves the table. Idempotent. 0 or -ENOMEM; without the table no rule is
 * found.
 */
static inline int sp_rule_cache_init(void)
{
	struct sp_rule_set *sets = sp_rule_cache();

	if (sets == NULL)
		sets = sp_arena_map(SP_RULE_CACHE_SETS * sizeof(*sets));
	if (sets == NULL)
		return -ENOMEM;
	/* pairs with the acquire in sp_rule_cache() */
	atomic_store_explicit(&sp_rule_sets, sets, memory_order_release);
	return 0;
}

/*
 * Fibonacci hashing; return addresses differ in their low bits. A caller's pc is the return address
 * on the stack less 1, so 1 is added again: a walk waits for each of these operations.
 */
static inline SP_SIGSAFE uint64_t sp_rule_hash(uintptr_t pc)
{
	return ((uint64_t)pc + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/*
 * The bits of the hash from 32 on are the number of the set; a shift makes the set's offset of it.
 */
static inline SP_SIGSAFE struct sp_rule_set *sp_rule_set_of(struct sp_rule_set *sets, uint64_t hash)
{
	uint64_t offset = hash >> (32 - SP_RULE_SET_SHIFT) &
			  ((uint64_t)(SP_RULE_CACHE_SETS - 1) << SP_RULE_SET_SHIFT);

	return (struct sp_rule_set *)(void *)((char *)sets + offset);
}

/*
 * The words are multiplied, because those of rules are small and similar: with a plain XOR a change
 * in one word could cancel a change in another.
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

/* SIG. sets is the result of sp_rule_cache() and not NULL; identity is not 0. */
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

/* The state of a walk between two steps. */
struct sp_walk {
	struct sp_regs regs; /* sp is known */
	struct sp_stack_view stack;
	bool interrupted; /* regs.pc is the next instruction to run, not a return address */
	bool unreadable;  /* there is call frame information in a form that we do not read */
	bool undescribed; /* an object on the stack has no call frame information in memory */
	struct sp_object_cache objects;
};

/*
 * Takes at most max steps. Returns their number, and writes the pc of each frame that a step has
 * passed (in record.h's convention).
 */
SP_SIGSAFE unsigned sp_fast_path(struct sp_walk *w, uint64_t *pc, unsigned max);

#endif
