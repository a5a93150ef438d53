/* SPDX-License-Identifier: Apache-2.0 */
/* Walks snapshots by libunwind, which sees no more than unwind_space.h shows it. Context: the exporter. */
#include "export/objects/unwind_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <libunwind.h>

#include "export/objects/call_site.h"
#include "export/objects/mapped.h"
#include "export/objects/unwind_space.h"
#include "sampler/base/arch_sig.h"

/* The first page is never code. A return address in it is not a pointer. */
#define SP_CODE_START 4096U
struct sp_unwinder {
	struct sp_unwind_space from;
	bool is_blocked; /* the frame pointer is not known */
	struct sp_unwinder_memory memory;
};

struct sp_unwinder *sp_unwinder_new(const struct sp_host_objects *host)
{
	struct sp_unwinder *u = calloc(1, sizeof(*u));

	if (u != NULL)
		u->from.host = host;
	return u;
}

void sp_unwinder_free(struct sp_unwinder *u)
{
	if (u == NULL)
		return;
	sp_unwind_space_close(&u->from);
	free(u);
}

/* The kernel entered this code without a call, and the frame above was interrupted. */
static bool at_sigreturn(struct sp_unwinder *u, uint64_t ip)
{
	uint8_t code[SP_ARCH_SIGRETURN_BYTES];

	return sp_mapped_read(u->from.mapped, ip, code, sizeof(code)) && sp_arch_is_sigreturn(code);
}

struct place {
	unw_word_t sp;
	unw_word_t fp;
};

static bool place_of(unw_cursor_t *cursor, struct place *p)
{
	if (unw_get_reg(cursor, UNW_REG_SP, &p->sp) != 0)
		return false;
	if (unw_get_reg(cursor, (unw_regnum_t)SP_ARCH_REG_FP, &p->fp) != 0)
		p->fp = 0;
	return true;
}

/*
 * Without call frame information libunwind guesses, also from what is at sp. Only one of its
 * guesses is accepted: a chain of frame pointers (code of a JIT compiler).
 */
static bool by_frame_pointer(struct sp_unwinder *u, const struct place *p, uint64_t ip)
{
	unw_word_t saved;

	return p->fp >= p->sp && p->fp % sizeof(saved) == 0 &&
	       sp_unwind_space_read(&u->from, p->fp + sizeof(saved), &saved) && saved == ip;
}

enum step { STEP_CALLER, STEP_OUTERMOST, STEP_FAILED };

/*
 * Steps from a frame to its caller. libunwind reports some steps that it could not make as the end
 * of the stack.
 */
static enum step step(struct sp_unwinder *u, unw_cursor_t *cursor, bool trampoline, uint64_t *ip)
{
	uint64_t here = *ip;
	struct place before;
	struct place after;
	int rc;

	u->from.described = false;
	u->from.denied = false;
	if (!place_of(cursor, &before))
		return STEP_FAILED;
	rc = unw_step(cursor);
	/* the made-up caller of a stack of Boost.Context, see sampler/unwind/unwind_sig.c */
	if (!u->from.described && !trampoline && before.fp == here)
		return STEP_OUTERMOST;
	if (rc <= 0)
		return rc == 0 && u->from.described && !u->from.denied ? STEP_OUTERMOST
								       : STEP_FAILED;
	if (unw_get_reg(cursor, UNW_REG_IP, ip) != 0 || !place_of(cursor, &after))
		return STEP_FAILED;
	if (!u->from.described && !trampoline && !by_frame_pointer(u, &before, *ip))
		return STEP_FAILED;
	if (*ip == 0)
		return STEP_OUTERMOST;
	/* A caller's sp is higher; interrupted code may be on another stack. */
	if (*ip < SP_CODE_START || *ip >= SP_ARCH_ADDRESS_END ||
	    (after.sp < before.sp && !trampoline))
		return STEP_FAILED;
	return STEP_CALLER;
}

static bool is_word_of_stack(const struct sp_unwinder_stack *s, uint64_t at)
{
	return at >= s->at && at - s->at + sizeof(uint64_t) <= s->bytes;
}

static uint64_t word_at(const struct sp_unwinder_stack *s, uint64_t at)
{
	uint64_t word;

	memcpy(&word, s->copy + (at - s->at), sizeof(word));
	return word;
}

/* A frame of a walk. */
struct frame {
	unw_cursor_t cursor;
	uint64_t ip;
	bool is_exact; /* ip is where it was interrupted, not where it will go on */
};

/* From that frame on, which becomes the last one that was reached. STEP_CALLER: there is no room for more. */
static enum step follow(struct sp_unwinder *u, struct frame *f, unsigned max, struct sp_sample *s)
{
	for (;;) {
		bool trampoline = at_sigreturn(u, f->ip);
		struct frame next = *f;
		enum step outcome;

		/* sample.h's convention: a caller's pc lies inside its call. */
		s->pc[s->depth++] = f->ip - (f->is_exact || trampoline ? 0 : 1);
		if (s->depth >= max)
			return STEP_CALLER;
		outcome = step(u, &next.cursor, trampoline, &next.ip);
		if (outcome != STEP_CALLER)
			return outcome;
		next.is_exact = trampoline;
		*f = next;
	}
}

/* So many return addresses are tried of which it is not certain that they are this frame's. */
#define GUESSES_MAX 16U

