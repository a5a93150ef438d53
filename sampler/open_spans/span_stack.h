/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of spans of one thread. A frame has the id of a span and a token that says how the span
 * became active; all other facts about a span are in the span table (span_table.h). These rules
 * hold at every instruction, for the thread's own signal handler:
 *
 * - The active span is that of the topmost frame whose id is open in the table. Its root, names and
 *   trace are read from its record at that moment.
 * - When a span ends, on any thread, its entry is removed from the table. From then on its frames
 *   label nothing, and no thread has to search for them. A frame that a start has pushed then shows
 *   the frames below it again; a frame that a scope has pushed hides the frames below it until the
 *   detach, whether its span is open or not.
 * - Only the owner changes frames. It writes the frame first and the depth afterwards. It removes a
 *   frame by one store: to the depth, or to the frame's id if other frames lie above.
 * - When all frames are in use, the owner moves the frames that count down over the others, so only
 *   open spans and attached scopes take room.
 * - A start stands in for a scope if the SDK has no scopes or the program does not use them. Two
 *   open spans of the same SDK with different local roots are then ambiguous: the thread works for
 *   one of them, but we cannot tell for which, and no span is active. If the root of the upper span
 *   links to the lower one, the upper span is active. Readers apply this rule, and it ends when one
 *   of the two spans ends.
 * - When all frames are in use and all of them count, the owner forgets the oldest quarter of the
 *   stack. It stores the number of their spans and scopes, a part of each scope's token, and the
 *   local root if all have the same one. While no frame counts and some of these spans and scopes
 *   are left, that root is active; without a common root the active span is unknown.
 */
#ifndef SP_SPAN_STACK_H
#define SP_SPAN_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"

/*
 * Span ids are the 8 bytes of the id in memory order; 0 never names a span. A frame with this id
 * means "no span": an attached context without a span hides the frames below it.
 */
#define SP_SPAN_BLANK UINT64_MAX

/*
 * The token of a frame names the scope that attached it, or is one of these if the span is active
 * because it was started. SP_SPAN_STARTED: the start counts like a scope. Other starts stand in for
 * scopes; a start that yields counts only until the process attaches a context. If the new span
 * links to an open span of the thread, the lower bits have the root of that span
 * (sp_span_token_linked()): it was started in the course of that span, as a child would be.
 */
#define SP_SPAN_STARTED UINT64_C(0)
#define SP_SPAN_STANDS_IN (UINT64_C(1) << 63)
#define SP_SPAN_YIELDS (UINT64_C(3) << 62)

/*
 * Tokens from this one on are no scopes of an SDK: they are the two above, or manual labels
 * (sampler/span/span.h), which consist of a level and a name.
 */
#define SP_SPAN_NO_SCOPE (UINT64_C(1) << 62)

/*
 * The number of levels of manual labels. Even if a program never pops its labels, most of the stack
 * remains for spans.
 */
#define SP_MANUAL_LABEL_DEPTH_MAX 32U

static inline uint64_t sp_span_token_of_label(uint32_t level, uint32_t name_id)
{
	return SP_SPAN_NO_SCOPE | (uint64_t)(level & UINT16_MAX) << 32 | name_id;
}

static inline SP_SIGSAFE bool sp_span_token_is_label(uint64_t token)
{
	return token >= SP_SPAN_NO_SCOPE && token < SP_SPAN_STANDS_IN;
}

static inline SP_SIGSAFE uint32_t sp_span_token_level(uint64_t token)
{
	return (uint32_t)(token >> 32) & UINT16_MAX;
}

/*
 * The token of a scope: a key that is unique among the thread's open scopes of one context storage,
 * and the storage's number. All storages with a stack for each thread, as SDKs have, share number
 * 0. The key may lose its highest bits, because addresses differ in the lower ones.
 */
#define SP_SPAN_STORAGES 32U
static inline uint64_t sp_span_token_of(uint32_t storage, uint64_t key)
{
	return (key * SP_SPAN_STORAGES + storage) % SP_SPAN_NO_SCOPE;
}

static inline SP_SIGSAFE bool sp_span_token_stands_in(uint64_t token)
{
	return token >= SP_SPAN_STANDS_IN;
}

