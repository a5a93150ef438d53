/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes, pops and strikes one instruction at a time. After each instruction, where the sampling
 * handler could come, peek() must give the top as it was before the operation or as it is after it,
 * whole, and never the former again once it gave the latter. Another thread's end and a new name may
 * come between any two of them. The same is run on a push that writes in the wrong order, which must
 * be noticed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "test/stress/trap_step.h"

#define NO_SPAN 0U
#define DEEPER (SP_SPAN_DEPTH_MAX + 1) /* the first one that does not fit */
/* Spans from this id on are attached under a token; those before are active by being started. */
#define FIRST_ATTACHED 10U
#define IDS (SP_SPAN_DEPTH_MAX + 2)
#define ROOT_OF(id) ((id) + 1000U)
#define NEW_NAME 4711U

typedef uint32_t push_fn(struct sp_span_stack *s, const struct sp_span_entry *e);

static struct sp_span_stack stack;
static struct {
	uint64_t before;
	uint64_t after;
	bool changed;
	unsigned stops;
	unsigned bad;
	unsigned strike_at; /* the stop at which "another thread" strikes */
	uint32_t strike_slot;
	uint64_t strike_id;
	bool by_table; /* it ends the span's record and leaves the frame alone */
	bool renaming; /* the span on top may have either name */
} seen;
static uint32_t refs[IDS];
static uint32_t root_refs[IDS];
static unsigned long all_stops;
static bool by_slot; /* spans on top are popped by their slot */

static struct sp_span_entry entry_of(uint64_t id)
{
	struct sp_span_entry e = {
		.span_id = id,
		.root_id = ROOT_OF(id),
		.name_id = (uint32_t)id * 5,
		.root_name_id = (uint32_t)id * 7,
		.token = id >= FIRST_ATTACHED ? id * 11 : 0,
		.ref = refs[id],
		.root_ref = root_refs[id],
	};

	memset(e.trace_id, (int)id, sizeof(e.trace_id));
	return e;
}

/* The record of an open span, and for the first time its root's. */
static void open_record(uint64_t id)
{
	struct sp_span_record r = {
		.span_id = id, .root_id = ROOT_OF(id), .handle = id, .name_id = (uint32_t)id * 5};
	struct sp_span_record root = {.span_id = ROOT_OF(id),
				      .root_id = ROOT_OF(id),
				      .handle = ROOT_OF(id),
				      .name_id = (uint32_t)id * 7};
	struct sp_span_record gone;

	if (root_refs[id] == 0 && sp_span_table_add(&root) == 0)
		root_refs[id] = root.ref;
	(void)sp_span_table_remove(id, &gone);
	if (sp_span_table_add(&r) != 0)
		abort();
	refs[id] = r.ref;
}

/* Of a span deeper than the stack its root is there, and nothing else. */
static bool is_deeper(const struct sp_span_entry *e)
{
	struct sp_span_entry want = entry_of(DEEPER);

	want.span_id = SP_SPAN_DEEPER;
	want.name_id = 0;
	want.ref = 0;
	want.token = SP_SPAN_STARTED;
	return memcmp(e, &want, sizeof(want)) == 0;
}

/* The id on top; NO_SPAN for none, and -1 for a frame that no push ever wrote. */
static uint64_t top(void)
{
	struct sp_span_entry e;

	memset(&e, 0, sizeof(e));
	if (!sp_span_stack_peek(&stack, &e))
		return NO_SPAN;
	if (e.span_id >= IDS)
		return is_deeper(&e) ? DEEPER : UINT64_MAX;
	struct sp_span_entry want = entry_of(e.span_id);

	if (seen.renaming && e.name_id == NEW_NAME)
		want.name_id = NEW_NAME;
	return memcmp(&e, &want, sizeof(e)) == 0 ? e.span_id : UINT64_MAX;
}

