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

/* How the caller's value of a register is found. */
enum sp_cfi_how {
	SP_CFI_SAME, /* also what no instruction mentions: callee-saved registers may be so */
	SP_CFI_UNDEFINED,
	SP_CFI_OFFSET,   /* at CFA + value */
	SP_CFI_REGISTER, /* is in register number value */
	SP_CFI_EXPR,     /* at the address that the expression gives */
	SP_CFI_VAL_EXPR, /* is what the expression gives */
};

/*
 * An expression's value is where its length-prefixed block starts, counted from the object's
 * first byte. cfa_how is SP_CFI_REGISTER (cfa_reg + cfa_value), SP_CFI_VAL_EXPR, or SP_CFI_SAME
 * as long as nothing defined the CFA.
 */
struct sp_cfi_rules {
	int32_t cfa_value;
	int32_t value[SP_ARCH_REGS];
	uint8_t how[SP_ARCH_REGS];
	uint8_t cfa_how;
	uint8_t cfa_reg;
};

/* Everything that a step from one pc to its caller needs, valid as long as the object is mapped. */
struct sp_cfi_row {
	uintptr_t object_start; /* base and limit of the expressions */
	uintptr_t object_end;
	struct sp_cfi_rules rules;
	uint8_t return_reg;
	bool signal_frame; /* the "caller" was interrupted: its pc is exact */
};

/* 0, or -EINVAL for malformed instructions or forms we do not know. fde must cover pc. */
SP_SIGSAFE int sp_cfi_decode(const struct sp_object *object, const struct sp_fde *fde, uintptr_t pc,
			     struct sp_cfi_row *row);

/*
 * Turns a frame's registers into its caller's. 1; 0 if the frame is its thread's outermost (regs
 * are then unchanged); -EFAULT if the rules lead outside the stack or nowhere; -EINVAL if one is an expression that is
 * malformed, or of a form that we do not know.
 */
SP_SIGSAFE int sp_cfi_apply(const struct sp_cfi_row *row, struct sp_regs *regs,
			    struct sp_stack_view *stack);

#endif
