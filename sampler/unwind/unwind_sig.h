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

#include "sampler/base/compiler.h"

/*
 * What is known of the sampled thread's stack. It lives in the thread's block and is all zero at
 * first. Only the handler of the owning thread writes it.
 */
struct sp_stack_bounds {
	uintptr_t lo; /* [lo, hi) was proven readable and belongs to this thread's own stack */
	uintptr_t hi; /* first address past the thread's outermost frame */
};

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

#endif
