/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: find the object that holds the pc, find the rule for that pc in the object's call frame
 * information, apply the rule to get the caller's registers, and repeat until the outermost frame.
 *
 * Call frame information may be missing or wrong, and the stack may be corrupt. So a step refuses a
 * caller that is not higher on the stack, and reads only memory that is known to be readable. A
 * step tries in this order: a rule from the rule cache (the fast path), a rule decoded now, the
 * kernel's signal frame, an epilogue, the frame pointer. A frame that was built by hand, as for a
 * new coroutine, is the outermost.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 * sp_unwind_init() runs at activation.
 */
#include "sampler/unwind/unwind_sig.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/region/record.h"
#include "sampler/region/region.h"
#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/ehframe_sig.h"
#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* The first page is never code, so a return address in it is not a pointer. */
#define CODE_START 4096U

enum step {
	STEP_CALLER,
	STEP_INTERRUPTED, /* through a signal frame: the new pc is exact */
	STEP_OUTERMOST,
	STEP_FORGED, /* outermost: the program wrote this return address, no call made it */
	STEP_FAILED,
};

int sp_unwind_init(void *(*lookup)(const char *name))
{
	sp_stack_init();
	return sp_object_cache_init(lookup);
}

/* Returns 0; -ENOENT if no call frame information covers pc; -EINVAL if it cannot be read. */
static int row_of(const struct sp_cached_object *cached, uintptr_t pc, struct sp_cfi_row *row)
{
	struct sp_fde fde;
	int rc;

	if (cached == NULL)
		return -ENOENT;
	rc = sp_ehframe_find(&cached->object, pc, &fde);
	return rc != 0 ? rc : sp_cfi_decode(&cached->object, &fde, pc, row);
}

/* Whether the code at pc is the call of rt_sigreturn, in the vDSO, the C library or the program. */
static bool is_sigreturn(struct sp_stack_view *view, uintptr_t pc)
{
	return sp_stack_probe(view, pc, SP_ARCH_SIGRETURN_BYTES) &&
	       sp_arch_is_sigreturn((const uint8_t *)pc);
}

static bool at_sigreturn(struct sp_walk *w)
{
	return is_sigreturn(&w->stack, w->regs.pc);
}

/*
 * Reads the interrupted registers from the frame that the kernel built at sp. False if it cannot be
 * read.
 */
static bool load_kernel_frame(struct sp_regs *regs, struct sp_stack_view *view, uintptr_t sp)
{
	struct sp_regs saved = {.known = 0};

	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		uintptr_t value;

		if (!sp_stack_read(view, sp_arch_saved_reg(sp, reg), sizeof(value), &value))
			return false;
		sp_regs_set(&saved, reg, value);
	}
	saved.pc = saved.r[SP_ARCH_REG_PC];
	*regs = saved;
	return true;
}

static enum step step_kernel_frame(struct sp_walk *w)
{
	return load_kernel_frame(&w->regs, &w->stack, w->regs.r[SP_ARCH_REG_SP]) ? STEP_INTERRUPTED
										 : STEP_FAILED;
}

#define SIGNALS 64U

/* struct kernel_sigaction */
struct action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

/* Whether the pc is the first instruction of the program's handler for a signal. */
static bool at_handler(const struct sp_regs *regs)
{
	uintptr_t signo = regs->r[SP_ARCH_REG_ARGUMENT];
	struct action now = {.handler = 0};

	return signo != 0 && signo <= SIGNALS &&
	       sp_arch_syscall(SYS_rt_sigaction, (long)signo, 0, (long)&now, sizeof(now.mask)) ==
		       0 &&
	       now.handler == regs->pc;
}

/*
 * The kernel delivers all pending signals before the thread continues, the lowest number first, and
 * builds a frame for each. So our signal, which has a high number, interrupts another handler at
 * its first instruction. The code that this handler interrupted used the CPU time, and not the
 * handler, so the walk begins with that code. False, without a change, if the pc is not at the
 * beginning of a handler.
 */
