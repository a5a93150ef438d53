/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack unwinding inside the signal handler. The walk interprets the mapped call frame information
 * (.eh_frame), which glibc's _dl_find_object finds (2.35 and later, documented as
 * async-signal-safe). No lock, no heap. The only system call asks whether a page of the stack can
 * be read, for pages that were not proven readable before. Context: SIG, except sp_unwind_init().
 */
#ifndef SP_UNWIND_SIG_H
#define SP_UNWIND_SIG_H

#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/stack_bounds_sig.h"

/*
 * APP, at activation. Finds _dl_find_object by lookup(name) and stores the end of the initial
 * thread's stack. Returns 0, or -ENOSYS if the C library has no _dl_find_object. Idempotent.
 */
int sp_unwind_init(void *(*lookup)(const char *name));

/* An array for frames: at most max entries of pc[]. */
struct sp_unwind_room {
	uint64_t *pc;
	unsigned max;
};

/*
 * Walks from the interrupted context `ucontext` (the handler's third argument) into two arrays, one
 * after the other, in record.h's convention: the leaf is exact, callers are minus one, except
 * callers of a signal frame and the signal trampoline itself, which are exact. Returns the number
 * of frames (0 only if there is no room) and sets *flags to SP_SAMPLE_ bits. A walk that ended too
 * early is counted, or has SP_SAMPLE_RETRY. Without CFI a step uses the frame pointer.
 */
SP_SIGSAFE unsigned sp_unwind_walk(const void *ucontext, struct sp_stack_bounds *bounds,
				   const struct sp_unwind_room room[2], uint16_t *flags);

/*
 * The same walk from the registers of a function that has called us; unknown registers are 0, and
 * the pc is inside the call. The rule of this frame may need only sp and the frame pointer.
 */
SP_SIGSAFE unsigned sp_unwind_walk_from(const struct sp_regs *regs, struct sp_stack_bounds *bounds,
					const struct sp_unwind_room room[2], uint16_t *flags);

/*
 * If the handler cannot walk the stack of a sample: puts a snapshot of the context, and of the
 * readable part of the stack above its sp, into a separate ring, so that snapshots cannot crowd out
 * samples. The exporter walks the copy. The frames of s are not included. Returns 0, or -ENOSPC
 * (nothing was put).
 */
SP_SIGSAFE int sp_snapshot_put(struct sp_ring *r, const struct sp_sample *s, const void *ucontext,
			       struct sp_stack_bounds *bounds);
SP_SIGSAFE int sp_snapshot_put_from(struct sp_ring *r, const struct sp_sample *s,
				    const struct sp_regs *regs, struct sp_stack_bounds *bounds);

#endif
