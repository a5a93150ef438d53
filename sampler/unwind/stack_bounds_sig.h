/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses one walk may read: the sampled thread's own stack, proven readable page by page
 * and remembered in struct sp_stack_bounds, or, for coroutine and alternate stacks, a window above
 * sp that is proven anew in each walk. Context: SIG; sp_stack_init is APP.
 */
#ifndef SP_STACK_BOUNDS_SIG_H
#define SP_STACK_BOUNDS_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* Page sizes differ; probing at the smallest one is right for all of them. */
#define SP_STACK_PAGE 4096U
/* A thread's sp further below its stack's end than this is taken to be on some other stack. */
#define SP_STACK_PLAUSIBLE (UINT64_C(64) << 20)
/* How much above sp a walk may look on a stack that it does not know. */
#define SP_STACK_WINDOW (UINT64_C(64) << 10)
/*
 * System calls per walk, 0.2 us each, that may be spent on pages that are asked for one by one, and
 * on proving the thread's stack as a whole, which happens once and whenever it has grown deeper.
 */
#define SP_STACK_PROBES 64U
#define SP_STACK_PROOFS 192U

/*
 * What is known of the sampled thread's stack. It lives in the thread's block and is all zero at
 * first. Only the handler of the owning thread writes it.
 */
struct sp_stack_bounds {
	uintptr_t lo; /* [lo, hi) was proven readable and belongs to this thread's own stack */
	uintptr_t hi; /* first address past the thread's outermost frame */
};

struct sp_stack_view {
	uintptr_t floor;     /* lowest address that live frames can use: sp less the red zone */
	uintptr_t ceiling;   /* first address past the outermost frame, or past the window */
	uintptr_t lo;        /* [lo, ceiling) was proven in this or an earlier walk; may be empty */
	uintptr_t probed_lo; /* [probed_lo, probed_hi): pages proven one by one in this walk */
	uintptr_t probed_hi;
	unsigned probes_left;
	unsigned proofs_left;
};

/* APP context: remembers where the initial thread's stack ends. Idempotent. */
void sp_stack_init(void);

/* Empties the view and gives it a walk's budget of system calls. */
SP_SIGSAFE void sp_stack_begin(struct sp_stack_view *view);

/*
 * Points the view at the stack that sp is on. True if that is the thread's own stack, whose proven
 * part then grows in *bounds; false if it is another one, and *bounds stays as it is. Called again
 * in the same walk where a signal frame leads to another stack.
 */
SP_SIGSAFE bool sp_stack_anchor(struct sp_stack_view *view, struct sp_stack_bounds *bounds,
				uintptr_t sp);

/* Reads `bytes` (1, 2, 4 or 8) at addr. False if the view does not reach there. */
SP_SIGSAFE bool sp_stack_read(struct sp_stack_view *view, uintptr_t addr, unsigned bytes,
			      uintptr_t *value);

/* Spends a probe: true if [addr, addr + bytes) can be read; bytes <= SP_STACK_PAGE. */
SP_SIGSAFE bool sp_stack_probe(struct sp_stack_view *view, uintptr_t addr, unsigned bytes);

#endif
