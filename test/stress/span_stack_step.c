/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, ends, attaches and detaches one instruction at a time. After each instruction, at which the sampling
 * handler could come, peek() must return the span that was active before the operation or the one after it, whole,
 * and never the former after the latter. Another thread's end and a new name may come between any two instructions.
 * The same runs on a push that writes in the wrong order, which must be noticed. When frames are moved, the frames
 * below the topmost one are checked as well, because the topmost may end at any moment. test/unit/core/test_span.c
 * and test_span_model.c test which span is active when.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/process.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/stress/trap_step.h"
#include "test/unit/core/span_remove.h"

#define NO_SPAN 0U
#define DEEPER (SP_SPAN_DEPTH_MAX + 1) /* the first depth at which other frames are forgotten */
#define IDS (SP_SPAN_DEPTH_MAX + 3)
#define INTERLEAVED (IDS + 1)
#define ROOT_ALONE (IDS + 2)
#define FORGOTTEN (IDS + 3)
/* At least the number of instructions that forget a frame. */
#define FORGET_STOPS 160U
#define ROOT 1000U
#define OTHER_ROOT 2000U
#define NEW_NAME 4711U
#define TOKEN_OF(id) ((id)*SP_SPAN_STORAGES)

typedef void push_fn(struct sp_span_stack *s, uint64_t span_id, uint64_t token);

static struct sp_span_stack stack;
static const struct sp_span_stack *looked_at = &stack;
static struct {
	uint64_t before;
	uint64_t after;
	bool changed;
	unsigned stops;
	unsigned bad;
	unsigned end_at; /* the stop at which "another thread" ends the span with that id */
	uint64_t end_id;
	bool renaming;    /* the topmost span may have either name */
	bool moving;      /* all frames are checked */
	unsigned gone_at; /* the first stop at which the oldest frame was missing */
} seen;
/* In the full stack whose frames are moved: the token of each span, and of those without a frame. */
static uint64_t tokens[IDS];
static bool popped[IDS];
static struct sp_span_record records[IDS];
static unsigned long all_stops;

/* Opens it again, with that root. */
static void open_record(uint64_t id, uint64_t root)
{
	struct sp_span_record gone;

	(void)sp_test_span_remove(id, &gone);
	records[id] = (struct sp_span_record){
		.span_id = id,
		.root_id = root,
		.handle = id * 64,
		.trace = {id * 3, id * 7},
		.name_id = (uint32_t)id * 5,
		.root_name_id = (uint32_t)id * 9,
	};
	if (sp_span_table_add(&records[id]) != 0)
		abort();
}

/* The id of the active span; NO_SPAN for none, and -1 for a record that no span ever had. */
static uint64_t top(void)
{
	struct sp_span_record r;
	struct sp_span_record want;

	switch (sp_span_stack_peek(looked_at, &r)) {
	case SP_SPAN_NONE:
		return NO_SPAN;
	case SP_SPAN_INTERLEAVED:
		return INTERLEAVED;
	case SP_SPAN_ROOT_ALONE:
		return r.root_id == 1 && r.span_id == 0 ? ROOT_ALONE : UINT64_MAX;
	case SP_SPAN_FORGOTTEN:
		return FORGOTTEN;
	case SP_SPAN_LABEL:
	case SP_SPAN_KNOWN:
	default:
		break;
	}
	if (r.span_id >= IDS)
		return UINT64_MAX;
	want = records[r.span_id];
	if (seen.renaming && r.name_id == NEW_NAME)
		want.name_id = NEW_NAME;
	return memcmp(&r, &want, offsetof(struct sp_span_record, ref)) == 0 ? r.span_id
									    : UINT64_MAX;
}

static bool is_kept(uint64_t id)
{
	struct sp_span_record r;

	return !popped[id] && (sp_span_token_attached(tokens[id]) || sp_span_table_by_id(id, &r));
}

static uint64_t next_kept(uint64_t id)
{
	do {
		id--;
	} while (id > 0 && !is_kept(id));
	return id;
}

/* From the top down, the stack has the kept frames in their order, each with its token. */
static bool frames_are_right(void)
{
	bool met[IDS] = {false};
	uint64_t want = DEEPER;

	for (uint32_t d = atomic_load(&stack.depth); d > 0; d--) {
		uint64_t id = atomic_load(&stack.frame[d - 1].span_id);

		if (id == 0 || id == DEEPER)
			continue;
		if (id > DEEPER || atomic_load(&stack.frame[d - 1].token) != tokens[id])
			return false;
		if (met[id] || !is_kept(id))
			continue;
		met[id] = true;
		want = next_kept(want);
		if (id != want)
			return false;
	}
	return next_kept(want) == 0;
}

