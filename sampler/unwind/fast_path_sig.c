/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps through cached rules. The rule of each frame is found by the pc that the step before
 * computed, so the time of a walk is the latency of these two loads, one after the other. All state
 * that a step changes is therefore kept in registers.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/fast_path_sig.h"

#include "sampler/unwind/rule_cache.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct fast_path {
	uintptr_t at; /* where a call returns to; 1 past the pc of what was interrupted */
	uintptr_t sp;
	uint64_t known;
	uintptr_t *r;    /* the other registers, where the walk has them */
	uintptr_t lower; /* lowest address of the part of the stack that is proven readable */
	uintptr_t span;  /* its length in bytes */
};

SP_RAW static inline uintptr_t load(uintptr_t at)
{
	return *(const volatile uintptr_t *)at;
}

/*
 * Loads the caller's values of the registers that are saved at these places. Returns the bits of
 * the registers that are left.
 */
static inline uint64_t restore(uintptr_t *r, uint64_t saved, uint64_t places, uintptr_t bottom)
{
	for (; places != 0; places >>= 8, saved &= saved - 1)
		r[__builtin_ctzll(saved)] = load(sp_compact_rule_place(places, bottom));
	return saved;
}

/*
 * The frame lies in the proven part of the stack, is aligned, and ends above the frame of its
 * callee.
 */
static inline bool is_proven(const struct fast_path *s, uintptr_t bottom, uintptr_t bytes)
{
	return bottom - s->lower <= s->span && bytes <= s->span - (bottom - s->lower) &&
	       bottom % sizeof(bottom) == 0 && bottom + bytes > s->sp;
}

/* False if the rule or the frame is not of the common kind. Then nothing has changed. */
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

	if (reg != SP_ARCH_REG_SP) {
		if ((s->known >> reg & 1) == 0)
			return false;
		base = s->r[reg];
	}
	bottom = sp_compact_rule_bottom(first, base);
	if ((first & (SP_COMPACT_RULE_OUTERMOST | SP_COMPACT_RULE_LINKED)) != 0 ||
	    !is_proven(s, bottom, bytes))
		return false;
	pc = sp_arch_strip(load(sp_compact_rule_return(first, bottom)));
	if (pc == 0)
		return false;
	s->known |= saved;
	saved = restore(s->r, saved, rule->word[1], bottom);
	if (more != 0)
		(void)restore(s->r, saved, more, bottom);
	s->sp = bottom + bytes;
	s->at = pc;
	return true;
}

/*
 * Steps as long as the frames are in this object. *done becomes true if the walk cannot go on with
 * another object either.
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
	uintptr_t lower = stack->lo > stack->floor ? stack->lo : stack->floor;
	struct fast_path s = {
		.at = w->regs.pc + w->interrupted,
		.sp = w->regs.r[SP_ARCH_REG_SP],
		.known = w->regs.known,
		.r = w->regs.r,
		.lower = lower,
		.span = stack->ceiling > lower ? stack->ceiling - lower : 0,
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
