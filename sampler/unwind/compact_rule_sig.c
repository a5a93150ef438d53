/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the compact rule of a row, and applies it with every read checked by itself. The fast path
 * applies the same rules where the whole frame is known to be readable.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/compact_rule_sig.h"

#include <errno.h>
#include <stddef.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define WORD ((int32_t)sizeof(uintptr_t))
#define BYTES_MAX (0xffff * WORD)
#define PLACES_PER_WORD 8U
/*
 * Registers, by their bits, that hold a frame's own return address or pc. A CFA is never relative
 * to them.
 */
#define CODE_REGS (UINT64_C(1) << SP_ARCH_REG_RETURN | UINT64_C(1) << SP_ARCH_REG_PC)

/* sp is the CFA by definition; rows with a rule of its own for it are rare. */
static bool is_saved(const struct sp_cfi_row *row, unsigned reg)
{
	int32_t value = row->rules.value[reg];

	return row->rules.how[reg] == SP_CFI_OFFSET && reg != SP_ARCH_REG_SP && value < 0 &&
	       value >= -BYTES_MAX && value % WORD == 0;
}

/*
 * How far below the CFA the lowest saved register is, in bytes. -1 if a register has a rule of
 * another kind.
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
	 * On architectures where the return address has a column of its own, "same value" would
	 * make the frame its own caller. And a damaged CIE may count the CFA from the pc, where no
	 * stack is.
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

static void restore(uint64_t *saved, uint64_t places, uintptr_t bottom, struct sp_regs *regs,
		    struct sp_stack_view *stack)
{
	for (; places != 0; places >>= 8, *saved &= *saved - 1) {
		unsigned reg = (unsigned)__builtin_ctzll(*saved);
		uintptr_t value;

		if (sp_stack_read(stack, sp_compact_rule_place(places, bottom), sizeof(value),
				  &value))
			sp_regs_set(regs, reg, value);
		else
			regs->known &= ~(UINT64_C(1) << reg);
	}
}

SP_SIGSAFE int sp_compact_rule_apply(const struct sp_compact_rule *rule, struct sp_regs *regs,
				     struct sp_stack_view *stack)
{
	uint64_t first = rule->word[0];
	unsigned base = sp_compact_rule_base(first);
	uint64_t saved = rule->word[2] & SP_COMPACT_RULE_SAVED;
	uintptr_t bottom;
	uintptr_t pc;

	if ((first & SP_COMPACT_RULE_OUTERMOST) != 0)
		return 0;
	if (!sp_regs_known(regs, base))
		return -EINVAL;
	bottom = sp_compact_rule_bottom(first, regs->r[base]);
	if ((first & SP_COMPACT_RULE_LINKED) == 0) {
		if (!sp_stack_read(stack, sp_compact_rule_return(first, bottom), sizeof(pc), &pc))
			return -EFAULT;
	} else {
		if (!sp_regs_known(regs, SP_ARCH_REG_RETURN))
			return -EFAULT;
		pc = regs->r[SP_ARCH_REG_RETURN];
	}
	restore(&saved, rule->word[1], bottom, regs, stack);
	restore(&saved, rule->word[2] >> SP_COMPACT_RULE_MORE_SHIFT, bottom, regs, stack);
	pc = sp_arch_strip(pc);
	sp_regs_set(regs, SP_ARCH_REG_RETURN, pc);
	sp_regs_set(regs, SP_ARCH_REG_SP, bottom + sp_compact_rule_bytes(first));
	sp_regs_set_pc(regs, pc);
	return pc == 0 ? 0 : 1;
}
