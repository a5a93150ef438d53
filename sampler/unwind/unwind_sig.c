/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: find the object that holds the pc, find the rule for that pc in the object's call frame
 * information, apply the rule to get the caller's registers, and repeat until the outermost frame.
 *
 * Call frame information may be missing or wrong, and the stack may be corrupt. A step therefore
 * refuses a caller that does not lie higher on the stack, and reads only memory that is known to be
 * readable. The sources of a step, in order: a rule from the rule cache (the fast path), a rule decoded now, the
 * kernel's signal frame, the frame pointer; a frame that was built by hand, as for a new coroutine,
 * is the outermost.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 * sp_unwind_init() runs at activation.
 */
#include "sampler/unwind/unwind_sig.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/region/record.h"
#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/ehframe_sig.h"
#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* The first page is never code. A return address in it is not a pointer. */
#define CODE_START 4096U

enum step {
	STEP_CALLER,
	STEP_INTERRUPTED, /* through a signal frame: the new pc is exact */
	STEP_OUTERMOST,
	STEP_FORGED, /* outermost: no call left this pc, a program wrote it where a return finds it */
	STEP_FAILED,
};

int sp_unwind_init(void *(*lookup)(const char *name))
{
	sp_stack_init();
	return sp_object_cache_init(lookup);
}

/* 0, -ENOENT if no call frame information covers pc, -EINVAL if it cannot be understood. */
static int row_of(const struct sp_cached_object *cached, uintptr_t pc, struct sp_cfi_row *row)
{
	struct sp_fde fde;
	int rc;

	if (cached == NULL)
		return -ENOENT;
	rc = sp_ehframe_find(&cached->object, pc, &fde);
	return rc != 0 ? rc : sp_cfi_decode(&cached->object, &fde, pc, row);
}

/*
 * Whether the code at pc is the call of rt_sigreturn, be it in the vDSO, the C library or the
 * program.
 */
static bool at_sigreturn(struct sp_walk *w)
{
	uintptr_t pc = w->regs.pc;

	return sp_stack_probe(&w->stack, pc, SP_ARCH_SIGRETURN_BYTES) &&
	       sp_arch_is_sigreturn((const uint8_t *)pc);
}

/* Takes the interrupted registers out of the frame that the kernel built. */
static enum step step_kernel_frame(struct sp_walk *w)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	struct sp_regs saved = {.known = 0};

	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		uintptr_t value;

		if (!sp_stack_read(&w->stack, sp_arch_saved_reg(sp, reg), sizeof(value), &value))
			return STEP_FAILED;
		sp_regs_set(&saved, reg, value);
	}
	saved.pc = saved.r[SP_ARCH_REG_PC];
	w->regs = saved;
	return STEP_INTERRUPTED;
}

/* The last resort, for code without call frame information that keeps frame pointers (JIT). */
static enum step step_frame_pointer(struct sp_walk *w)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	uintptr_t fp = w->regs.r[SP_ARCH_REG_FP];
	struct sp_regs caller = {.known = 0};
	uintptr_t saved_fp;
	uintptr_t pc;

	if (!sp_regs_known(&w->regs, SP_ARCH_REG_FP) || fp % sizeof(fp) != 0 || fp < sp)
		return STEP_FAILED;
	if (!sp_stack_read(&w->stack, fp, sizeof(saved_fp), &saved_fp) ||
	    !sp_stack_read(&w->stack, fp + sizeof(fp), sizeof(pc), &pc))
		return STEP_FAILED;
	pc = sp_arch_strip(pc);
	if (pc == 0)
		return STEP_OUTERMOST;
	if (pc < CODE_START || pc >= SP_ARCH_ADDRESS_END)
		return STEP_FAILED;
	sp_regs_set(&caller, SP_ARCH_REG_SP, fp + 2 * sizeof(fp));
	sp_regs_set(&caller, SP_ARCH_REG_FP, saved_fp);
	sp_regs_set_pc(&caller, pc);
	w->regs = caller;
	return STEP_CALLER;
}

