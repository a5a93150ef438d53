/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applying: computes the caller's registers from a frame's registers and the row of rules in force
 * there.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include <errno.h>

#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/dwarf_expr_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

static int evaluate(const struct sp_cfi_row *row, const struct sp_expr_env *env, int32_t place,
		    uintptr_t *result)
{
	struct sp_cursor c = sp_cursor_over(row->object_start + (uint32_t)place, row->object_end);
	uint64_t bytes = sp_cursor_uleb(&c);

	if (c.failed || bytes > sp_cursor_left(&c))
		return -EINVAL;
	c.end = c.at + bytes;
	return sp_dwarf_expr_eval(env, c, result);
}

/* The value that register `reg` had in the caller. False if it is lost. */
static bool recover(const struct sp_cfi_row *row, const struct sp_expr_env *env, unsigned reg,
		    uintptr_t *value)
{
	int32_t operand = row->rules.value[reg];
	uintptr_t at = env->cfa + (uintptr_t)(intptr_t)operand;

	switch ((enum sp_cfi_how)row->rules.how[reg]) {
	case SP_CFI_SAME:
	case SP_CFI_UNDEFINED:
		return false;
	case SP_CFI_REGISTER:
		if (!sp_regs_known(env->regs, (uint32_t)operand))
			return false;
		*value = env->regs->r[operand];
		return true;
	case SP_CFI_VAL_OFFSET:
		*value = at;
		return true;
	case SP_CFI_VAL_EXPR:
		return evaluate(row, env, operand, value) == 0;
	case SP_CFI_EXPR:
		return evaluate(row, env, operand, &at) == 0 &&
		       sp_stack_read(env->stack, at, sizeof(*value), value);
	case SP_CFI_OFFSET:
		return sp_stack_read(env->stack, at, sizeof(*value), value);
	}
	return false;
}

static int find_cfa(const struct sp_cfi_row *row, const struct sp_expr_env *env, uintptr_t *cfa)
{
	const struct sp_cfi_rules *rules = &row->rules;

	if (rules->cfa_how == SP_CFI_VAL_EXPR)
		return evaluate(row, env, rules->cfa_value, cfa);
	if (rules->cfa_how != SP_CFI_REGISTER || !sp_regs_known(env->regs, rules->cfa_reg))
		return -EINVAL;
	*cfa = env->regs->r[rules->cfa_reg] + (uintptr_t)(intptr_t)rules->cfa_value;
	return 0;
}

/*
 * A register that cannot be recovered becomes unknown, and the step goes on: most registers are
 * never needed, and a later rule that needs this one fails by itself.
 */
static void recover_all(const struct sp_cfi_row *row, const struct sp_expr_env *env,
			struct sp_regs *caller)
{
	*caller = *env->regs;
	/* By definition the CFA is the caller's sp; a rule for sp (signal frames) overrides. */
	sp_regs_set(caller, SP_ARCH_REG_SP, env->cfa);
	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		uintptr_t value;

		if (row->rules.how[reg] == SP_CFI_SAME)
			continue;
		if (recover(row, env, reg, &value))
			sp_regs_set(caller, reg, value);
		else
			caller->known &= ~(UINT64_C(1) << reg);
	}
}

int sp_cfi_apply(const struct sp_cfi_row *row, struct sp_regs *regs, struct sp_stack_view *stack)
{
	struct sp_expr_env env = {.regs = regs, .stack = stack};
	struct sp_regs caller;
	enum sp_cfi_how return_how = row->rules.how[row->return_reg];

	if (return_how == SP_CFI_UNDEFINED)
		return 0;
	/*
	 * On architectures where the return address has a column of its own, "same value" would
	 * make the frame its own caller.
	 */
	if (return_how == SP_CFI_SAME && row->return_reg == SP_ARCH_REG_PC)
		return -EINVAL;
	if (find_cfa(row, &env, &env.cfa) != 0)
		return -EINVAL;
	env.has_cfa = true;
	recover_all(row, &env, &caller);
	if (!sp_regs_known(&caller, row->return_reg) || !sp_regs_known(&caller, SP_ARCH_REG_SP))
		return -EFAULT;
	sp_regs_set_pc(&caller, sp_arch_strip(caller.r[row->return_reg]));
	if (caller.pc == 0)
		return 0;
	*regs = caller;
	return 1;
}
