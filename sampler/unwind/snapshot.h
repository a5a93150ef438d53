/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: the second chance of a sample whose stack the handler cannot walk. The handler copies
 * the registers and the nearest part of the stack, and the exporter walks the copy. Snapshots have
 * a ring of their own (ring.h), so that they cannot crowd out samples.
 *
 * Contexts: SIG (put), the exporter (drain).
 */
#ifndef SP_SNAPSHOT_H
#define SP_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/unwind_sig.h"

/* Most stacks are shorter. Of deeper ones the outermost frames are cut. */
#define SP_SNAPSHOT_STACK_MAX 16384U

struct sp_snapshot {
	uint64_t sample[offsetof(struct sp_sample, pc) / 8]; /* all of it but the frames */
	uint64_t stack_at;                                   /* the address that stack[0] had */
	uint64_t stack_bytes;                                /* valid bytes of stack[] */
	uint64_t reg[SP_ARCH_REGS];                          /* by DWARF number */
	uint8_t stack[SP_SNAPSHOT_STACK_MAX];
};

/*
 * SIG. Copies the context and what can be read of the stack above its sp, but not the frames of s.
 * 0, or -ENOSPC (nothing was put).
 */
SP_SIGSAFE int sp_snapshot_put(struct sp_ring *r, const struct sp_sample *s, const void *ucontext,
			       struct sp_stack_bounds *bounds);

/*
 * The exporter. Hands out at most max snapshots in order, each valid during the call, and returns
 * how many. A snapshot whose lengths contradict each other is not handed out, but counted as
 * damaged in the ring.
 */
unsigned sp_snapshot_drain(struct sp_ring *r, void (*put)(const struct sp_snapshot *s, void *arg),
			   void *arg, unsigned max);

#endif
