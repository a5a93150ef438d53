/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk: pc -> object -> call frame information -> caller, until the outermost frame. Called by
 * the sampling handler; sp_unwind_init by activation.
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 *
 * Object data is read where it is mapped. If another thread unmaps an object (dlclose) while one
 * of its return addresses is still on this stack, the host is already broken; we read nothing of
 * an object that _dl_find_object no longer reports.
 */
#include "sampler/unwind_sig.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "sampler/arch_sig.h"
#include "sampler/cfi_sig.h"
#include "sampler/counters.h"
#include "sampler/crt_code_sig.h"
#include "sampler/ehframe_sig.h"
#include "sampler/object_id_sig.h"
#include "sampler/row_cache.h"
#include "sampler/sample.h"
#include "sampler/short_row_sig.h"
#include "sampler/sighting.h"
#include "sampler/stack_bounds_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/*
 * struct dl_find_object of <dlfcn.h>, glibc 2.35 and later (checked: 2.36, x86-64; aarch64 has the
 * same layout, DLFO_STRUCT_HAS_EH_DBASE and _COUNT being 0 on both). Our own copy, because the
 * header of an older C library that we are built against lacks it.
 */
struct find_object_result {
	unsigned long long flags;
	void *map_start;
	void *map_end;
	void *link_map;
	void *eh_frame; /* the PT_GNU_EH_FRAME segment, that is .eh_frame_hdr; NULL if none */
	unsigned long long reserved[7];
};

typedef int find_object_fn(void *address, struct find_object_result *result);

/* Set once, before the first timer exists. Looked up so that we load into older C libraries too. */
static find_object_fn *find_object;

/* The first page is never code, so it marks pointers that are none. */
#define CODE_START 4096U

enum step {
	STEP_CALLER,
	STEP_INTERRUPTED, /* through a signal frame: the new pc is exact */
	STEP_OUTERMOST,
	STEP_FORGED, /* outermost, and nobody's call: put where a return would find it */
	STEP_FAILED,
};

/* An object that this walk has met, asked for once: neither its frames nor it can go meanwhile. */
struct met {
	uintptr_t start; /* [start, end): the addresses that belong to it */
	uintptr_t end;
	struct sp_object object;
	uint64_t identity; /* object_id_sig.h */
};

/* Stacks of more objects than that ask _dl_find_object more than once. */
#define MET_MAX 4U

struct walk {
	struct sp_regs regs;
	struct sp_stack_view stack;
	uint16_t *flags;  /* SP_SAMPLE_ bits, as the caller gets them */
	bool interrupted; /* regs.pc is the next instruction to run, not a return address */
	bool unreadable;  /* there is call frame information, but not in a form that we read */
	unsigned met_n;   /* objects met so far, and forgotten ones */
	struct met met[MET_MAX];
	const struct met *last; /* of them, or NULL */
};

/* The loader's name for the program itself, which it never unloads. */
static const void *program_map;

/* Not inlined, so that the gate for calls through pointers can name it. */
__attribute__((noinline)) static bool loader_find(uintptr_t address,
						  struct find_object_result *found)
{
	/* The one call through a pointer in a signal handler: glibc documents it as safe there. */
	return find_object != NULL && find_object((void *)address, found) == 0;
}

static void note_program(void)
{
	struct find_object_result found;

	if (loader_find(getauxval(AT_ENTRY), &found))
		program_map = found.link_map;
}

int sp_unwind_init(void *(*lookup)(const char *name))
{
	void *symbol = lookup("_dl_find_object");

	sp_stack_init();
	if (symbol == NULL)
		return -ENOSYS;
	find_object = (find_object_fn *)symbol;
	note_program();
	return 0;
}

static bool contains(const struct sp_object *object, uintptr_t address)
{
	return object->start <= address && address < object->end;
}

/*
 * The call frame information for pc and the mapping that holds it. For a program whose segments
 * do not follow each other without gaps (node), _dl_find_object answers with the one segment that
 * holds the address it was asked for, so the data's own segment takes a second question.
 */
