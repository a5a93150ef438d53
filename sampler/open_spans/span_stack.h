/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of active spans of one thread. The owning thread (APP) pushes and pops, and its signal
 * handler (SIG) reads between any two of its instructions. A span may end on another thread, which
 * must not change the stack while its owner works on it. So other threads may only strike a frame
 * out, that is, set its `span_id` to 0, and the owner removes the frame later.
 */
#ifndef SP_SPAN_STACK_H
#define SP_SPAN_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_overflow.h"

#define SP_SPAN_DEPTH_MAX 64U

/*
 * Span ids are the 8 bytes of the id as they lie in memory; 0 never names a span. A frame with this
 * id stands for "no span": an attached context without a recorded one hides what is below it.
 */
#define SP_SPAN_BLANK UINT64_MAX

/*
 * As the result of sp_span_stack_peek(): a span that did not fit on the stack. Its root is known,
 * its own id is not.
 */
#define SP_SPAN_DEEPER (UINT64_MAX - 1)

/*
 * A frame's token is that of the scope that attached it, or one of these two for a span that is
 * active by being started. A frame that yields counts only until the process attaches something.
 */
#define SP_SPAN_STARTED UINT64_C(0)
#define SP_SPAN_YIELDS UINT64_MAX

/*
 * Tokens from here on are no scopes of an SDK: manual labels (sampler/span/manual_label.h), and the
 * one above.
 */
#define SP_SPAN_NO_SCOPE (UINT64_MAX - 1023)

/*
 * The token of a scope: a key that is unique among the thread's open scopes of one context storage,
 * and the storage's number. Number 0 is of all that keep a stack of each thread, as SDKs do by
 * themselves. The key may lose its highest bits, which addresses do not need to be told apart.
 */
#define SP_SPAN_STORAGES 32U
static inline uint64_t sp_span_token_of(uint32_t storage, uint64_t key)
{
	return key * SP_SPAN_STORAGES + storage;
}

static inline bool sp_span_token_attached(uint64_t token)
{
	return token != SP_SPAN_STARTED && token != SP_SPAN_YIELDS;
}

/*
 * Some thread has attached something: from now on frames that yield label nothing, on any thread.
 */
extern _Atomic bool sp_span_stack_scoped;

static inline SP_SIGSAFE bool sp_span_token_yields(uint64_t token)
{
	return token == SP_SPAN_YIELDS &&
	       atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/*
 * A bit for each storage whose scopes do not tell what runs on a thread (sampler/span/active_span.h):
 * their frames label nothing and hide nothing, on any thread. Bits are only added.
 */
extern _Atomic uint32_t sp_span_stack_silent;

static inline SP_SIGSAFE bool sp_span_token_silent(uint64_t token)
{
	uint32_t silent = atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed);

	return silent != 0 && token < SP_SPAN_NO_SCOPE &&
	       (silent >> token % SP_SPAN_STORAGES & 1) != 0;
}

/* A frame with that token counts for nothing, as things are now. */
static inline SP_SIGSAFE bool sp_span_token_ignored(uint64_t token)
{
	return sp_span_token_yields(token) || sp_span_token_silent(token);
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

/* Owner only. The local root of the frame that was pushed last. */
struct sp_span_last_root {
	uint64_t id;
	uint32_t name_id;
	uint32_t n; /* different roots, one after the other, since counting began */
	uint8_t trace_id[16];
};

struct sp_span_stack {
	_Atomic uint32_t depth;
	_Atomic uint32_t changes; /* changes by the owner; incremented before each */
	_Atomic uint32_t struck;  /* the same by others */
	struct sp_span_last_root root;
	struct sp_span_overflow
		rest; /* above all frames; while it holds something, no frame is added */
	struct sp_span_frame frame[SP_SPAN_DEPTH_MAX];
};

/*
 * Any context. A number that changes whenever the active span of the thread may have changed. It
 * does not change when the active span itself merely ends.
 */
static inline SP_SIGSAFE uint64_t sp_span_stack_version(const struct sp_span_stack *s)
{
	uint64_t own = atomic_load_explicit(&s->changes, memory_order_relaxed);
	/* both only grow, so the sum tells that one of them has */
	uint32_t others = (atomic_load_explicit(&s->struck, memory_order_relaxed) +
			   atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed))
			  << 1;

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

/* The slot is not a frame, but in the overflow. */
static inline bool sp_span_slot_is_deep(uint32_t slot)
{
	return slot >= SP_SPAN_DEPTH_MAX;
}

/* Owner only. Pushes into the slot that sp_span_stack_room() gave, with no push in between. */
void sp_span_stack_put(struct sp_span_stack *s, uint32_t slot, const struct sp_span_entry *e);

/* Owner only. Pushes; returns the slot. */
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

/*
 * Owner only. The same for a span that was started into that slot and is on top, which most spans
 * are when they end. False, with nothing changed, if it is not on top, or in the overflow, or also
 * attached.
 */
bool sp_span_stack_pop_top(struct sp_span_stack *s, uint32_t slot, uint64_t span_id);

/*
 * Any thread, also the owner. Removes a span from the overflow; once for each span that got that
 * deep slot.
 */
void sp_span_stack_leave(struct sp_span_stack *s, uint32_t slot, bool owner);

/* Owner only. The overflow shows no root any more until all of it has gone. */
void sp_span_stack_hide_rest(struct sp_span_stack *s);

/*
 * Owner only. Strikes out the topmost frame with that token; with through, all above it too. A
 * token that no frame has belongs to a scope in the overflow, if there is any. False if no frame
 * was removed.
 */
bool sp_span_stack_pop_token(struct sp_span_stack *s, uint64_t token, bool through);

/*
 * Owner only. Strikes out every frame that was attached under a token below that one, and the
 * overflow.
 */
void sp_span_stack_pop_attached(struct sp_span_stack *s, uint64_t below);

/* Owner only. The same for every frame of a silent storage, and for the overflow if it holds one. */
void sp_span_stack_pop_silent(struct sp_span_stack *s);

/*
 * Owner only. The id of the topmost span that is attached by that storage, whether it has ended or
 * not; 0 if there is none or it is blank.
 */
uint64_t sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage);

/* Owner, no handler running. The ids of the open spans on it; returns how many. */
unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_DEPTH_MAX]);

/*
 * Any thread. The id on top, whether that span has ended or not, and its token; 0 if there is none
 * or it is blank. The answer is consistent if the version is the same before and after.
 */
uint64_t sp_span_stack_top(const struct sp_span_stack *s, uint64_t *token);

/* Any thread. Marks the span in that slot as ended. False if the slot holds something else. */
bool sp_span_stack_strike(struct sp_span_stack *s, uint32_t slot, uint64_t span_id);

/*
 * Owner or its handler. The topmost open span, with the current names of it and of its root. False
 * if there is none or it is blank. A span that has ended, on any thread, counts as struck out, or
 * as blank if it is attached. A root that ended before its child keeps the name that it had when
 * the child was pushed. With an overflow the result is SP_SPAN_DEEPER with the root that all of the
 * overflow has, without a name of its own; false if there are several roots or theirs has ended.
 */
SP_SIGSAFE bool sp_span_stack_peek(const struct sp_span_stack *s, struct sp_span_entry *out);

#endif