static void at_stop(int signo)
{
	struct sp_span_record gone;
	uint64_t now;

	(void)signo;
	seen.stops++;
	if (seen.stops == seen.strike_at && seen.by_table)
		(void)sp_span_table_remove(seen.strike_id, &gone);
	else if (seen.stops == seen.strike_at)
		(void)sp_span_stack_strike(&stack, seen.strike_slot, seen.strike_id);
	now = top();
	if (seen.strike_at != 0) {
		/* two things change at once: only half-made frames and what has ended are wrong */
		seen.bad += now == UINT64_MAX ||
			    (seen.stops >= seen.strike_at && now == seen.strike_id);
		return;
	}
	if (now == seen.after)
		seen.changed = true;
	else if (now != seen.before || seen.changed)
		seen.bad++;
}

/* The same as sp_span_stack_push(), but depth and id are there before what they promise. */
static __attribute__((noinline)) uint32_t push_in_wrong_order(struct sp_span_stack *s,
							      const struct sp_span_entry *e)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	struct sp_span_frame *f = &s->frame[d];

	atomic_store_explicit(&s->depth, d + 1, memory_order_relaxed);
	atomic_store_explicit(&f->span_id, e->span_id, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	f->root_id = e->root_id;
	f->name_id = e->name_id;
	f->root_name_id = e->root_name_id;
	memcpy(f->trace_id, e->trace_id, sizeof(f->trace_id));
	f->token = e->token;
	f->ref = e->ref;
	f->root_ref = e->root_ref;
	return d;
}

static void expect(uint64_t before, uint64_t after)
{
	seen.before = before;
	seen.after = after;
	seen.changed = false;
	seen.stops = 0;
}

static void finish(void)
{
	all_stops += seen.stops;
	seen.bad += top() != seen.after;
}

static void push(push_fn *fn, uint64_t id)
{
	struct sp_span_entry e = entry_of(id);

	expect(top(), id);
	trap_step_on();
	(void)fn(&stack, &e);
	trap_step_off();
	finish();
}

static void pop(uint64_t id, uint64_t after)
{
	uint32_t slot = atomic_load_explicit(&stack.depth, memory_order_relaxed) - 1;

	expect(top(), after);
	trap_step_on();
	if (!by_slot || !sp_span_stack_pop_top(&stack, slot, id))
		(void)sp_span_stack_pop(&stack, id);
	trap_step_off();
	finish();
}

static void detach(uint64_t id, bool through, uint64_t after)
{
	expect(top(), after);
	trap_step_on();
	(void)sp_span_stack_pop_token(&stack, entry_of(id).token, through);
	trap_step_off();
	finish();
}

static void strike(uint32_t slot, uint64_t id, uint64_t after)
{
	expect(top(), after);
	trap_step_on();
	(void)sp_span_stack_strike(&stack, slot, id);
	trap_step_off();
	finish();
}

/* Every order of ending; slots are reused, so that a stale field would show. */
static void run_orders(push_fn *fn)
{
	memset(&seen, 0, sizeof(seen));
	memset(&stack, 0, sizeof(stack));
	push(fn, 1);
	push(fn, 2);
	push(fn, 3);
	pop(2, 3); /* the middle one */
	pop(3, 1); /* and two frames go */
	push(fn, 4);
	push(fn, 5);
	pop(5, 4);
	pop(4, 1);
	push(fn, 6);
	push(fn, 7);
	strike(2, 7, 6);
	strike(0, 1, 6);
	push(fn, 8); /* reaps what was struck */
	pop(99, 8);
	pop(8, 6);
	pop(6, NO_SPAN);
	push(fn, 9);
	strike(0, 9, NO_SPAN);
	pop(9, NO_SPAN);
	push(fn, 10);
	push(fn, 11);
	push(fn, 12);
	detach(11, false, 12);
	pop(12, NO_SPAN); /* ended while attached: hides what is below until its detach */
	detach(12, true, 10);
	detach(11, true, 10);
	detach(10, false, NO_SPAN);
}