static void at_stop(int signo)
{
	uint64_t now;

	(void)signo;
	seen.stops++;
	if (seen.stops == seen.end_at) {
		(void)sp_span_table_close(&records[seen.end_id]);
		(void)sp_span_stack_ended_elsewhere(&stack, &records[seen.end_id]);
	}
	seen.bad += seen.moving && !frames_are_right();
	if (atomic_load(&stack.frame[0].span_id) == 0 && seen.gone_at == 0)
		seen.gone_at = seen.stops;
	now = top();
	if (seen.end_at != 0) {
		/* two things change at once: only incomplete frames and ended spans are wrong */
		seen.bad += now == UINT64_MAX || (seen.stops >= seen.end_at && now == seen.end_id);
		return;
	}
	/* The end of a root may be visible a moment before the end of all spans below it. */
	if (now == FORGOTTEN && seen.before == ROOT_ALONE && seen.after == NO_SPAN && !seen.changed)
		return;
	if (now == seen.after)
		seen.changed = true;
	else if (now != seen.before || seen.changed)
		seen.bad++;
}

/* The same as sp_span_stack_push(), but it writes the depth before the frame. */
static __attribute__((noinline)) void push_in_wrong_order(struct sp_span_stack *s, uint64_t span_id,
							  uint64_t token)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	atomic_store_explicit(&s->depth, d + 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&s->frame[d].span_id, span_id, memory_order_relaxed);
	atomic_store_explicit(&s->frame[d].token, token, memory_order_relaxed);
}

static void expect(uint64_t after)
{
	seen.before = top();
	seen.after = after;
	seen.changed = false;
	seen.stops = 0;
}

static void finish(void)
{
	all_stops += seen.stops;
	seen.bad += top() != seen.after;
}

static void push(push_fn *fn, uint64_t id, uint64_t token, uint64_t after)
{
	expect(after);
	trap_step_on();
	fn(&stack, id, token);
	trap_step_off();
	finish();
}

static void start(push_fn *fn, uint64_t id)
{
	open_record(id, ROOT);
	push(fn, id, SP_SPAN_STARTED, id);
}

static void attach(push_fn *fn, uint64_t id)
{
	open_record(id, ROOT);
	push(fn, id, TOKEN_OF(id), id);
}

/* The present value of its record. */
static uint8_t forgot(uint64_t id)
{
	return sp_span_word_forgot(
		sp_span_word(sp_span_entry(records[id].ref), SP_SPAN_WORD_PLACE));
}

/* Does the same as leave() in sampler/span/span.c. */
static void end(uint64_t id, uint64_t after)
{
	expect(after);
	trap_step_on();
	if (sp_span_table_close(&records[id]))
		sp_span_stack_ended(&stack, id, forgot(id));
	trap_step_off();
	finish();
	sp_span_table_release(&records[id]);
}

static void detach(uint64_t id, bool through, uint64_t after)
{
	expect(after);
	trap_step_on();
	(void)sp_span_stack_pop(&stack, TOKEN_OF(id), through);
	trap_step_off();
	finish();
}

static void clear(void)
{
	memset(&seen, 0, sizeof(seen));
	memset(&stack, 0, sizeof(stack));
}

/* Every order of ends; frames are reused, so that a stale word would show. */
static void run_orders(push_fn *fn)
{
	clear();
	start(fn, 1);
	start(fn, 2);
	start(fn, 3);
	end(2, 3); /* the middle one */
	end(3, 1); /* and two frames are removed */
	start(fn, 4);
	start(fn, 5);
	end(5, 4);
	end(4, 1);
	start(fn, 6);
	end(1, 6);
	start(fn, 7); /* removes the ended ones */
	end(6, 7);
	end(7, NO_SPAN);
	attach(fn, 10);
	attach(fn, 11);
	attach(fn, 12);
	detach(11, false, 12);
	end(12, NO_SPAN); /* ended while attached: hides the frames below until its detach */
	detach(12, true, 10);
	attach(fn, 13);
	attach(fn, 14); /* replaces 12 */
	detach(13, true, 10);
	detach(11, true, 10);
	detach(10, false, NO_SPAN);
}

/*
 * One more than there are frames: the oldest ones are forgotten, and the rest moves, while the topmost one is always
 * active. Then back to the root, by ends, or by scopes that are detached.
 */
