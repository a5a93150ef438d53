/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the short form of a row from the long one, and applying it with every read checked by
 * itself.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/short_row_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

static bool place_of(int32_t value, struct sp_short_row *out, int16_t *place)
{
	*place = (int16_t)(value / SP_SHORT_ROW_WORD);
	if (*place >= 0 || *place * SP_SHORT_ROW_WORD != value)
		return false;
	if (*place < out->lowest)
		out->lowest = *place;
	return true;
}

/* sp is the CFA by definition; rows with a rule of its own for it are rare. */
static bool make_rules(const struct sp_cfi_row *row, struct sp_short_row *out)
{
	unsigned n = 0;

	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		int16_t *place = reg == row->return_reg ? &out->return_place : &out->place[n];

		if (row->rules.how[reg] == SP_CFI_SAME)
			continue;
		if (row->rules.how[reg] != SP_CFI_OFFSET || reg == SP_ARCH_REG_SP ||
		    n == SP_SHORT_ROW_PLACES || !place_of(row->rules.value[reg], out, place))
			return false;
		if (reg == row->return_reg)
			continue;
		out->head |= UINT64_C(1) << reg;
		n++;
	}
	return true;
}

SP_SIGSAFE bool sp_short_row_make(const struct sp_cfi_row *row, struct sp_short_row *out)
{
	const struct sp_cfi_rules *rules = &row->rules;

	*out = (struct sp_short_row){.cfa_value = rules->cfa_value};
	if (row->signal_frame)
		return false;
	if (rules->how[row->return_reg] == SP_CFI_UNDEFINED) {
		out->head = SP_SHORT_ROW_OUTERMOST;
		return true;
	}
	/* Where the return address has a column of its own, the frame's pc is not its caller's. And no
	 * caller is where its sp points, though a damaged CIE may say so. */
	if (rules->cfa_how != SP_CFI_REGISTER || row->return_reg == SP_ARCH_REG_SP ||
	    (rules->how[row->return_reg] == SP_CFI_SAME && row->return_reg == SP_ARCH_REG_PC))
		return false;
	out->head = (uint64_t)rules->cfa_reg << SP_SHORT_ROW_CFA_SHIFT |
		    (uint64_t)row->return_reg << SP_SHORT_ROW_RETURN_SHIFT;
	return make_rules(row, out);
}

static bool read_place(struct sp_stack_view *stack, uintptr_t cfa, int16_t place, uintptr_t *value)
{
	return sp_stack_read(stack, cfa + (uintptr_t)(place * SP_SHORT_ROW_WORD), sizeof(*value),
			     value);
}

SP_SIGSAFE int sp_short_row_apply_slowly(const struct sp_short_row *row, uintptr_t cfa,
					 struct sp_regs *regs, struct sp_stack_view *stack)
{
	unsigned return_reg = row->head >> SP_SHORT_ROW_RETURN_SHIFT & 0xff;
	const int16_t *place = row->place;
	uintptr_t pc = 0;

	if (row->return_place != 0 && !read_place(stack, cfa, row->return_place, &pc))
		return -EFAULT;
	if (row->return_place == 0 && !sp_regs_known(regs, return_reg))
		return -EFAULT;
	if (row->return_place == 0)
		pc = regs->r[return_reg];
	for (uint64_t saved = row->head & SP_SHORT_ROW_SAVED; saved != 0; saved &= saved - 1) {
		unsigned reg = (unsigned)__builtin_ctzll(saved);
		uintptr_t value;

		if (read_place(stack, cfa, *place++, &value))
			sp_regs_set(regs, reg, value);
		else
			regs->known &= ~(UINT64_C(1) << reg);
	}
	sp_regs_set(regs, return_reg, pc);
	sp_regs_set(regs, SP_ARCH_REG_SP, cfa);
	sp_regs_set_pc(regs, sp_arch_strip(pc));
	return regs->pc == 0 ? 0 : 1;
}
