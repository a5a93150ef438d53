/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path, which nearly all of a walk is: from caller to caller through rules that are at hand,
 * on stack that is proven readable. Whatever is not like that is left to unwind_sig.c, which takes
 * every step that this one takes too, with the same result. Context: SIG. Called by unwind_sig.c.
 */
#ifndef SP_FAST_PATH_SIG_H
#define SP_FAST_PATH_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/arch_sig.h"
#include "sampler/compiler.h"
#include "sampler/object_cache_sig.h"
#include "sampler/stack_bounds_sig.h"

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
 * (sample.h's convention).
 */
SP_SIGSAFE unsigned sp_fast_path(struct sp_walk *w, uint64_t *pc, unsigned max);

#endif
