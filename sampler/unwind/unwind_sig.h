/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack unwinding inside the signal handler. It interprets call frame information (.eh_frame) where
 * it is mapped; glibc's _dl_find_object (2.35 and later, documented as async-signal-safe) tells
 * where that is. No lock, no heap. The only system call is a probe that asks whether a page of the
 * stack can be read, for pages that were not proven readable before. Context: SIG, except
 * sp_unwind_init().
 */
#ifndef SP_UNWIND_SIG_H
#define SP_UNWIND_SIG_H

#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/stack_bounds_sig.h"

/*
 * APP, at activation. Finds _dl_find_object through lookup(name) and remembers where the initial
 * thread's stack ends. 0, or -ENOSYS if the C library has no _dl_find_object. Idempotent.
 */
int sp_unwind_init(void *(*lookup)(const char *name));

/* Where frames go: at most max entries of pc[]. */
struct sp_unwind_room {
	uint64_t *pc;
	unsigned max;
};

/*
 * Walks from the interrupted context `ucontext` (the handler's third argument) into two places, one
 * after the other (record.h's convention: leaf exact, callers minus one, except callers of a signal
 * frame and the signal trampoline itself, which are exact). Returns the number written (0 only if there
 * is no room) and sets *flags to SP_SAMPLE_ bits. A walk that ended too early was counted, or has
 * SP_SAMPLE_RETRY. When CFI is missing, falls back to one frame-pointer step at a time.
 */
SP_SIGSAFE unsigned sp_unwind_walk(const void *ucontext, struct sp_stack_bounds *bounds,
				   const struct sp_unwind_room room[2], uint16_t *flags);

/*
 * The same from registers, of which those that are not known are 0: of a function that has called us, with a pc
 * inside of the call. Its caller's sp has to follow from sp and the frame pointer.
 */
SP_SIGSAFE unsigned sp_unwind_walk_from(const struct sp_regs *regs, struct sp_stack_bounds *bounds,
					const struct sp_unwind_room room[2], uint16_t *flags);

/*
 * The second chance of a sample whose stack the handler cannot walk: puts a snapshot of the context, and of what
 * can be read of the stack above its sp, into a ring of its own, so that snapshots cannot crowd out samples. The
 * exporter walks the copy. The frames of s are left out. 0, or -ENOSPC (nothing was put).
 */
SP_SIGSAFE int sp_snapshot_put(struct sp_ring *r, const struct sp_sample *s, const void *ucontext,
			       struct sp_stack_bounds *bounds);
SP_SIGSAFE int sp_snapshot_put_from(struct sp_ring *r, const struct sp_sample *s,
				    const struct sp_regs *regs, struct sp_stack_bounds *bounds);

#endif