static bool meet(struct walk *w, uintptr_t pc, struct met *met)
{
	struct find_object_result found;
	struct sp_object *object = &met->object;
	const void *map;

	if (!loader_find(pc, &found) || found.eh_frame == NULL)
		return false;
	map = found.link_map;
	met->start = (uintptr_t)found.map_start;
	met->end = (uintptr_t)found.map_end;
	object->eh_frame_hdr = (uintptr_t)found.eh_frame;
	object->start = met->start;
	object->end = met->end;
	if (!contains(object, object->eh_frame_hdr)) {
		if (!loader_find(object->eh_frame_hdr, &found))
			return false;
		object->start = (uintptr_t)found.map_start;
		object->end = (uintptr_t)found.map_end;
		if (!contains(object, object->eh_frame_hdr))
			return false;
	}
	met->identity = sp_object_identity(object, map == program_map);
	if (map != program_map && !sp_sighting_note(map, object, met->identity))
		*w->flags |= SP_SAMPLE_UNTOLD;
	return true;
}

/* The object that pc is in, or NULL. */
__attribute__((noinline)) static const struct met *find_object_of(struct walk *w, uintptr_t pc)
{
	struct met *met;

	for (unsigned i = 0; i < w->met_n && i < MET_MAX; i++) {
		if (w->met[i].start <= pc && pc < w->met[i].end)
			return &w->met[i];
	}
	met = &w->met[w->met_n % MET_MAX];
	/* A slot that was filled but half must not be found. */
	met->end = 0;
	if (!meet(w, pc, met)) {
		met->end = 0;
		return NULL;
	}
	w->met_n++;
	return met;
}

/* The same; nearly always it is the last frame's object. */
static inline const struct met *object_of(struct walk *w, uintptr_t pc)
{
	const struct met *met = w->last;

	if (met == NULL || pc < met->start || pc >= met->end)
		met = w->last = find_object_of(w, pc);
	return met;
}

/* 0, -ENOENT if no call frame information covers pc, -EINVAL if it cannot be understood. */
static int row_of(const struct met *met, uintptr_t pc, struct sp_cfi_row *row)
{
	struct sp_fde fde;
	int rc;

	if (met == NULL)
		return -ENOENT;
	rc = sp_ehframe_find(&met->object, pc, &fde);
	return rc != 0 ? rc : sp_cfi_decode(&met->object, &fde, pc, row);
}

/* Whether the code at pc is rt_sigreturn, wherever it is: vDSO, C library or a host's own. */
static bool at_sigreturn(struct walk *w)
{
	uintptr_t pc = w->regs.pc;

	return sp_stack_probe(&w->stack, pc, SP_ARCH_SIGRETURN_BYTES) &&
	       sp_arch_is_sigreturn((const uint8_t *)pc);
}

/* Takes the interrupted registers out of the frame that the kernel built. */
static enum step step_kernel_frame(struct walk *w)
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

/* Through code that brings no call frame information into an object which otherwise has it. */
static enum step step_crt_code(struct walk *w, const struct met *met)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	uintptr_t code = w->regs.pc;
	size_t bytes = met->end - code < SP_CRT_CODE_BYTES ? met->end - code : SP_CRT_CODE_BYTES;
	struct sp_crt_frame frame;
	uintptr_t fp;
	uintptr_t pc;

	/* Probed, because code need not be readable. */
	if (bytes == 0 || !sp_stack_probe(&w->stack, code, (unsigned)bytes) ||
	    !sp_crt_frame((const uint8_t *)code, bytes, &frame))
		return STEP_FAILED;
	if (!sp_stack_read(&w->stack, sp + frame.return_at, sizeof(pc), &pc) || pc < CODE_START)
		return STEP_FAILED;
	if (frame.fp_saved) {
		if (!sp_stack_read(&w->stack, sp + frame.fp_at, sizeof(fp), &fp))
			return STEP_FAILED;
		sp_regs_set(&w->regs, SP_ARCH_REG_FP, fp);
	}
	sp_regs_set(&w->regs, SP_ARCH_REG_SP, sp + frame.return_at + sizeof(pc));
	sp_regs_set_pc(&w->regs, pc);
	return STEP_CALLER;
}

/* The last resort, for code without call frame information that keeps frame pointers (JIT). */
static enum step step_frame_pointer(struct walk *w)
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
 * No call leaves a function's first instruction as the place to return to; code that builds a
 * stack does. So does glibc's makecontext with __start_context, which has no rule that ends a walk.
 */
static bool at_function_start(struct walk *w)
{
	uintptr_t pc = w->regs.pc;
	const struct met *met = object_of(w, pc);
	struct sp_fde fde;

	return met != NULL && sp_ehframe_find(&met->object, pc, &fde) == 0 && fde.pc_begin == pc;
}

/*
 * Boost.Context begins a stack by a jump to code that pushes its frame pointer as the place to return
 * to, where the process would end (make_fcontext, x86-64, seen in 1.74). No call leaves the two equal.
 */
