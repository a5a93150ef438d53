/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common row in 40 bytes and without pointers, so that it can be kept: the CFA by a register,
 * registers saved below it at multiples of 8 bytes, the return address among them or in a register
 * of its own. Applying it is most of what a walk does, hence inline. Context: SIG. Called by
 * unwind_sig.c.
 */
#ifndef SP_SHORT_ROW_SIG_H
#define SP_SHORT_ROW_SIG_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/arch_sig.h"
#include "sampler/cfi_sig.h"
#include "sampler/compiler.h"
#include "sampler/stack_bounds_sig.h"

#define SP_SHORT_ROW_PLACES 12U
/* Places count words down from the CFA. */
#define SP_SHORT_ROW_WORD ((intptr_t)sizeof(uintptr_t))

/*
 * In head: a bit for each saved register but the return address, then the number of the register
 * that the CFA counts from, then of the one that holds the return address.
 */
#define SP_SHORT_ROW_CFA_SHIFT 40
#define SP_SHORT_ROW_RETURN_SHIFT 48
#define SP_SHORT_ROW_SAVED ((UINT64_C(1) << SP_SHORT_ROW_CFA_SHIFT) - 1)
#define SP_SHORT_ROW_OUTERMOST (UINT64_C(1) << 56)

struct sp_short_row {
	uint64_t head;
	int32_t cfa_value;
	int16_t return_place;               /* 0: the return address is still in its register */
	int16_t lowest;                     /* of all places */
	int16_t place[SP_SHORT_ROW_PLACES]; /* of the saved registers, in their order */
};

_Static_assert(SP_ARCH_REGS <= SP_SHORT_ROW_CFA_SHIFT, "a bit for each register");

/* False for rows that are not of that kind. */
SP_SIGSAFE bool sp_short_row_make(const struct sp_cfi_row *row, struct sp_short_row *out);

/* sp_short_row_apply for a frame that is not proven readable as a whole. */
SP_SIGSAFE int sp_short_row_apply_slowly(const struct sp_short_row *row, uintptr_t cfa,
					 struct sp_regs *regs, struct sp_stack_view *stack);

SP_RAW static inline SP_SIGSAFE uintptr_t sp_short_row_load(uintptr_t cfa, int16_t place)
{
	return *(const volatile uintptr_t *)(cfa + (uintptr_t)(place * SP_SHORT_ROW_WORD));
}

/* As sp_cfi_apply, but *regs is undefined unless 1 is returned. */
SP_RAW static inline SP_SIGSAFE int sp_short_row_apply(const struct sp_short_row *row,
						       struct sp_regs *regs,
						       struct sp_stack_view *stack)
{
	unsigned cfa_reg = row->head >> SP_SHORT_ROW_CFA_SHIFT & 0xff;
	unsigned return_reg = row->head >> SP_SHORT_ROW_RETURN_SHIFT & 0xff;
	uint64_t saved = row->head & SP_SHORT_ROW_SAVED;
	const int16_t *place = row->place;
	uintptr_t pc;
	uintptr_t cfa;

	if ((row->head & SP_SHORT_ROW_OUTERMOST) != 0)
		return 0;
	if (!sp_regs_known(regs, cfa_reg))
		return -EINVAL;
	cfa = regs->r[cfa_reg] + (uintptr_t)(intptr_t)row->cfa_value;
	if (!sp_stack_proven(stack, cfa + (uintptr_t)(row->lowest * SP_SHORT_ROW_WORD), cfa))
		return sp_short_row_apply_slowly(row, cfa, regs, stack);
	if (row->return_place != 0)
		pc = sp_short_row_load(cfa, row->return_place);
	else if (sp_regs_known(regs, return_reg))
		pc = regs->r[return_reg];
	else
		return -EFAULT;
	pc = sp_arch_strip(pc);
	regs->pc = pc;
	regs->known |= saved | UINT64_C(1) << return_reg | UINT64_C(1) << SP_ARCH_REG_SP |
		       UINT64_C(1) << SP_ARCH_REG_PC;
	for (; saved != 0; saved &= saved - 1)
		regs->r[__builtin_ctzll(saved)] = sp_short_row_load(cfa, *place++);
	regs->r[SP_ARCH_REG_SP] = cfa;
	regs->r[return_reg] = pc;
	regs->r[SP_ARCH_REG_PC] = pc;
	return pc == 0 ? 0 : 1;
}

#endif
