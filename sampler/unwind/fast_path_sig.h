/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of a walk. Nearly every step goes through a cached rule, on stack that is already
 * proven readable; this file takes such steps with the walk's state in registers. It stops at the
 * first step of another kind, which unwind_sig.c takes. For every step that both can take, the
 * results are the same. Context: SIG.
 */
#ifndef SP_FAST_PATH_SIG_H
#define SP_FAST_PATH_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/unwind/object_cache_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"

/* A walk between two of its steps. */
struct sp_walk {
	struct sp_regs regs; /* sp is known */
	struct sp_stack_view stack;
	bool interrupted; /* regs.pc is the next instruction to run, not a return address */
	bool unreadable;  /* there is call frame information, but not in a form that we read */
	struct sp_object_cache objects;
};

/*
 * Takes at most max steps. Returns how many, and writes the pc of each frame that it left
 * (record.h's convention).
 */
SP_SIGSAFE unsigned sp_fast_path(struct sp_walk *w, uint64_t *pc, unsigned max);

#endif
