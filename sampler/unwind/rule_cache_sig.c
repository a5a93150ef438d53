/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the compact rule of a row, stores rules in the cache, and takes the steps of the fast path
 * with them.
 *
 * Nearly every step of a walk uses a cached rule and a part of the stack that is proven readable.
 * The rule of each frame is found by the pc that the step before computed, so the time of a walk is
 * the latency of these two loads, one after the other. So all state that such a step changes is in
 * registers. The fast path stops at the first step of another kind, which unwind_sig.c takes. If
 * both can take a step, they have the same result.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/rule_cache_sig.h"

#include <errno.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define WORD ((int32_t)sizeof(uintptr_t))
#define BYTES_MAX (0xffff * WORD)
#define PLACES_PER_WORD 8U
/*
 * A bit for each register that has a frame's own return address or pc. A CFA is never relative to
 * such a register.
 */
#define CODE_REGS (UINT64_C(1) << SP_ARCH_REG_RETURN | UINT64_C(1) << SP_ARCH_REG_PC)

/* sp is the CFA by definition; rows with a separate rule for it are rare. */
static bool is_saved(const struct sp_cfi_row *row, unsigned reg)
{
	int32_t value = row->rules.value[reg];

	return row->rules.how[reg] == SP_CFI_OFFSET && reg != SP_ARCH_REG_SP && value < 0 &&
	       value >= -BYTES_MAX && value % WORD == 0;
}

/*
 * The distance in bytes from the CFA down to the lowest saved register. -1 if a register is neither
 * saved nor unchanged.
 */
static int32_t depth_of(const struct sp_cfi_row *row)
{
	int32_t depth = 0;

	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		if (row->rules.how[reg] == SP_CFI_SAME)
			continue;
		if (!is_saved(row, reg))
			return -1;
		if (-row->rules.value[reg] > depth)
			depth = -row->rules.value[reg];
	}
	return depth;
}

static bool add_places(const struct sp_cfi_row *row, int32_t depth, struct sp_compact_rule *out)
{
	unsigned n = 0;

	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		int32_t place = (row->rules.value[reg] + depth) / WORD;

		if (row->rules.how[reg] == SP_CFI_SAME)
			continue;
		if (place > (int32_t)SP_COMPACT_RULE_PLACE_MAX)
			return false;
		if (reg == row->return_reg) {
			out->word[0] |= (uint64_t)place << 48;
			continue;
		}
		if (n == SP_COMPACT_RULE_PLACES)
			return false;
		if (n < PLACES_PER_WORD)
			out->word[1] |= (uint64_t)(place + 1) << 8 * n;
		else
			out->word[2] |= (uint64_t)(place + 1)
					<< (SP_COMPACT_RULE_MORE_SHIFT + 8 * (n - PLACES_PER_WORD));
		out->word[2] |= UINT64_C(1) << reg;
		n++;
	}
	return true;
}

SP_SIGSAFE bool sp_compact_rule_make(const struct sp_cfi_row *row, struct sp_compact_rule *out)
{
	const struct sp_cfi_rules *rules = &row->rules;
	bool linked = rules->how[row->return_reg] == SP_CFI_SAME;
	int32_t bottom;
	int32_t depth;

	*out = (struct sp_compact_rule){.word = {0}};
	if (row->signal_frame)
		return false;
	if (rules->how[row->return_reg] == SP_CFI_UNDEFINED) {
		out->word[0] = SP_COMPACT_RULE_OUTERMOST;
		return true;
	}
	/*
	 * If the return address has a column of its own, "same value" would make the frame its own
	 * caller. And a damaged CIE may compute the CFA from the pc, where no stack is.
	 */
	if (rules->cfa_how != SP_CFI_REGISTER || rules->cfa_reg >= SP_ARCH_REGS ||
	    (CODE_REGS >> rules->cfa_reg & 1) != 0 || row->return_reg != SP_ARCH_REG_RETURN ||
	    (linked && SP_ARCH_REG_RETURN == SP_ARCH_REG_PC))
		return false;
	depth = depth_of(row);
	if (depth < 0 || __builtin_sub_overflow(rules->cfa_value, depth, &bottom))
		return false;
	out->word[0] = (uint32_t)bottom | (uint64_t)(depth / WORD) << 32 |
		       (uint64_t)rules->cfa_reg << 56 | (linked ? SP_COMPACT_RULE_LINKED : 0);
	return add_places(row, depth, out);
}

struct sp_rule_set *_Atomic sp_rule_sets;

/*
 * Chooses an empty slot, or one of the two by chance: slots do not record how often they are used.
 */
static struct sp_rule_slot *victim(struct sp_rule_set *set)
{
	uint64_t first = atomic_load_explicit(&set->way[0].folded, memory_order_relaxed);
	uint64_t second = atomic_load_explicit(&set->way[1].folded, memory_order_relaxed);

	if (first == 0 || second == 0)
		return &set->way[first != 0];
	return &set->way[(first ^ second) >> 32 & 1];
}

SP_SIGSAFE void sp_rule_cache_keep(uintptr_t pc, uint64_t identity,
				   const struct sp_compact_rule *rule)
{
	struct sp_rule_set *sets = sp_rule_cache();
	uint64_t hash = sp_rule_hash(pc);
	struct sp_rule_slot *s;

	if (sets == NULL)
		return;
	s = victim(sp_rule_set_of(sets, hash));
	for (unsigned i = 0; i < SP_COMPACT_RULE_WORDS; i++)
		atomic_store_explicit(&s->word[i], rule->word[i], memory_order_relaxed);
	atomic_store_explicit(&s->folded, sp_rule_fold(hash ^ identity, rule),
			      memory_order_relaxed);
}