static void push_until_full(void)
{
	memset(&seen, 0, sizeof(seen));
	memset(&stack, 0, sizeof(stack));
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++)
		push(sp_span_stack_push, id);
	push(sp_span_stack_push, DEEPER);
}

/* What remains of 1, 2, 3 after the operation and the strike, whichever came first. */
static uint64_t remains(uint64_t popped, uint64_t pushed, uint64_t struck)
{
	for (uint64_t id = pushed != 0 ? pushed : 3; id > 0; id = id == pushed ? 3 : id - 1) {
		if (id != popped && id != struck)
			return id;
	}
	return NO_SPAN;
}

/* Returns whether the strike came before the operation had ended. */
static bool struck_at(unsigned n, uint64_t popped, uint64_t pushed, uint64_t struck)
{
	memset(&stack, 0, sizeof(stack));
	for (uint64_t id = 1; id <= 3; id++) {
		open_record(id);
		struct sp_span_entry e = entry_of(id);

		(void)sp_span_stack_push(&stack, &e);
	}
	seen.strike_at = n;
	seen.strike_slot = (uint32_t)struck - 1;
	seen.strike_id = struck;
	if (pushed != 0)
		push(sp_span_stack_push, pushed);
	else
		pop(popped, 0);
	seen.bad -= top() != seen.after; /* finish() does not know of the strike */
	if (seen.stops < n)
		return false;
	seen.bad += top() != remains(popped, pushed, struck);
	if (!seen.by_table)
		seen.bad += sp_span_stack_strike(&stack, seen.strike_slot, struck); /* only once */
	return true;
}

static void end_elsewhere_everywhere(bool by_table)
{
	memset(&seen, 0, sizeof(seen));
	seen.by_table = by_table;
	for (uint64_t popped = 0; popped <= 3; popped++) {
		for (uint64_t struck = 1; struck <= 3; struck++) {
			unsigned n = 1;

			while (struck_at(n, popped, popped == 0 ? 9 : 0, struck))
				n++;
		}
	}
	seen.strike_at = 0;
}

/* The handler finds either name at any moment, and the new one at the end. */
static void rename_on_top(void)
{
	struct sp_span_record r;
	struct sp_span_entry e;

	memset(&seen, 0, sizeof(seen));
	memset(&stack, 0, sizeof(stack));
	open_record(1);
	open_record(2);
	push(sp_span_stack_push, 1);
	push(sp_span_stack_push, 2);
	seen.bad += !sp_span_table_by_id(2, &r);
	seen.renaming = true;
	expect(2, 2);
	trap_step_on();
	sp_span_table_rename(&r, NEW_NAME);
	trap_step_off();
	finish();
	seen.bad += !sp_span_stack_peek(&stack, &e) || e.name_id != NEW_NAME;
	seen.renaming = false;
	open_record(2);
}

static unsigned report(const char *what)
{
	printf("%s: %u bad\n", what, seen.bad);
	return seen.bad;
}

int main(void)
{
	unsigned bad = 0;
	unsigned long stops;

	if (!TRAP_STEP_POSSIBLE) {
		puts("single-stepping by the trap flag needs x86-64 without sanitizer");
		return TRAP_STEP_SKIPPED;
	}
	if (trap_step_init(at_stop) != 0 || sp_span_table_init() != 0)
		return 1;
	for (uint64_t id = 1; id < IDS; id++)
		open_record(id);
	for (int i = 0; i < 2; i++) {
		by_slot = i == 1;
		run_orders(sp_span_stack_push);
		bad += report("every order");
		push_until_full();
		bad += report("until full");
		end_elsewhere_everywhere(false);
		bad += report("struck by another thread");
		end_elsewhere_everywhere(true);
		bad += report("ended by another thread, before its strike");
	}
	rename_on_top();
	bad += report("renamed");
	stops = all_stops;
	run_orders(push_in_wrong_order);
	printf("%lu stops in all; a push in the wrong order: %u bad\n", stops, seen.bad);
	return bad != 0 || seen.bad == 0 || stops < 1000;
}