static void push_until_forgotten(bool scopes)
{
	const unsigned kept = DEEPER - SP_SPAN_FORGET;

	clear();
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++) {
		open_record(id, 1);
		sp_span_stack_push(&stack, id, scopes ? TOKEN_OF(id) : SP_SPAN_STARTED);
	}
	open_record(DEEPER, 1);
	push(sp_span_stack_push, DEEPER, scopes ? TOKEN_OF(DEEPER) : SP_SPAN_STARTED, DEEPER);
	seen.bad += atomic_load(&stack.depth) != kept;
	for (uint64_t id = DEEPER; id >= 1; id--) {
		uint64_t after = id == 1 ? NO_SPAN : id <= SP_SPAN_FORGET + 1 ? ROOT_ALONE : id - 1;

		if (scopes)
			detach(id, id % 2 == 0, after);
		else
			end(id, after);
	}
	seen.bad += sp_span_stack_forgot(&stack);
}

/*
 * The stack forgets frames, and at stop n another thread ends the span `elsewhere`. A forgotten span must be counted
 * off once, when it ends. Returns whether stop n came before the end.
 */
static bool forgotten_ended_at(unsigned n, uint64_t elsewhere)
{
	bool has_ended;

	memset(&stack, 0, sizeof(stack));
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++) {
		open_record(id, id);
		sp_span_stack_push(&stack, id, SP_SPAN_STARTED);
	}
	seen.end_at = n;
	seen.end_id = elsewhere;
	expect(SP_SPAN_DEPTH_MAX);
	trap_step_on();
	sp_span_stack_make_room(&stack);
	trap_step_off();
	all_stops += seen.stops;
	has_ended = seen.stops >= n;
	seen.end_at = 0;
	for (uint64_t id = SP_SPAN_DEPTH_MAX; id >= 1; id--) {
		bool is_left = id > 1 || elsewhere != 1 || !has_ended;

		seen.bad += id <= SP_SPAN_FORGET && sp_span_stack_forgot(&stack) != is_left;
		if (has_ended && id == elsewhere) {
			sp_span_table_release(&records[id]);
		} else if (sp_span_table_close(&records[id])) {
			sp_span_stack_ended(&stack, id, forgot(id));
			sp_span_table_release(&records[id]);
		}
	}
	seen.bad += top() != NO_SPAN || sp_span_stack_forgot(&stack);
	return has_ended;
}

/* At many instructions while the span's own frame is forgotten, and at some later ones. */
static void end_forgotten_elsewhere(void)
{
	unsigned gone;

	clear();
	(void)forgotten_ended_at(UINT32_MAX, SP_SPAN_DEPTH_MAX);
	gone = seen.gone_at;
	seen.bad += gone <= FORGET_STOPS;
	for (unsigned n = gone - FORGET_STOPS; n < gone + 5; n += 11)
		seen.bad += !forgotten_ended_at(n, 1);
	for (unsigned n = gone; forgotten_ended_at(n, SP_SPAN_FORGET);)
		n += 5999;
}

static void interleave(void)
{
	clear();
	open_record(1, ROOT);
	push(sp_span_stack_push, 1, SP_SPAN_STANDS_IN, 1);
	open_record(2, OTHER_ROOT);
	push(sp_span_stack_push, 2, SP_SPAN_STANDS_IN, INTERLEAVED);
	open_record(3, OTHER_ROOT);
	push(sp_span_stack_push, 3, SP_SPAN_STANDS_IN, INTERLEAVED);
	attach(sp_span_stack_push, 10);
	detach(10, false, INTERLEAVED);
	end(1, 3);
	end(3, 2);
	end(2, NO_SPAN);
}

/* What remains of 1, 2, 3 after the operation and the other end, in either order. */
static uint64_t remains(uint64_t ended, uint64_t pushed, uint64_t elsewhere)
{
	for (uint64_t id = pushed != 0 ? pushed : 3; id > 0; id = id == pushed ? 3 : id - 1) {
		if (id != ended && id != elsewhere)
			return id;
	}
	return NO_SPAN;
}