struct fast_path {
	uintptr_t at; /* the return address; after an interruption pc + 1 */
	uintptr_t sp;
	uint64_t known;
	uintptr_t *r;    /* the walk's array of the other registers */
	uintptr_t lower; /* lowest address of the proven part of the stack */
	uintptr_t span;  /* its length in bytes */
};

SP_RAW static inline uintptr_t load(uintptr_t at)
{
	return *(const volatile uintptr_t *)at;
}

/*
 * Loads the caller's values of the registers that are saved at these places. Returns the bits of
 * the remaining registers.
 */
static inline uint64_t load_saved(uintptr_t *r, uint64_t saved, uint64_t places, uintptr_t bottom)
{
	for (; places != 0; places >>= 8, saved &= saved - 1)
		r[__builtin_ctzll(saved)] = load(sp_compact_rule_place(places, bottom));
	return saved;
}

/*
 * Whether the frame is in the proven part of the stack, is aligned, and ends above its callee's
 * frame (or at the beginning of that frame, if the return address is still in a register).
 */
static inline bool is_proven(const struct fast_path *s, uintptr_t bottom, uintptr_t bytes,
			     bool linked)
{
	return bottom - s->lower <= s->span && bytes <= s->span - (bottom - s->lower) &&
	       bottom % sizeof(bottom) == 0 && bottom + bytes + linked > s->sp;
}

/* Takes one step. False, without a change, if the rule or the frame is not of the common kind. */
static inline bool advance(struct fast_path *s, const struct sp_compact_rule *rule)
{
	uint64_t first = rule->word[0];
	uint64_t saved = rule->word[2] & SP_COMPACT_RULE_SAVED;
	uint64_t more = rule->word[2] >> SP_COMPACT_RULE_MORE_SHIFT;
	uintptr_t bytes = sp_compact_rule_bytes(first);
	unsigned reg = sp_compact_rule_base(first);
	uintptr_t base = s->sp;
	uintptr_t bottom;
	uintptr_t pc;
	bool linked;

	if (reg != SP_ARCH_REG_SP) {
		if ((s->known >> reg & 1) == 0)
			return false;
		base = s->r[reg];
	}
	bottom = sp_compact_rule_bottom(first, base);
	/* Only in the interrupted frame: for all others s->at is the return address. */
	linked = SP_ARCH_REG_RETURN != SP_ARCH_REG_PC && (first & SP_COMPACT_RULE_LINKED) != 0;
	if ((first & SP_COMPACT_RULE_OUTERMOST) != 0 ||
	    (linked && (s->known >> SP_ARCH_REG_RETURN & 1) == 0) ||
	    !is_proven(s, bottom, bytes, linked))
		return false;
	pc = sp_arch_strip(linked ? s->r[SP_ARCH_REG_RETURN]
				  : load(sp_compact_rule_return(first, bottom)));
	if (pc == 0)
		return false;
	s->known = (s->known & ~(UINT64_C(1) << SP_ARCH_REG_RETURN)) | saved;
	saved = load_saved(s->r, saved, rule->word[1], bottom);
	if (more != 0)
		(void)load_saved(s->r, saved, more, bottom);
	s->sp = bottom + bytes;
	s->at = pc;
	return true;
}

/*
 * Takes steps while the frames are in this object. *done becomes true if the walk cannot continue
 * in another object either.
 */
static inline unsigned advance_in(const struct sp_cached_object *cached, struct fast_path *s,
				  uint64_t *pc, unsigned max, bool *done)
{
	struct sp_rule_set *sets = sp_rule_cache();
	uintptr_t first = cached->start + 1;
	uintptr_t bytes = cached->end - cached->start;
	uint64_t identity = cached->identity;
	unsigned n = 0;

	*done = true;
	if (sets == NULL || identity == 0)
		return 0;
	while (n < max) {
		struct sp_compact_rule rule;

		if (s->at - first >= bytes) {
			*done = false;
			break;
		}
		if (!sp_rule_cache_find(sets, s->at - 1, identity, &rule))
			break;
		pc[n] = s->at - 1;
		if (!advance(s, &rule))
			break;
		n++;
	}
	return n;
}

SP_SIGSAFE unsigned sp_fast_path(struct sp_walk *w, uint64_t *pc, unsigned max)
{
	const struct sp_stack_view *stack = &w->stack;
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	/* the pages that were proven one by one, if the rest of the stack is not proven */
	bool is_probed = sp < stack->lo && stack->probed_hi > sp;
	uintptr_t proven = is_probed ? stack->probed_lo : stack->lo;
	uintptr_t lower = proven > stack->floor ? proven : stack->floor;
	uintptr_t upper =
		is_probed && stack->probed_hi < stack->ceiling ? stack->probed_hi : stack->ceiling;
	struct fast_path s = {
		.at = w->regs.pc + w->interrupted,
		.sp = sp,
		.known = w->regs.known,
		.r = w->regs.r,
		.lower = lower,
		.span = upper > lower ? upper - lower : 0,
	};
	bool done = false;
	unsigned n = 0;

	while (n < max && !done) {
		const struct sp_cached_object *cached = sp_object_cache_at(&w->objects, s.at - 1);
		unsigned before = n;

		if (cached != NULL)
			n += advance_in(cached, &s, pc + n, max - n, &done);
		if (n == before)
			break;
	}
	if (n == 0)
		return 0;
	w->interrupted = false;
	w->regs.known = s.known;
	sp_regs_set(&w->regs, SP_ARCH_REG_SP, s.sp);
	sp_regs_set(&w->regs, SP_ARCH_REG_RETURN, s.at);
	sp_regs_set_pc(&w->regs, s.at);
	return n;
}
