/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses one walk may read. The sampled thread's own stack is proven readable page by
 * page, and struct sp_stack_bounds stores the result. On a coroutine or alternate stack each walk
 * proves a window above sp anew. Context: SIG; sp_stack_init() is APP.
 */
#ifndef SP_STACK_BOUNDS_SIG_H
#define SP_STACK_BOUNDS_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* Page sizes differ; probing at the smallest size is right for all. */
#define SP_STACK_PAGE 4096U
/* If a thread's sp is further below the end of its stack, the thread counts as on another stack. */
#define SP_STACK_PLAUSIBLE (UINT64_C(64) << 20)
/* On an unknown stack a walk may read this many bytes above sp. */
#define SP_STACK_WINDOW (UINT64_C(64) << 10)
/*
 * System calls per walk, 0.2 us each: for pages that are probed one by one, and for proving the
 * thread's whole stack, once and each time when the stack has grown.
 */
#define SP_STACK_PROBES 64U
#define SP_STACK_PROOFS 192U
/* System calls per walk for pages of code without call frame information: one for most frames. */
#define SP_STACK_CODE_PROBES 128U
/* A walk remembers this many proven pages of such code. */
#define SP_STACK_CODE_PAGES 4U

/*
 * The known part of the sampled thread's stack. It lies in the thread's block and is all zero at
 * first. Only the owning thread's handler writes it.
 */
struct sp_stack_bounds {
	uintptr_t lo; /* [lo, hi) was proven readable and belongs to this thread's own stack */
	uintptr_t hi; /* first address past the thread's outermost frame */
};

struct sp_stack_view {
	uintptr_t floor;     /* lowest address that active frames can use: sp less the red zone */
	uintptr_t ceiling;   /* first address past the outermost frame, or past the window */
	uintptr_t lo;        /* [lo, ceiling) was proven in this or an earlier walk; may be empty */
	uintptr_t probed_lo; /* [probed_lo, probed_hi): pages proven one by one in this walk */
	uintptr_t probed_hi;
	unsigned probes_left;
	unsigned proofs_left;
	unsigned code_probes_left;
	uintptr_t code_page[SP_STACK_CODE_PAGES]; /* proven in this walk; 0 = none */
};

/* APP context: stores the end of the initial thread's stack. Idempotent. */
void sp_stack_init(void);

/* Empties the view and gives it a walk's budget of system calls. */
SP_SIGSAFE void sp_stack_begin(struct sp_stack_view *view);

/*
 * Points the view at the stack that sp is on. True if that is the thread's own stack, whose proven
 * part in *bounds then grows; false for another stack, and *bounds does not change. Called again in
 * the same walk if a signal frame leads to another stack.
 */
SP_SIGSAFE bool sp_stack_anchor(struct sp_stack_view *view, struct sp_stack_bounds *bounds,
				uintptr_t sp);

/* Reads `bytes` (1, 2, 4 or 8) at addr. False if addr is outside of the view. */
SP_SIGSAFE bool sp_stack_read(struct sp_stack_view *view, uintptr_t addr, unsigned bytes,
			      uintptr_t *value);

/*
 * Uses one probe of the budget: true if [addr, addr + bytes) can be read; bytes <= SP_STACK_PAGE.
 */
SP_SIGSAFE bool sp_stack_probe(struct sp_stack_view *view, uintptr_t addr, unsigned bytes);

/*
 * Whether the instruction before this return address is a call, as far as the code can be read
 * within the budget.
 */
SP_SIGSAFE bool sp_stack_is_behind_call(struct sp_stack_view *view, uintptr_t pc);

#endif