/* Returns whether the other end came before the operation was over. */
static bool ended_at(unsigned n, uint64_t ended, uint64_t pushed, uint64_t elsewhere)
{
	uint64_t want = remains(ended, pushed, elsewhere);

	memset(&stack, 0, sizeof(stack));
	for (uint64_t id = 1; id <= 3; id++) {
		open_record(id, ROOT);
		sp_span_stack_push(&stack, id, SP_SPAN_STARTED);
	}
	seen.end_at = n;
	seen.end_id = elsewhere;
	expect(want);
	if (pushed != 0)
		open_record(pushed, ROOT);
	trap_step_on();
	if (pushed != 0) {
		sp_span_stack_push(&stack, pushed, SP_SPAN_STARTED);
	} else if (sp_span_table_close(&records[ended])) {
		sp_span_stack_ended(&stack, records[ended].span_id, forgot(ended));
	}
	trap_step_off();
	all_stops += seen.stops;
	if (seen.stops < n)
		return false;
	seen.bad += top() != want;
	sp_span_table_release(&records[elsewhere]);
	if (pushed == 0 && ended != elsewhere)
		sp_span_table_release(&records[ended]);
	return true;
}

static void end_elsewhere_everywhere(void)
{
	clear();
	for (uint64_t ended = 0; ended <= 3; ended++) {
		for (uint64_t elsewhere = 1; elsewhere <= 3; elsewhere++) {
			unsigned n = 1;

			while (ended_at(n, ended, ended == 0 ? 9 : 0, elsewhere))
				n++;
		}
	}
	seen.end_at = 0;
}

/* Uses every frame, most of them for ended spans. */
static void fill_for_nothing(unsigned kept_of)
{
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX; id++) {
		tokens[id] = id % 5 == 0   ? TOKEN_OF(id)
			     : id % 5 == 1 ? SP_SPAN_STANDS_IN
					   : SP_SPAN_STARTED;
		popped[id] = false;
		open_record(id, ROOT);
		sp_span_stack_push(&stack, id, tokens[id]);
	}
	for (uint64_t id = 1; id < SP_SPAN_DEPTH_MAX; id++) {
		if (id % kept_of == 0)
			continue;
		if (sp_span_token_attached(tokens[id]) && id % 2 == 0) {
			popped[id] = sp_span_stack_pop(&stack, tokens[id], false);
			continue;
		}
		if (sp_span_table_close(&records[id])) {
			sp_span_stack_ended(&stack, id, forgot(id));
			sp_span_table_release(&records[id]);
		}
	}
}

/* Moves frames. Returns whether "another thread" has ended the topmost span meanwhile, at that stop. */
static bool make_room(unsigned kept_of, unsigned end_at)
{
	bool has_ended;
	unsigned kept = 0;

	memset(&stack, 0, sizeof(stack));
	fill_for_nothing(kept_of);
	seen.bad += atomic_load(&stack.depth) != SP_SPAN_DEPTH_MAX;
	seen.end_at = end_at;
	seen.end_id = SP_SPAN_DEPTH_MAX;
	seen.moving = true;
	expect(SP_SPAN_DEPTH_MAX);
	trap_step_on();
	sp_span_stack_make_room(&stack);
	trap_step_off();
	all_stops += seen.stops;
	seen.bad += !frames_are_right() || sp_span_stack_forgot(&stack);
	has_ended = end_at != 0 && seen.stops >= end_at;
	seen.end_at = 0;
	seen.moving = false;
	if (has_ended) {
		sp_span_table_release(&records[SP_SPAN_DEPTH_MAX]);
		return true;
	}
	for (uint64_t id = SP_SPAN_DEPTH_MAX; id > 0; id = next_kept(id))
		kept++;
	seen.bad += atomic_load(&stack.depth) != kept || kept > SP_SPAN_DEPTH_MAX / 2;
	start(sp_span_stack_push, DEEPER);
	end(DEEPER, SP_SPAN_DEPTH_MAX);
	return false;
}

static void move_frames(void)
{
	clear();
	for (unsigned kept_of = 3; kept_of <= SP_SPAN_DEPTH_MAX; kept_of *= 2)
		(void)make_room(kept_of, 0);
	for (unsigned n = 1; make_room(4, n);)
		n += 1999;
}

/* The handler finds one of the two names at any moment, and the new one at the end. */
static void rename_on_top(void)
{
	struct sp_span_record r;

	clear();
	start(sp_span_stack_push, 1);
	start(sp_span_stack_push, 2);
	seen.renaming = true;
	expect(2);
	trap_step_on();
	sp_span_table_rename(&records[2], NEW_NAME);
	trap_step_off();
	finish();
	seen.bad += sp_span_stack_peek(&stack, &r) != SP_SPAN_KNOWN || r.name_id != NEW_NAME;
	seen.renaming = false;
}

