/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a snapshot into its ring, straight from the stack without a copy in between.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/snapshot.h"

#include <string.h>

#include "sampler/unwind/stack_bounds_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Where the readable part of [from, to) ends; pages that no walk has proven are asked for. */
static uintptr_t readable_end(struct sp_stack_view *view, uintptr_t from, uintptr_t to)
{
	uintptr_t page = from & ~(uintptr_t)(SP_STACK_PAGE - 1);

	for (; page < to && page < view->lo; page += SP_STACK_PAGE) {
		if (!sp_stack_probe(view, page, 1))
			return page > from ? page : from;
	}
	return to;
}

SP_SIGSAFE int sp_snapshot_put(struct sp_ring *r, const struct sp_sample *s, const void *ucontext,
			       struct sp_stack_bounds *bounds)
{
	uintptr_t sp = sp_arch_context_reg(ucontext, SP_ARCH_REG_SP);
	struct {
		uint64_t sample[offsetof(struct sp_sample, pc) / 8];
		uint64_t stack_at;
		uint64_t stack_bytes;
		uint64_t reg[SP_ARCH_REGS];
	} head;
	struct sp_ring_part part[2] = {{&head, sizeof(head)}};
	struct sp_stack_view view;
	uintptr_t from;
	uintptr_t to;

	_Static_assert(sizeof(head) == offsetof(struct sp_snapshot, stack), "the same layout");
	sp_stack_begin(&view);
	(void)sp_stack_anchor(&view, bounds, sp);
	from = view.floor & ~(uintptr_t)7;
	to = view.ceiling & ~(uintptr_t)7;
	if (to > from && to - from > SP_SNAPSHOT_STACK_MAX)
		to = from + SP_SNAPSHOT_STACK_MAX;
	/* The red zone may lie in a page that the stack has never grown into. */
	if (to > from && readable_end(&view, from, from + 1) == from)
		from = sp & ~(uintptr_t)7;
	to = to > from ? readable_end(&view, from, to) : from;
	memcpy(head.sample, s, sizeof(head.sample));
	head.stack_at = from;
	head.stack_bytes = to - from;
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		head.reg[i] = sp_arch_context_reg(ucontext, i);
	part[1] = (struct sp_ring_part){(const void *)from, to - from};
	return sp_ring_put_parts(r, SP_RECORD_SNAPSHOT, part, 2);
}