/*
 * A call never leaves the first instruction of a function as the return address, but code that
 * builds a stack by hand does. glibc's makecontext does so with __start_context, which has no rule
 * that ends a walk.
 */
static bool at_function_start(struct sp_walk *w)
{
	uintptr_t pc = w->regs.pc;
	const struct sp_cached_object *cached = sp_object_cache_at(&w->objects, pc);
	struct sp_fde fde;

	return cached != NULL && sp_ehframe_find(&cached->object, pc, &fde) == 0 &&
	       fde.pc_begin == pc;
}

/*
 * Boost.Context starts a stack with a jump to code that pushes its frame pointer as the return
 * address; a return there would end the process (make_fcontext, x86-64, seen in 1.74). A call never
 * leaves the return address equal to the frame pointer.
 */
static bool is_pushed_frame_pointer(const struct sp_walk *w)
{
	return sp_regs_known(&w->regs, SP_ARCH_REG_FP) && w->regs.r[SP_ARCH_REG_FP] == w->regs.pc;
}

static enum step step_row(struct sp_walk *w, const struct sp_cfi_row *row)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	uintptr_t pc = w->regs.pc;
	int rc;

	if (row->signal_frame && at_sigreturn(w))
		return step_kernel_frame(w);
	rc = sp_cfi_apply(row, &w->regs, &w->stack);
	w->unreadable |= rc == -EINVAL;
	if (rc <= 0)
		return rc == 0 ? STEP_OUTERMOST : STEP_FAILED;
	if (row->signal_frame)
		return STEP_INTERRUPTED;
	/*
	 * A caller's sp is higher. Only a leaf function without a frame of its own leaves sp as it
	 * is, and then pc changes.
	 */
	if (w->regs.r[SP_ARCH_REG_SP] < sp || (w->regs.r[SP_ARCH_REG_SP] == sp && w->regs.pc == pc))
		return STEP_FAILED;
	return STEP_CALLER;
}

/*
 * Not inlined: the row and its decoding need more stack than all the rest of the walk, and most
 * steps do not need them.
 */
__attribute__((noinline)) static enum step
step_decoded(struct sp_walk *w, const struct sp_cached_object *cached, uintptr_t pc, bool keep)
{
	struct sp_compact_rule kept;
	struct sp_cfi_row row;
	int rc = row_of(cached, pc, &row);

	if (rc == 0) {
		if (keep && sp_compact_rule_make(&row, &kept))
			sp_rule_cache_keep(pc, cached->identity, &kept);
		return step_row(w, &row);
	}
	if (rc == -EINVAL) {
		w->unreadable = true;
		return STEP_FAILED;
	}
	if (at_sigreturn(w))
		return step_kernel_frame(w);
	if (!w->interrupted && (at_function_start(w) || is_pushed_frame_pointer(w)))
		return STEP_FORGED;
	return step_frame_pointer(w);
}

/*
 * Replaces w->regs by the caller's, where the fast path does not. A return address may lie just behind its function,
 * after a call that never returns, so the byte before it is looked up.
 */
static enum step step(struct sp_walk *w)
{
	uintptr_t covered = w->interrupted ? w->regs.pc : w->regs.pc - 1;
	const struct sp_cached_object *cached = sp_object_cache_at(&w->objects, covered);
	bool may_keep = cached != NULL && cached->identity != 0 && sp_rule_cache() != NULL;
	struct sp_compact_rule rule;

	if (!may_keep || !sp_rule_cache_find(sp_rule_cache(), covered, cached->identity, &rule))
		return step_decoded(w, cached, covered, may_keep);
	if ((rule.word[0] & SP_COMPACT_RULE_OUTERMOST) != 0)
		return STEP_OUTERMOST;
	return step_decoded(w, cached, covered, false);
}

/*
 * Sets the walk up at the instruction that its registers tell, and *flags to 0, or to SP_SAMPLE_OFF_STACK if the
 * thread runs on another stack than its own; *bounds then stays as it is.
 */