/* Like open_record(), for a start that makes the record itself. */
static void start_by_id(uint64_t id, uint64_t root)
{
	struct sp_span_start s = {.handle = (const void *)(uintptr_t)(id * 64),
				  .by_id = true,
				  .has_parent = true,
				  .how = SP_ACTIVATION_START,
				  .sdk = 1};
	uint32_t name_id = sp_span_name("span", 4);
	const struct sp_span_record *parent = id != root ? &records[root] : NULL;

	records[id] = (struct sp_span_record){
		.span_id = id,
		.root_id = root,
		.handle = id * 64 | SP_SPAN_BY_ID,
		.trace = {id * 3, id * 7},
		.start_ns = sp_span_age_start_ns(),
		.name_id = name_id,
		.root_name_id = name_id,
		/* The entry that the thread takes next. */
		.root_ref = parent != NULL ? parent->root_ref
					   : sp_thread_own->spare.ref[sp_thread_own->spare.n - 1],
		.thread = (uint16_t)sp_thread_own->index,
		.sdk = 1,
	};
	memcpy(s.span_id, &id, sizeof(id));
	memcpy(s.trace_id, records[id].trace, sizeof(s.trace_id));
	if (parent != NULL)
		memcpy(s.parent_id, &parent->span_id, sizeof(s.parent_id));
	expect(id);
	trap_step_on();
	(void)sp_span_started_by_id(&s, name_id);
	trap_step_off();
	finish();
}

static void end_by_id(uint64_t id, uint64_t after)
{
	uint32_t ref;

	expect(after);
	trap_step_on();
	ref = sp_span_close_by_id(id, (const void *)(uintptr_t)(id * 64));
	if (ref != 0)
		sp_span_table_free(ref);
	trap_step_off();
	finish();
	seen.bad += ref == 0;
}

static void attach_by_id(uint64_t id)
{
	expect(id);
	trap_step_on();
	(void)sp_active_span_attach(TOKEN_OF(id), id);
	trap_step_off();
	finish();
}

static void detach_by_id(uint64_t id, uint64_t after)
{
	expect(after);
	trap_step_on();
	sp_active_span_detached(TOKEN_OF(id), true);
	trap_step_off();
	finish();
}

/* The short functions for a thread's starts, ends, attaches and detaches (sampler/span/span.h). */
static void short_way(void)
{
	clear();
	looked_at = &sp_thread_own->spans;
	for (unsigned round = 0; round < 3; round++) {
		start_by_id(1, 1);
		start_by_id(2, 1);
		start_by_id(3, 1);
		attach_by_id(2);
		end_by_id(3, 2);
		detach_by_id(2, 2);
		end_by_id(2, 1);
		end_by_id(1, NO_SPAN);
	}
	looked_at = &stack;
}

/*
 * A block, entries in store, a recently used name, a time, and a scope: the first use of each takes the general
 * function.
 */
static bool prepare_short_way(void)
{
	struct sp_span_start s = {.by_id = true, .how = SP_ACTIVATION_START};
	struct sp_span_record gone;

	for (uint64_t id = 1; id < IDS; id++)
		(void)sp_test_span_remove(id, &gone);
	sp_process_set();
	if (sp_names_init(10) != 0 || sp_thread_init() != 0 || sp_thread_self() == NULL)
		return false;
	sp_span_age_tick(false);
	(void)sp_span_name("span", 4);
	for (uint64_t id = 1; id <= 4; id++) {
		memcpy(s.span_id, &id, sizeof(id));
		if (!sp_span_started(&s))
			return false;
	}
	(void)sp_active_span_attach(TOKEN_OF(1), 1);
	sp_active_span_detached(TOKEN_OF(1), true);
	for (uint64_t id = 1; id <= 4; id++)
		sp_span_table_free(sp_span_close_by_id(id, NULL));
	return sp_thread_own->spare.n == 4;
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
	run_orders(sp_span_stack_push);
	bad += report("every order");
	push_until_forgotten(false);
	bad += report("until some are forgotten");
	push_until_forgotten(true);
	bad += report("until some scopes are forgotten");
	end_forgotten_elsewhere();
	bad += report("forgotten ones ended by another thread");
	interleave();
	bad += report("interleaved");
	end_elsewhere_everywhere();
	bad += report("ended by another thread");
	move_frames();
	bad += report("moved");
	rename_on_top();
	bad += report("renamed");
	if (!prepare_short_way())
		return 1;
	short_way();
	bad += report("the short way");
	stops = all_stops;
	run_orders(push_in_wrong_order);
	printf("%lu stops in all; a push in the wrong order: %u bad\n", stops, seen.bad);
	return bad != 0 || seen.bad == 0 || stops < 1000;
}