static bool leave_handler(struct sp_regs *regs, struct sp_stack_view *view)
{
	uintptr_t frame = sp_arch_handler_frame(regs->r);
	uintptr_t at = sp_arch_handler_return(regs->r);
	uintptr_t back = regs->r[SP_ARCH_REG_RETURN];

	return frame != 0 && at_handler(regs) &&
	       (at == 0 || sp_stack_read(view, at, sizeof(back), &back)) &&
	       is_sigreturn(view, back) && load_kernel_frame(regs, view, frame);
}

/*
 * Points the view at the stack of the code that used the CPU time. False if that is not the
 * thread's own stack.
 */
static bool anchor(struct sp_regs *regs, struct sp_stack_view *view, struct sp_stack_bounds *bounds)
{
	bool is_own;
	unsigned n = 0;

	do {
		sp_stack_begin(view);
		is_own = sp_stack_anchor(view, bounds, regs->r[SP_ARCH_REG_SP]);
	} while (n++ < SIGNALS && leave_handler(regs, view));
	return is_own;
}

#define CODE_CACHE_BYTES ((uintptr_t)256 << 20)

/*
 * Whether the present code and a caller near it belong to no object: a generated interpreter, such
 * as Java's, pushes a return address and jumps, so no call stands before its callers.
 */
static bool is_among_generated_code(struct sp_walk *w, const struct sp_cached_object *here_in,
				    uintptr_t pc)
{
	uintptr_t here = w->regs.pc;

	return here_in == NULL && (pc > here ? pc - here : here - pc) < CODE_CACHE_BYTES &&
	       sp_object_cache_at(&w->objects, pc) == NULL;
}

/*
 * The last resort, for code without call frame information: generated code (JIT) usually has frame
 * pointers. Nobody knows whether this code has them, so the word in place of the return address
 * counts as a caller only if it is behind a call or among generated code. It never counts as the
 * end of the stack. cached: the object of the code; NULL = none.
 */
static enum step step_frame_pointer(struct sp_walk *w, const struct sp_cached_object *cached)
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
	if (pc < CODE_START || pc >= SP_ARCH_ADDRESS_END ||
	    (!sp_stack_is_behind_call(&w->stack, pc) && !is_among_generated_code(w, cached, pc)))
		return STEP_FAILED;
	sp_regs_set(&caller, SP_ARCH_REG_SP, fp + 2 * sizeof(fp));
	sp_regs_set(&caller, SP_ARCH_REG_FP, saved_fp);
	sp_regs_set_pc(&caller, pc);
	w->regs = caller;
	return STEP_CALLER;
}

/* An epilogue restores some eight registers. */
#define EPILOGUE_MAX 12U

/*
 * Applies one instruction of an epilogue. False if the instruction is of another kind, or the stack
 * cannot be read.
 */
static bool run_epilogue(struct sp_walk *w, struct sp_regs *regs, struct sp_arch_epilogue e)
{
	uintptr_t value;

	if (e.op == SP_ARCH_EPILOGUE_NONE)
		return false;
	if (e.op == SP_ARCH_EPILOGUE_ADD) {
		sp_regs_set(regs, SP_ARCH_REG_SP, regs->r[SP_ARCH_REG_SP] + e.value);
		return true;
	}
	if (e.op == SP_ARCH_EPILOGUE_LEAVE) {
		if (!sp_regs_known(regs, SP_ARCH_REG_FP) ||
		    regs->r[SP_ARCH_REG_FP] < regs->r[SP_ARCH_REG_SP])
			return false;
		sp_regs_set(regs, SP_ARCH_REG_SP, regs->r[SP_ARCH_REG_FP]);
		e.value = SP_ARCH_REG_FP;
	}
	if (!sp_stack_read(&w->stack, regs->r[SP_ARCH_REG_SP], sizeof(value), &value))
		return false;
	sp_regs_set(regs, SP_ARCH_REG_SP, regs->r[SP_ARCH_REG_SP] + sizeof(value));
	if (e.op == SP_ARCH_EPILOGUE_RETURN)
		sp_regs_set_pc(regs, sp_arch_strip(value));
	else
		sp_regs_set(regs, e.value, value);
	return true;
}

/*
 * For code without call frame information that only has to remove its frame and return. The
 * instructions show the caller, so this is no guess. Python's trampolines, one for each of its
 * functions with -X perf, are such code behind their only call, and have no frame pointer.
 */
