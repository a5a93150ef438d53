/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of active spans of one thread. Pushed and popped by the owning thread (APP), read by
 * its own signal handler (SIG) between any two instructions, and struck out by other threads that
 * end one of its spans: they may only turn a frame's `span_id` to 0, the owner reaps it later.
 */
#ifndef SP_SPAN_STACK_H
#define SP_SPAN_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/span_overflow.h"

#define SP_SPAN_DEPTH_MAX 64U

/*
 * Span ids are the 8 bytes of the id as they lie in memory; 0 never names a span. A frame with this
 * id stands for "no span": an attached context without a recorded one hides what is below it.
 */
#define SP_SPAN_BLANK UINT64_MAX

/* In what peek gives: a span deeper than the stack. Its root is known, itself it is not. */
#define SP_SPAN_DEEPER (UINT64_MAX - 1)

/*
 * A frame's token is that of the scope that attached it, or one of these two for a span that is
 * active by being started. A frame that yields counts only until the process attaches something.
 */
#define SP_SPAN_STARTED UINT64_C(0)
#define SP_SPAN_YIELDS UINT64_MAX

static inline bool sp_span_token_attached(uint64_t token)
{
	return token != SP_SPAN_STARTED && token != SP_SPAN_YIELDS;
}

/* Something was attached: frames that yield label nothing any more, on any thread. */
extern _Atomic bool sp_span_stack_scoped;

static inline SP_SIGSAFE bool sp_span_token_yields(uint64_t token)
{
	return token == SP_SPAN_YIELDS &&
	       atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

struct sp_span_frame {
	_Atomic uint64_t span_id; /* 0 = ended; the last word written by push */
	uint64_t root_id;         /* the local root's span id */
	uint32_t name_id;         /* names.h: this span's name */
	uint32_t root_name_id;    /* names.h: the local root's name */
	uint8_t trace_id[16];
	_Atomic uint64_t token;
	/* span_table.h: the records of both, as long as these are open; 0 = unknown there */
	uint32_t ref;
	uint32_t root_ref;
};

/* Owner only. The local root of the frame that was put last. */
struct sp_span_last_root {
	uint64_t id;
	uint32_t name_id;
	uint32_t n; /* how many there were, one after the other, since they are counted */
	uint8_t trace_id[16];
};

struct sp_span_stack {
	_Atomic uint32_t depth;
	_Atomic uint32_t changes; /* by the owner, one more before each */
	_Atomic uint32_t struck;  /* the same by others */
	struct sp_span_last_root root;
	struct sp_span_overflow
		rest; /* above all frames, which get no more as long as there is one */
	struct sp_span_frame frame[SP_SPAN_DEPTH_MAX];
};

/*
 * Any context. Another number as soon as the active span may be another one, or none, than it was;
 * only that the span itself has ended is not in it.
 */
static inline SP_SIGSAFE uint64_t sp_span_stack_version(const struct sp_span_stack *s)
{
	uint64_t own = atomic_load_explicit(&s->changes, memory_order_relaxed);
	uint32_t others = atomic_load_explicit(&s->struck, memory_order_relaxed) << 1;

	return own << 32 | others |
	       atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* What push copies; a plain struct so that callers need no atomics. */
struct sp_span_entry {
	uint64_t span_id;
	uint64_t root_id;
	uint32_t name_id;
	uint32_t root_name_id;
	uint8_t trace_id[16];
	uint64_t token;
	uint32_t ref;
	uint32_t root_ref;
};

/* Owner only. No frames, not even ended ones. */
static inline bool sp_span_stack_empty(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->depth, memory_order_relaxed) == 0;
}

/*
 * Owner only. The slot the next push will take; a deep one when the stack is full.
 */
uint32_t sp_span_stack_room(struct sp_span_stack *s);

/* No frame but one of the rest. */
static inline bool sp_span_slot_is_deep(uint32_t slot)
{
	return slot >= SP_SPAN_DEPTH_MAX;
}

/* Owner only. Into the slot that room() gave, with no push since. */
void sp_span_stack_put(struct sp_span_stack *s, uint32_t slot, const struct sp_span_entry *e);

/* Owner only. The slot the span went to. */
uint32_t sp_span_stack_push(struct sp_span_stack *s, const struct sp_span_entry *e);

/* Owner only. Local roots are counted from now on; the one that is active is the first. */
void sp_span_stack_count_roots(struct sp_span_stack *s);

/* Owner only. That root ends, with this name. */
static inline void sp_span_stack_name_root(struct sp_span_stack *s, uint64_t id, uint32_t name_id)
{
	if (s->root.id == id)
		s->root.name_id = name_id;
}

/* Owner only. Strikes the span out wherever it lies, and drops ended frames from the top. */
bool sp_span_stack_pop(struct sp_span_stack *s, uint64_t span_id);

/* Any thread, which may be the owner. Once for a span that went to that deep slot. */
void sp_span_stack_leave(struct sp_span_stack *s, uint32_t slot, bool owner);

/* Owner only. What is deeper than the stack shows no root any more, until all of it has gone. */
void sp_span_stack_hide_rest(struct sp_span_stack *s);

/*
 * Owner only. Strikes out the topmost frame with that token; with through, all above it too. A token
 * that no frame has is of a scope deeper than the stack, if there are any. False if no frame went.
 */
bool sp_span_stack_pop_token(struct sp_span_stack *s, uint64_t token, bool through);

/*
 * Owner only. Strikes out every frame that was attached under a token below that one, and what is
 * deeper than the stack.
 */
void sp_span_stack_pop_attached(struct sp_span_stack *s, uint64_t below);

/* Owner, no handler running. The ids of the open spans on it; returns how many. */
unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_DEPTH_MAX]);

/*
 * Any thread. The id on top, whether that span has ended or not, and its token; 0 if there is none or
 * it is blank. Right if the version before and after is the same.
 */
uint64_t sp_span_stack_top(const struct sp_span_stack *s, uint64_t *token);

/* Any thread. Marks the span in that slot as ended. False if the slot holds something else. */
bool sp_span_stack_strike(struct sp_span_stack *s, uint32_t slot, uint64_t span_id);

/*
 * Owner or its handler. The topmost open span, with the names that it and its root have now; false
 * when there is none or it is blank. A span that has ended, on whatever thread, is as one struck
 * out, or blank where it is attached. A root that ended before its child keeps the name it had when
 * the child was pushed. Deeper than the stack: SP_SPAN_DEEPER of the root that all of the rest have,
 * without a name of its own; false where they have several, or theirs has ended.
 */
SP_SIGSAFE bool sp_span_stack_peek(const struct sp_span_stack *s, struct sp_span_entry *out);

#endif