/* The token has 62 bits of the root's id, enough to recognise it. 0 = no link. */
static inline uint64_t sp_span_token_linked(uint64_t token, uint64_t root_id)
{
	return token | root_id % SP_SPAN_NO_SCOPE;
}

static inline SP_SIGSAFE bool sp_span_token_links(uint64_t token)
{
	return token % SP_SPAN_NO_SCOPE != 0;
}

static inline SP_SIGSAFE bool sp_span_token_links_to(uint64_t token, uint64_t root_id)
{
	uint64_t linked = token % SP_SPAN_NO_SCOPE;

	return linked != 0 && linked == root_id % SP_SPAN_NO_SCOPE;
}

static inline SP_SIGSAFE bool sp_span_token_attached(uint64_t token)
{
	return token != SP_SPAN_STARTED && !sp_span_token_stands_in(token);
}

/*
 * Set once a thread has attached a context: from then on frames that yield label nothing, on any
 * thread.
 */
SP_HIDDEN _Atomic bool sp_span_stack_scoped;

/*
 * A bit for each silent storage, whose scopes do not show which span a thread works for
 * (sampler/span/span.h): their frames label nothing and hide nothing, on any thread. A bit is never
 * cleared.
 */
SP_HIDDEN _Atomic uint32_t sp_span_stack_silent;

static inline SP_SIGSAFE bool sp_span_token_is_of(uint64_t token, uint32_t storages)
{
	return storages != 0 && token < SP_SPAN_NO_SCOPE &&
	       (storages >> token % SP_SPAN_STORAGES & 1) != 0;
}

static inline SP_SIGSAFE bool sp_span_token_silent(uint64_t token)
{
	return sp_span_token_is_of(
		token, atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed));
}

/* Whether a frame with that token counts for nothing, now and later. */
static inline SP_SIGSAFE bool sp_span_token_ignored(uint64_t token)
{
	return sp_span_token_silent(token) ||
	       (token >= SP_SPAN_YIELDS &&
		atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed));
}

struct sp_span_frame {
	_Atomic uint64_t span_id; /* 0 = removed, while frames above remain */
	_Atomic uint64_t token;
};
_Static_assert(sizeof(struct sp_span_frame) == 16, "nothing that the table knows");

/*
 * Owner only. The first local root that was active on the thread, and the number of roots, counted
 * up to two.
 */
struct sp_span_last_root {
	uint64_t id;
	uint64_t from_ns; /* the thread's CPU clock when the root became active */
	uint64_t trace[2];
	uint32_t name_id;
	uint32_t n;
};

/* This many of the oldest frames are forgotten when more are needed. */
#define SP_SPAN_FORGET 32U
/* The stack stores a part of the token of this many forgotten scopes. */
#define SP_SPAN_FORGOTTEN_SCOPES 512U

struct sp_span_stack {
	_Atomic uint32_t depth;
	_Atomic uint32_t struck; /* spans that ended while a frame of this stack had their id */
	uint32_t reaped;         /* owner only: value of `struck` when no such frame was left */
	/* Forgotten frames: */
	_Atomic uint32_t
		starts; /* spans active by their start, less those that ended on this thread */
	_Atomic uint32_t ended;  /* how many of `starts` have ended on other threads */
	_Atomic uint32_t scopes; /* scopes and manual labels: the entries of scope[] in use */
	uint32_t piled; /* owner only: forgotten scopes without a detach; 0 if scope[] is empty */
	_Atomic uint8_t user;      /* changes when another thread gets the block */
	_Atomic bool has_stand_in; /* a span of `starts` stands in for a scope */
	_Atomic bool has_yielding; /* a span of `starts` yields to scopes */
	_Atomic uint64_t
		forgotten_root; /* the local root of all forgotten frames; 0 = several, or none */
	struct sp_span_last_root root;
	struct sp_span_frame frame[SP_SPAN_DEPTH_MAX];
	uint16_t
		scope[SP_SPAN_FORGOTTEN_SCOPES]; /* owner only: parts of tokens, the oldest first */
};

/*
 * Any context. Whether there are open spans that are active by their start and whose frames were
 * forgotten.
 */
static inline SP_SIGSAFE bool sp_span_stack_forgot_starts(const struct sp_span_stack *s)
{
	uint32_t starts = atomic_load_explicit(&s->starts, memory_order_acquire);

	return (int32_t)(starts - atomic_load_explicit(&s->ended, memory_order_acquire)) > 0;
}

