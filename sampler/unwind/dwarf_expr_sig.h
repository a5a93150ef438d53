/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates the DWARF expressions that call frame information uses, with a bounded stack and a
 * bounded number of steps. It reads only the sampled thread's stack. Context: SIG.
 */
#ifndef SP_DWARF_EXPR_SIG_H
#define SP_DWARF_EXPR_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/cursor_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

struct sp_expr_env {
	const struct sp_regs *regs;
	struct sp_stack_view *stack;
	bool has_cfa; /* rules for registers start with the CFA pushed; the CFA's own does not */
	uintptr_t cfa;
};

/* 0, or -EINVAL: malformed, too long, an operation we do not know, or an unreadable address. */
SP_SIGSAFE int sp_dwarf_expr_eval(const struct sp_expr_env *env, struct sp_cursor code,
				  uintptr_t *result);

#endif