/* The caller of that frame, if its frame pointer has to be this because its return address lies there. */
static bool step_by(struct sp_unwinder *u, const struct frame *f, uint64_t return_at,
		    struct frame *caller)
{
	u->from.reg[SP_ARCH_REG_FP] = return_at - sizeof(uint64_t);
	*caller = *f;
	caller->is_exact = false;
	return step(u, &caller->cursor, false, &caller->ip) == STEP_CALLER &&
	       caller->ip == word_at(&u->from.stack, return_at);
}

/* Where its return address may lie; false if it is not the frame pointer that is missing. */
static bool lacks_frame_pointer(struct sp_unwinder *u, const struct frame *f, uint64_t *from)
{
	unw_cursor_t at = f->cursor;
	struct place place;

	if (!u->is_blocked || !u->from.described || !place_of(&at, &place) ||
	    (place.fp != 0 && is_word_of_stack(&u->from.stack, place.fp)))
		return false;
	*from = (place.sp + sizeof(uint64_t) - 1) & ~(uint64_t)(sizeof(uint64_t) - 1);
	return true;
}

/* A call of just this function has left its return address there. */
static bool find_certain(struct sp_unwinder *u, struct frame *f, uint64_t from)
{
	const struct sp_call_memory memory = {u->from.mapped, u->memory};
	uint64_t function = u->from.function;
	struct frame caller;
	uint64_t target;

	for (uint64_t at = from; is_word_of_stack(&u->from.stack, at); at += sizeof(uint64_t)) {
		if (sp_call_before(&memory, word_at(&u->from.stack, at), &target) !=
			    SP_CALL_KNOWN ||
		    target != function || !step_by(u, f, at, &caller))
			continue;
		*f = caller;
		return true;
	}
	return false;
}

/* Calls by pointers do not say whom they call: the whole rest has to be right then. */
static bool find_by_root(struct sp_unwinder *u, const struct frame *f, unsigned max,
			 struct sp_sample *s, uint64_t from)
{
	const struct sp_call_memory memory = {u->from.mapped, u->memory};
	uint16_t depth = s->depth;
	unsigned guesses = 0;
	struct frame caller;
	uint64_t target;

	for (uint64_t at = from; guesses < GUESSES_MAX && is_word_of_stack(&u->from.stack, at);
	     at += sizeof(uint64_t)) {
		if (sp_call_before(&memory, word_at(&u->from.stack, at), &target) != SP_CALL_ANY)
			continue;
		guesses++;
		if (s->depth + 1U < max)
			s->pc[s->depth++] = SP_SAMPLE_PC_GUESSED;
		if (step_by(u, f, at, &caller) && follow(u, &caller, max, s) == STEP_OUTERMOST)
			return true;
		s->depth = depth;
	}
	return false;
}

static bool walk(struct sp_unwinder *u, struct frame *f, unsigned max, struct sp_sample *s)
{
	enum step end = follow(u, f, max, s);
	uint64_t from;

	while (end == STEP_FAILED && lacks_frame_pointer(u, f, &from)) {
		if (find_certain(u, f, from)) {
			end = follow(u, f, max, s);
			continue;
		}
		end = find_by_root(u, f, max, s, from) ? STEP_OUTERMOST : STEP_FAILED;
		/* its return address may lie behind */
		u->from.cut |= end == STEP_FAILED && u->from.stack.has_more;
		break;
	}
	if (end == STEP_OUTERMOST)
		s->flags |= SP_SAMPLE_ROOTED;
	else if (end == STEP_CALLER || u->from.cut)
		s->flags |= SP_SAMPLE_TRUNCATED;
	return end != STEP_FAILED || u->from.cut;
}

/* From the registers on, which are set. s has nothing but flags that stay. */
static bool walk_stack(struct sp_unwinder *u, const struct sp_unwinder_stack *stack, unsigned max,
		       struct sp_sample *s)
{
	uint64_t pc = u->from.reg[SP_ARCH_REG_PC];
	struct frame f = {.ip = pc, .is_exact = true};

	s->depth = 0;
	u->from.stack = *stack;
	u->from.cut = false;
	if (max == 0 || max > SP_FRAMES_MAX)
		max = SP_FRAMES_MAX;
	if (sp_unwind_space_open(&u->from) &&
	    unw_init_remote(&f.cursor, u->from.space, &u->from) == 0)
		return walk(u, &f, max, s);
	s->pc[s->depth++] = pc;
	return false;
}

bool sp_unwinder_walk(struct sp_unwinder *u, const struct sp_snapshot *snap, unsigned max,
		      struct sp_sample *s)
{
	const struct sp_unwinder_stack stack = {snap->stack_at, snap->stack, snap->stack_bytes,
						snap->stack_bytes == SP_SNAPSHOT_STACK_MAX};

	u->is_blocked = false;
	memcpy(u->from.reg, snap->reg, sizeof(u->from.reg));
	memcpy(s, snap->sample, sizeof(snap->sample));
	s->flags &= SP_SAMPLE_OFF_STACK;
	return walk_stack(u, &stack, max, s);
}

bool sp_unwinder_walk_blocked(struct sp_unwinder *u, const struct sp_unwinder_blocked *blocked,
			      unsigned max, struct sp_sample *s)
{
	u->is_blocked = true;
	u->memory = blocked->memory;
	memset(u->from.reg, 0, sizeof(u->from.reg));
	u->from.reg[SP_ARCH_REG_SP] = blocked->sp;
	u->from.reg[SP_ARCH_REG_PC] = blocked->pc;
	memset(s, 0, offsetof(struct sp_sample, pc));
	return walk_stack(u, &blocked->stack, max, s);
}