static enum step step_epilogue(struct sp_walk *w)
{
	struct sp_regs caller = w->regs;
	uintptr_t at = w->regs.pc;

	for (unsigned n = 0; n < EPILOGUE_MAX; n++) {
		struct sp_arch_epilogue e;

		if (!sp_stack_probe(&w->stack, at, SP_ARCH_EPILOGUE_BYTES))
			return STEP_FAILED;
		e = sp_arch_epilogue_at((const uint8_t *)at);
		if (!run_epilogue(w, &caller, e))
			return STEP_FAILED;
		if (e.op == SP_ARCH_EPILOGUE_RETURN) {
			if (caller.pc < CODE_START || caller.pc >= SP_ARCH_ADDRESS_END)
				return STEP_FAILED;
			w->regs = caller;
			return STEP_CALLER;
		}
		at += e.bytes;
	}
	return STEP_FAILED;
}

/*
 * Whether the return address is the first instruction of a function. No call makes such a return
 * address, but code that builds a stack by hand does: glibc's makecontext() with __start_context,
 * which has no rule that ends a walk.
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
 * address; a return there would end the process (make_fcontext, x86-64, seen in 1.74). After a
 * call, return address and frame pointer are never equal.
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
	 * A caller's sp is higher than its callee's. Both are equal only if the callee is a leaf
	 * function without a frame, and then the pc differs.
	 */
	if (w->regs.r[SP_ARCH_REG_SP] < sp || (w->regs.r[SP_ARCH_REG_SP] == sp && w->regs.pc == pc))
		return STEP_FAILED;
	return STEP_CALLER;
}

/*
 * Not inlined: the row and its decoding need more stack than the rest of the walk, and most steps
 * do not need them.
 */
__attribute__((noinline)) static enum step
step_decoded(struct sp_walk *w, const struct sp_cached_object *cached, uintptr_t pc, bool keep)
{
	bool is_without_header = cached == NULL && w->objects.without_header;
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
	if (step_epilogue(w) == STEP_CALLER)
		return STEP_CALLER;
	w->undescribed |= cached != NULL || is_without_header;
	return step_frame_pointer(w, cached);
}

/*
 * Replaces w->regs by the caller's registers if the fast path cannot do so. A return address may be
 * just behind its function, after a call that never returns. So the step looks for the object and
 * the rule of the byte before the return address.
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
 * Sets the walk up at the pc in its registers. *flags is 0, or SP_SAMPLE_OFF_STACK if the thread
 * runs on another stack than its own; then *bounds does not change.
 */
static void begin(struct sp_walk *w, struct sp_stack_bounds *bounds, uint16_t *flags)
{
	w->interrupted = true;
	w->undescribed = false;
	w->unreadable = !sp_object_cache_possible();
	sp_object_cache_begin(&w->objects);
	*flags = anchor(&w->regs, &w->stack, bounds) ? 0 : SP_SAMPLE_OFF_STACK;
}

/*
 * Whether the exporter should walk a copy of the stack. The file of an object may have call frame
 * information without a table in memory (.eh_frame without .eh_frame_hdr, .debug_frame), and the
 * exporter reads files. If no file has any, the exporter says so in the region. If there is no room
 * for a copy, the sample has the frames that frame pointers gave.
 */
static bool is_for_exporter(const struct sp_walk *w)
{
	return w->unreadable ||
	       (w->undescribed &&
		atomic_load_explicit(&sp_region_now()->no_frame_tables, memory_order_relaxed) == 0);
}

/*
 * Fills pc[] and returns the number of entries. *over becomes false if pc[] was full before the
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
			if (!is_for_exporter(w))
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
	if (is_for_exporter(w))
		*flags |= SP_SAMPLE_RETRY;
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

/* The end of the readable part of [from, to). Probes pages that no walk has proven. */
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
	struct sp_stack_view view;
	struct sp_regs regs;

	sp_regs_load(&regs, ucontext);
	(void)anchor(&regs, &view, bounds);
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
	/* The red zone may be in a page that the stack has never grown into. */
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