static bool is_pushed_frame_pointer(const struct walk *w)
{
	return sp_regs_known(&w->regs, SP_ARCH_REG_FP) && w->regs.r[SP_ARCH_REG_FP] == w->regs.pc;
}

/* What applying a row said, for a frame that had this sp and pc. */
static enum step judge(const struct walk *w, int rc, uintptr_t sp, uintptr_t pc)
{
	if (rc <= 0)
		return rc == 0 ? STEP_OUTERMOST : STEP_FAILED;
	/* Callers are further up; only a leaf without a frame of its own leaves sp as it is. */
	if (w->regs.r[SP_ARCH_REG_SP] < sp || (w->regs.r[SP_ARCH_REG_SP] == sp && w->regs.pc == pc))
		return STEP_FAILED;
	return STEP_CALLER;
}

static enum step step_row(struct walk *w, const struct sp_cfi_row *row)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	uintptr_t pc = w->regs.pc;
	int rc;

	if (row->signal_frame && at_sigreturn(w))
		return step_kernel_frame(w);
	rc = sp_cfi_apply(row, &w->regs, &w->stack);
	if (row->signal_frame && rc > 0)
		return STEP_INTERRUPTED;
	return judge(w, rc, sp, pc);
}

/* Not inlined: the row and its decoding need more stack than the rest of the walk. */
__attribute__((noinline)) static enum step step_decoded(struct walk *w, const struct met *met,
							uintptr_t pc)
{
	struct sp_short_row kept;
	struct sp_cfi_row row;
	int rc = row_of(met, pc, &row);

	if (rc == 0) {
		if (met->identity != 0 && sp_short_row_make(&row, &kept))
			sp_row_cache_keep(pc, met->identity, &kept);
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
	if (met != NULL && step_crt_code(w, met) == STEP_CALLER)
		return STEP_CALLER;
	return step_frame_pointer(w);
}

/* Replaces w->regs by the caller's. A return address may be the first byte after its function. */
static enum step step(struct walk *w)
{
	uintptr_t sp = w->regs.r[SP_ARCH_REG_SP];
	uintptr_t pc = w->regs.pc;
	uintptr_t covered = w->interrupted ? pc : pc - 1;
	const struct met *met = object_of(w, covered);
	struct sp_short_row row;

	if (met == NULL || met->identity == 0 || !sp_row_cache_find(covered, met->identity, &row))
		return step_decoded(w, met, covered);
	return judge(w, sp_short_row_apply(&row, &w->regs, &w->stack), sp, pc);
}

static void begin(struct walk *w, const void *ucontext, struct sp_stack_bounds *bounds,
		  uint16_t *flags)
{
	sp_regs_load(&w->regs, ucontext);
	w->interrupted = true;
	w->unreadable = find_object == NULL;
	w->met_n = 0;
	w->last = NULL;
	sp_stack_begin(&w->stack);
	w->flags = flags;
	*flags = 0;
	if (!sp_stack_anchor(&w->stack, bounds, w->regs.r[SP_ARCH_REG_SP]))
		*flags |= SP_SAMPLE_OFF_STACK;
}

unsigned sp_unwind_walk(const void *ucontext, struct sp_stack_bounds *bounds, uint64_t *pc,
			unsigned max, uint16_t *flags)
{
	struct walk w;
	unsigned n = 0;

	begin(&w, ucontext, bounds, flags);
	while (n < max) {
		uintptr_t here = w.regs.pc;
		enum step taken;

		pc[n++] = w.interrupted ? here : here - 1;
		taken = step(&w);
		/* Nothing called into a signal trampoline or a forged frame: its pc is exact. */
		if (taken == STEP_INTERRUPTED || taken == STEP_FORGED)
			pc[n - 1] = here;
		if (taken == STEP_OUTERMOST || taken == STEP_FORGED) {
			*flags |= SP_SAMPLE_ROOTED;
			return n;
		}
		if (taken == STEP_FAILED) {
			if (w.unreadable)
				*flags |= SP_SAMPLE_RETRY;
			else
				sp_count(SP_COUNT_UNWIND_FAILED);
			return n;
		}
		w.interrupted = taken == STEP_INTERRUPTED;
		if (w.interrupted)
			(void)sp_stack_anchor(&w.stack, bounds, w.regs.r[SP_ARCH_REG_SP]);
	}
	*flags |= SP_SAMPLE_TRUNCATED;
	return n;
}
