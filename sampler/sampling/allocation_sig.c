/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a sample of an allocation. This runs inside the host's call of the allocator, which may
 * come from anywhere: with any lock of the host held, in a handler of the host that has interrupted
 * another allocation, on the stack of a coroutine. So the rules of our own signal handler apply.
 * Our handler may interrupt this code, and a handler of the host may interrupt it and begin another
 * sample. So the record is made on the stack, and the walk has stack bounds of its own, separate
 * from those of the handler's walks.
 *
 * The walk begins at the caller of the allocator, of which only pc, sp and the frame pointer are
 * known. A function that finds its frame by another register could not be unwound, but compilers
 * make no such function.
 */
#include "sampler/sampling/allocation.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/handler.h"
#include "sampler/span/span.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/signals.h"
#include "sampler/unwind/unwind_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

static uint32_t most_frames;

void sp_allocation_init(uint32_t depth)
{
	most_frames = depth < SP_ALLOCATION_FRAMES ? depth : SP_ALLOCATION_FRAMES;
}

static bool is_in(const struct sp_stack_bounds *bounds, uintptr_t here)
{
	return here >= bounds->lo && here < bounds->hi;
}

/*
 * Bytes of the stack that the walk may use. A stack whose bounds no walk has proved may be an
 * alternate stack, which the host may have made as small as its own work allows. The kernel is not
 * asked: a seccomp filter that no hook saw may kill the process for the call.
 */
static size_t room(const struct sp_thread *t, const void *frame)
{
	uintptr_t here = (uintptr_t)frame;

	if (!is_in(&t->allocation_bounds, here) && !is_in(&t->bounds, here) &&
	    atomic_load_explicit(&t->alternate_bytes, memory_order_relaxed) != 0)
		return 0;
	return sp_thread_stack_room(t, frame);
}

/*
 * Walks the stack. Returns the flags for the caller, which do not go into the ring:
 * SP_SAMPLE_RETRY, SP_SAMPLE_UNTOLD.
 */
static uint16_t walk(struct sp_thread *t, struct sp_sample *s, const struct sp_regs *regs)
{
	const uint16_t own = SP_SAMPLE_RETRY | SP_SAMPLE_UNTOLD;
	const struct sp_unwind_room place[2] = {{s->pc, most_frames}, {NULL, 0}};
	uint16_t flags = SP_SAMPLE_RETRY;

	s->pc[0] = regs->pc;
	s->depth = 1;
	s->flags = 0;
	if (room(t, __builtin_frame_address(0)) < SP_HANDLER_ROOM_WALK) {
		sp_count(SP_COUNT_UNWIND_FAILED);
		return 0;
	}
	if (!sp_handler_setup.always_snapshot)
		s->depth =
			(uint16_t)sp_unwind_walk_from(regs, &t->allocation_bounds, place, &flags);
	s->flags = flags & (uint16_t)~own;
	return flags & own;
}

/* Walks the stack and puts the sample. False if it was lost. */
static bool put(struct sp_channel *o, struct sp_thread *t, struct sp_sample *s,
		const struct sp_allocation_caller *caller)
{
	struct sp_regs regs = {.known = 0};
	uint16_t own;

	if (!sp_ring_has_reserve(&o->ring))
		return false;
	/*
	 * An address inside the call instruction, because the return address may belong to the next
	 * function.
	 */
	sp_regs_set_pc(&regs, sp_arch_strip(caller->pc) - 1);
	sp_regs_set(&regs, SP_ARCH_REG_SP, caller->sp);
	sp_regs_set(&regs, SP_ARCH_REG_FP, caller->fp);
	own = walk(t, s, &regs);
	if ((own & SP_SAMPLE_UNTOLD) != 0) {
		sp_count(SP_COUNT_DROP_UNTOLD);
		return false;
	}
	if (!sp_names_announce(o, s->name_id))
		return false;
	if ((own & SP_SAMPLE_RETRY) != 0) {
		if (sp_ring_has_reserve(&o->snapshots) &&
		    sp_snapshot_put_from(&o->snapshots, s, &regs, &t->allocation_bounds) == 0) {
			sp_count(SP_COUNT_SNAPSHOTS);
			return true;
		}
		sp_count(SP_COUNT_UNWIND_FAILED);
	}
	if (s->flags & SP_SAMPLE_TRUNCATED)
		sp_count(SP_COUNT_UNWIND_TRUNCATED);
	if (s->flags & SP_SAMPLE_OFF_STACK)
		sp_count(SP_COUNT_OFF_STACK);
	return sp_ring_put(&o->ring, SP_RECORD_SAMPLE, s, sp_sample_bytes(s->depth)) == 0;
}

/*
 * Notes that the manual label's id has a sample; sp_manual_label_exit() reports the end of the
 * label.
 */
static void note_label(struct sp_thread *t, uint64_t id)
{
	uint32_t level = sp_span_stack_label_level(&t->spans);

	if (level == 0 || level > SP_MANUAL_LABEL_DEPTH_MAX)
		return;
	t->allocated_label[level - 1] = id;
	t->allocated_levels |= UINT32_C(1) << (level - 1);
}

/*
 * A separate function: a compiler that sees caller and callee together would complain that the
 * record is shorter than its type.
 */
__attribute__((noinline)) static bool take(struct sp_thread *t, struct sp_sample *s, uint64_t bytes,
					   uint64_t block,
					   const struct sp_allocation_caller *caller)
{
	struct sp_channel *o = sp_channel_now();
	struct sp_span_label label;

	memset(s, 0, sp_sample_bytes(0));
	s->weight = 1;
	s->allocated = bytes;
	s->block = block;
	sp_sample_label(t, s, &label);
	if (!put(o, t, s, caller)) {
		sp_count(SP_COUNT_DROP_RING_FULL);
		sp_count(SP_COUNT_DROP_ALLOCATIONS);
		return false;
	}
	sp_channel_count_put(o);
	if (block == 0)
		sp_count(SP_COUNT_BLOCKS_NO_ROOM);
	if (s->span_id != 0 && !sp_span_table_mark_allocation(label.ref, s->span_id))
		sp_span_announce_end(s->span_id);
	if (label.what == SP_SPAN_LABEL && s->span_id != 0)
		note_label(t, s->span_id);
	return true;
}

SP_SIGSAFE bool sp_allocation_sample(struct sp_thread *t, uint64_t bytes, uint64_t block,
				     const struct sp_allocation_caller *caller)
{
	uint64_t record[SP_SAMPLE_HEAD_WORDS + SP_ALLOCATION_FRAMES];
	int saved = errno;
	bool is_taken = take(t, (struct sp_sample *)(void *)record, bytes, block, caller);

	errno = saved;
	return is_taken;
}

SP_SIGSAFE void sp_allocation_freed(uint64_t block)
{
	sp_count(SP_COUNT_FREED);
	if (sp_ring_put(&sp_channel_now()->ring, SP_RECORD_FREED, &block, sizeof(block)) != 0)
		sp_count(SP_COUNT_DROP_FREED);
}