/* Any context. Whether the stack has forgotten frames of open spans or of attached scopes. */
static inline SP_SIGSAFE bool sp_span_stack_forgot(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->scopes, memory_order_acquire) != 0 ||
	       sp_span_stack_forgot_starts(s);
}

/* Owner or its handler. Whether the stack has no frame, not even of a span that has ended. */
static inline SP_SIGSAFE bool sp_span_stack_empty(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->depth, memory_order_relaxed) == 0;
}

/* Owner or its handler. Whether the stack has no frame, and no forgotten one that counts. */
static inline SP_SIGSAFE __attribute__((always_inline)) bool
sp_span_stack_bare(const struct sp_span_stack *s)
{
	return sp_span_stack_empty(s) &&
	       (atomic_load_explicit(&s->starts, memory_order_relaxed) |
		atomic_load_explicit(&s->scopes, memory_order_relaxed)) == 0;
}

/* Owner only, while no handler reads the stack: clears it for the next thread of the block. */
void sp_span_stack_clear(struct sp_span_stack *s);

/* The rare parts of the functions below. */
void sp_span_stack_make_room(struct sp_span_stack *s);
void sp_span_stack_ended_below(struct sp_span_stack *s, uint64_t span_id, uint8_t forgot);
bool sp_span_stack_pop_below(struct sp_span_stack *s, uint64_t token, bool through);
void sp_span_stack_drop_ended(struct sp_span_stack *s);

/* Owner only. Whether the next push finds a free frame, and no frame of an ended span is left. */
static inline __attribute__((always_inline)) bool
sp_span_stack_has_room(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->struck, memory_order_relaxed) == s->reaped &&
	       atomic_load_explicit(&s->depth, memory_order_relaxed) < SP_SPAN_DEPTH_MAX;
}

/* Owner only, if the stack has room. */
static inline void sp_span_stack_put(struct sp_span_stack *s, uint64_t span_id, uint64_t token)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	atomic_store_explicit(&s->frame[d].token, token, memory_order_release);
	atomic_store_explicit(&s->frame[d].span_id, span_id, memory_order_release);
	/* the frame before the depth: our handler may run between the two */
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(&s->depth, d + 1, memory_order_release);
}

/* Owner only. */
static inline void sp_span_stack_push(struct sp_span_stack *s, uint64_t span_id, uint64_t token)
{
	if (!sp_span_stack_has_room(s))
		sp_span_stack_make_room(s);
	sp_span_stack_put(s, span_id, token);
}

/* Owner only. Removes the topmost of d frames. */
static inline void sp_span_stack_drop(struct sp_span_stack *s, uint32_t d)
{
	atomic_store_explicit(&s->depth, d - 1, memory_order_release);
	if (d == 1)
		s->reaped = atomic_load_explicit(&s->struck, memory_order_relaxed);
	else
		sp_span_stack_drop_ended(s);
}

/*
 * Owner only. A span that was started on this thread has left the table: removes its frame if it is
 * on top. forgot: from the span's record.
 */
static inline void sp_span_stack_ended(struct sp_span_stack *s, uint64_t span_id, uint8_t forgot)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	if (d != 0 &&
	    atomic_load_explicit(&s->frame[d - 1].span_id, memory_order_relaxed) == span_id &&
	    !sp_span_token_attached(
		    atomic_load_explicit(&s->frame[d - 1].token, memory_order_relaxed)))
		sp_span_stack_drop(s, d);
	else
		sp_span_stack_ended_below(s, span_id, forgot);
}

/*
 * Any thread. A span that was started on the stack's thread has left the table; the owner will
 * remove its frame later.
 */
static inline void sp_span_stack_strike(struct sp_span_stack *s)
{
	/* Pairs with close_ranks() in span_stack.c. */
	atomic_fetch_add_explicit(&s->struck, 1, memory_order_release);
}

/*
 * Another thread. A span that was started on the stack's thread has left the table and is not
 * released yet. False if the stack never had the span, so that the active span there has not
 * changed.
 */
bool sp_span_stack_ended_elsewhere(struct sp_span_stack *s, const struct sp_span_record *r);