static void begin(struct sp_walk *w, struct sp_stack_bounds *bounds, uint16_t *flags)
{
	w->interrupted = true;
	w->unreadable = !sp_object_cache_possible();
	sp_object_cache_begin(&w->objects);
	sp_stack_begin(&w->stack);
	*flags = 0;
	if (!sp_stack_anchor(&w->stack, bounds, w->regs.r[SP_ARCH_REG_SP]))
		*flags |= SP_SAMPLE_OFF_STACK;
}

/*
 * Fills pc[] and returns how many entries it wrote. *over becomes false if pc[] was full before the
 * walk ended.
 */
static unsigned fill(struct sp_walk *w, struct sp_stack_bounds *bounds,
		     const struct sp_unwind_room *room, uint16_t *flags, bool *over)
{
	uint64_t *pc = room->pc;
	unsigned n = 0;

	*over = true;
	while ((n += sp_fast_path(w, pc + n, room->max - n)) < room->max) {
		uintptr_t here = w->regs.pc;
		enum step taken;

		pc[n++] = w->interrupted ? here : here - 1;
		taken = step(w);
		/*
		 * No call leads into a signal trampoline or a hand-made frame, so there is no call
		 * instruction to point at.
		 */
		if (taken == STEP_INTERRUPTED || taken == STEP_FORGED)
			pc[n - 1] = here;
		if (taken == STEP_OUTERMOST || taken == STEP_FORGED) {
			*flags |= SP_SAMPLE_ROOTED;
			return n;
		}
		if (taken == STEP_FAILED) {
			if (w->unreadable)
				*flags |= SP_SAMPLE_RETRY;
			else
				sp_count(SP_COUNT_UNWIND_FAILED);
			return n;
		}
		w->interrupted = taken == STEP_INTERRUPTED;
		if (w->interrupted)
			(void)sp_stack_anchor(&w->stack, bounds, w->regs.r[SP_ARCH_REG_SP]);
	}
	*over = false;
	return n;
}

static unsigned walk(struct sp_walk *w, struct sp_stack_bounds *bounds,
		     const struct sp_unwind_room room[2], uint16_t *flags)
{
	bool over;
	unsigned n;

	begin(w, bounds, flags);
	n = fill(w, bounds, &room[0], flags, &over);
	if (!over)
		n += fill(w, bounds, &room[1], flags, &over);
	if (!over)
		*flags |= SP_SAMPLE_TRUNCATED;
	if (w->objects.untold)
		*flags |= SP_SAMPLE_UNTOLD;
	return n;
}

unsigned sp_unwind_walk(const void *ucontext, struct sp_stack_bounds *bounds,
			const struct sp_unwind_room room[2], uint16_t *flags)
{
	struct sp_walk w;

	sp_regs_load(&w.regs, ucontext);
	return walk(&w, bounds, room, flags);
}

unsigned sp_unwind_walk_from(const struct sp_regs *regs, struct sp_stack_bounds *bounds,
			     const struct sp_unwind_room room[2], uint16_t *flags)
{
	struct sp_walk w;

	w.regs = *regs;
	return walk(&w, bounds, room, flags);
}

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
	struct sp_regs regs;

	sp_regs_load(&regs, ucontext);
	return sp_snapshot_put_from(r, s, &regs, bounds);
}

SP_SIGSAFE int sp_snapshot_put_from(struct sp_ring *r, const struct sp_sample *s,
				    const struct sp_regs *regs, struct sp_stack_bounds *bounds)
{
	uintptr_t sp = regs->r[SP_ARCH_REG_SP];
	struct {
		uint64_t sample[SP_SAMPLE_HEAD_WORDS];
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
		head.reg[i] = regs->r[i];
	part[1] = (struct sp_ring_part){(const void *)from, to - from};
	return sp_ring_put_parts(r, SP_RECORD_SNAPSHOT, part, 2);
}
