/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame instructions. Decoding (FDE and pc -> the row of rules in force at pc) and applying
 * (row and registers of a frame -> registers of its caller) are separate, so that decoded rules can
 * be cached. Rules may be DWARF expressions, which are evaluated when they are applied. Context: SIG.
 */
#ifndef SP_CFI_SIG_H
#define SP_CFI_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/ehframe_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

/* Where the caller's value of a register is. */
enum sp_cfi_how {
	SP_CFI_SAME, /* unchanged; also if no instruction mentions it, as a callee-saved register */
	SP_CFI_UNDEFINED,
	SP_CFI_OFFSET,   /* in memory at CFA + value */
	SP_CFI_REGISTER, /* in register number value */
	SP_CFI_EXPR,     /* in memory at the address that the expression computes */
	SP_CFI_VAL_EXPR, /* the result of the expression */
};

/*
 * The value of an expression rule is the offset of its length-prefixed block from the object's
 * first byte. cfa_how is SP_CFI_REGISTER (cfa_reg + cfa_value), SP_CFI_VAL_EXPR, or SP_CFI_SAME
 * while no instruction has defined the CFA.
 */
struct sp_cfi_rules {
	int32_t cfa_value;
	int32_t value[SP_ARCH_REGS];
	uint8_t how[SP_ARCH_REGS];
	uint8_t cfa_how;
	uint8_t cfa_reg;
};

/* All data for a step from one pc to its caller; valid while the object is mapped. */
struct sp_cfi_row {
	uintptr_t object_start; /* base of the expressions; object_end is their limit */
	uintptr_t object_end;
	struct sp_cfi_rules rules;
	uint8_t return_reg;
	bool signal_frame; /* the caller was interrupted, so its pc is exact */
};

/* Returns 0, or -EINVAL for malformed instructions or unknown forms. fde must cover pc. */
SP_SIGSAFE int sp_cfi_decode(const struct sp_object *object, const struct sp_fde *fde, uintptr_t pc,
			     struct sp_cfi_row *row);

/*
 * Turns a frame's registers into its caller's. Returns 1; 0 if the frame is its thread's outermost
 * (regs do not change); -EFAULT if the rules lead outside the stack or need a lost register;
 * -EINVAL if an expression is malformed or of an unknown form.
 */
SP_SIGSAFE int sp_cfi_apply(const struct sp_cfi_row *row, struct sp_regs *regs,
			    struct sp_stack_view *stack);

#endif