/*
 * Owner only. Removes the topmost frame with that token; with through, all frames above it too. If
 * no frame has the token, removes a forgotten scope with it, and with through all scopes that were
 * attached later. A manual label is found by the level in its token. False if nothing was found.
 */
static inline __attribute__((always_inline)) bool sp_span_stack_pop(struct sp_span_stack *s,
								    uint64_t token, bool through)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	/* the common case: the token of a scope, on top */
	if (d == 0 || atomic_load_explicit(&s->frame[d - 1].token, memory_order_relaxed) != token ||
	    atomic_load_explicit(&s->frame[d - 1].span_id, memory_order_relaxed) == 0 ||
	    token >= SP_SPAN_NO_SCOPE || token == SP_SPAN_STARTED || sp_span_token_silent(token))
		return sp_span_stack_pop_below(s, token, through);
	sp_span_stack_drop(s, d);
	return true;
}

/* Owner only. Removes all frames of SDKs' scopes; with silent_only those of silent storages. */
void sp_span_stack_pop_scopes(struct sp_span_stack *s, bool silent_only);

/*
 * Owner only. *span_id: the id of the topmost span that was attached by that storage, even if it
 * has ended; 0 = none, or a blank one. False if that span's frame may have been forgotten.
 */
bool sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage, uint64_t *span_id);

/* Any thread. Whether a frame may have that id. */
bool sp_span_stack_has(const struct sp_span_stack *s, uint64_t span_id);

/* Owner only. The level of the topmost manual label; 0 = none. */
SP_SIGSAFE uint32_t sp_span_stack_label_level(const struct sp_span_stack *s);

/*
 * Owner only. Stores the ids on the stack, and the common root of forgotten frames. Returns the
 * number of ids.
 */
#define SP_SPAN_IDS_MAX (SP_SPAN_DEPTH_MAX + 1U)
unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_IDS_MAX]);

/*
 * Forked child, only thread. starts: how many of the spans with forgotten frames are still in the
 * table.
 */
void sp_span_stack_forked(struct sp_span_stack *s, uint32_t starts);

/* The value of `forgot` in the record of a span whose frame this stack has forgotten. */
static inline uint8_t sp_span_stack_mark(const struct sp_span_stack *s)
{
	return SP_SPAN_FORGOT |
	       (atomic_load_explicit(&s->user, memory_order_relaxed) & (SP_SPAN_FORGOT - 1U));
}

/* Owner only. From now on local roots are counted, including those on the stack. */
void sp_span_stack_count_roots(struct sp_span_stack *s);

/* The rare part of sp_span_stack_meet_root(). */
void sp_span_stack_met_root(struct sp_span_stack *s);

/* Owner only, after a push. Most threads soon have a second root, and then this does nothing. */
static inline void sp_span_stack_meet_root(struct sp_span_stack *s)
{
	if (s->root.n < 2)
		sp_span_stack_met_root(s);
}

/* Owner only. The root ends under this name. */
static inline void sp_span_stack_name_root(struct sp_span_stack *s, uint64_t id, uint32_t name_id)
{
	if (s->root.id == id)
		s->root.name_id = name_id;
}

/* The kind of active work on a thread. */
enum sp_span_active {
	SP_SPAN_NONE,
	SP_SPAN_KNOWN,       /* a span */
	SP_SPAN_LABEL,       /* a manual label */
	SP_SPAN_ROOT_ALONE,  /* a span below this root, whose frame was forgotten */
	SP_SPAN_FORGOTTEN,   /* a span whose frame was forgotten, or none; which one is unknown */
	SP_SPAN_INTERLEAVED, /* one of several spans; which one is unknown */
};

/*
 * Owner or its handler. *out is the record of the active span, with the present name of its root.
 * For SP_SPAN_LABEL it has only ids, names and the trace of the span around the label, for
 * SP_SPAN_ROOT_ALONE only the root and the trace. Otherwise it has nothing.
 */
SP_SIGSAFE enum sp_span_active sp_span_stack_peek(const struct sp_span_stack *s,
						  struct sp_span_record *out);

/* The same, below all manual labels. */
SP_SIGSAFE enum sp_span_active sp_span_stack_peek_span(const struct sp_span_stack *s,
						       struct sp_span_record *out);

#endif
