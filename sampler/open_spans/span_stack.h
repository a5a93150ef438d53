/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of spans of one thread. A frame is the id of a span and the token of what put it there, and
 * nothing else: the span table (span_table.h) is the only place that knows anything about a span. What
 * holds at every instruction, for the thread's own signal handler:
 *
 * - The active span is that of the topmost frame whose id is open in the table. Root, names and trace
 *   are read from its record at that moment.
 * - A span that ends, on whatever thread, leaves the table, and from then on its frames label nothing.
 *   Nobody has to find them. A frame that a start put there lets what is below it label again; a frame
 *   that a scope attached hides what is below it until the detach, whether its span is open or not.
 * - Only the owner changes frames. It writes a frame before the depth that shows it, and takes a frame
 *   away by one store: of the depth, or of the id where frames remain above it.
 * - When all frames are in use, the owner moves those that count down over those that do not, so only spans
 *   that are open and scopes that are attached take room.
 * - Where starts stand in for scopes that an SDK does not have or the program does not use, two open
 *   spans of the same SDK with different local roots say that the thread works for one of them, but not
 *   for which, unless the upper one links to the lower one. No span is active then. It is a rule of the
 *   reader, and ends with one of the two.
 * - Beyond the last frame nothing is kept but how much there is, by hashes of the tokens, and whether all of
 *   it has one root. If that is also the root of what the frames show, the root is known and the span, which
 *   may have ended, is not; otherwise nothing is. That holds until all of it is detached or ended here, or no
 *   frame is left: too long, where a span beyond ends on another thread, rather than too short, so that no
 *   frame labels what is deeper.
 */
#ifndef SP_SPAN_STACK_H
#define SP_SPAN_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"

/*
 * Span ids are the 8 bytes of the id as they lie in memory; 0 never names a span. A frame with this
 * id stands for "no span": an attached context without a span hides what is below it.
 */
#define SP_SPAN_BLANK UINT64_MAX

/*
 * A frame's token is that of the scope that attached it, or one of these for a span that is active by
 * being started. SP_SPAN_STARTED is a start that is a scope. The others stand in for scopes, and one
 * that yields counts only until the process attaches something. With them in one word is the root of
 * an open span of the thread that the new one names in its links (sp_span_token_linked()), if there is
 * one: as a child would, it was started in the course of that span.
 */
#define SP_SPAN_STARTED UINT64_C(0)
#define SP_SPAN_STANDS_IN (UINT64_C(1) << 63)
#define SP_SPAN_YIELDS (UINT64_C(3) << 62)

/*
 * Tokens from here on are no scopes of an SDK: manual labels (sampler/span/span.h), which
 * consist of their level and their name, and the two above.
 */
#define SP_SPAN_NO_SCOPE (UINT64_C(1) << 62)

/* Levels of manual labels. Labels that are never popped leave most of the stack to spans. */
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
 * and the storage's number. Number 0 is of all that keep a stack of each thread, as SDKs do by
 * themselves. The key may lose its highest bits, which addresses do not need to be told apart.
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

/* Of the id of that root 62 bits are kept, enough to know it again. 0 = none. */
static inline uint64_t sp_span_token_linked(uint64_t token, uint64_t root_id)
{
	return token | root_id % SP_SPAN_NO_SCOPE;
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
 * Some thread has attached something: from now on frames that yield label nothing, on any thread.
 */
SP_HIDDEN _Atomic bool sp_span_stack_scoped;

/*
 * A bit for each storage whose scopes do not tell what runs on a thread (sampler/span/span.h):
 * their frames label nothing and hide nothing, on any thread. Bits stay, but those that are also in the other word:
 * of these storages nobody knows yet, so their frames are kept.
 */
SP_HIDDEN _Atomic uint32_t sp_span_stack_silent;
SP_HIDDEN _Atomic uint32_t sp_span_stack_doubted;

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

static inline bool sp_span_token_doubted(uint64_t token)
{
	return sp_span_token_is_of(
		token, atomic_load_explicit(&sp_span_stack_doubted, memory_order_relaxed));
}

/* A frame with that token counts for nothing, as things are now, and never will again unless it is in doubt. */
static inline SP_SIGSAFE bool sp_span_token_ignored(uint64_t token)
{
	return sp_span_token_silent(token) ||
	       (token >= SP_SPAN_YIELDS &&
		atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed));
}

struct sp_span_frame {
	_Atomic uint64_t span_id; /* 0 = gone, with frames above that are not */
	_Atomic uint64_t token;
};
_Static_assert(sizeof(struct sp_span_frame) == 16, "nothing that the table knows");

/* Owner only. The first local root that was active on the thread, and how many there were, up to two. */
struct sp_span_last_root {
	uint64_t id;
	uint64_t from_ns; /* the thread's CPU clock when it came */
	uint64_t trace[2];
	uint32_t name_id;
	uint32_t n;
};

/* So many tokens are told apart beyond the last frame, but for those that share a hash. */
#define SP_SPAN_HASHES 32U

struct sp_span_stack {
	_Atomic uint32_t depth;
	_Atomic uint32_t struck; /* spans that ended and left a frame of this stack behind */
	uint32_t reaped;         /* owner only: that number when there was no such frame */
	_Atomic uint32_t beyond; /* so many; while it is not 0, no frame is added */
	uint32_t again;      /* owner only: of them, scopes under a token that a frame has too */
	uint32_t generation; /* owner only: changes whenever the first of them comes */
	_Atomic uint64_t beyond_root; /* the root of all of it; 0 = there are several, or none */
	uint32_t beyond_by[SP_SPAN_HASHES]; /* owner only: of them, scopes by their tokens */
	struct sp_span_last_root root;
	struct sp_span_frame frame[SP_SPAN_DEPTH_MAX];
};

/* Owner or its handler. Something lies beyond the last frame. */
static inline SP_SIGSAFE bool sp_span_stack_is_beyond(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->beyond, memory_order_acquire) != 0;
}

/* Owner or its handler. Nothing is on it, not even what has ended. */
static inline SP_SIGSAFE bool sp_span_stack_empty(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->depth, memory_order_relaxed) == 0;
}

/* Owner only. Nothing is on it, and nothing beyond. */
static inline __attribute__((always_inline)) bool sp_span_stack_bare(const struct sp_span_stack *s)
{
	return sp_span_stack_empty(s) && !sp_span_stack_is_beyond(s);
}

/* Owner only, no handler running on it: the block is another thread's from now on. */
void sp_span_stack_clear(struct sp_span_stack *s);

/* For the functions below, where the stack has more than they look at. */
uint8_t sp_span_stack_find_place(struct sp_span_stack *s);
void sp_span_stack_push_beyond(struct sp_span_stack *s, uint64_t span_id, uint64_t token);
void sp_span_stack_ended_below(struct sp_span_stack *s, uint64_t span_id, uint8_t beyond);
bool sp_span_stack_pop_below(struct sp_span_stack *s, uint64_t token, bool through);
void sp_span_stack_reap(struct sp_span_stack *s);

/* Owner only. The next push goes to a frame, which is free. */
static inline __attribute__((always_inline)) bool
sp_span_stack_has_room(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->struck, memory_order_relaxed) == s->reaped &&
	       atomic_load_explicit(&s->beyond, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&s->depth, memory_order_relaxed) < SP_SPAN_DEPTH_MAX;
}

/* Owner only. Where the next push goes: what its span's record has to have in `beyond`. */
static inline uint8_t sp_span_stack_place(struct sp_span_stack *s)
{
	return sp_span_stack_has_room(s) ? 0 : sp_span_stack_find_place(s);
}

/* Owner only. Pushes to that place, with no other push or pop in between. */
static inline void sp_span_stack_put(struct sp_span_stack *s, uint64_t span_id, uint64_t token,
				     uint8_t place)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	if (place != 0) {
		sp_span_stack_push_beyond(s, span_id, token);
		return;
	}
	atomic_store_explicit(&s->frame[d].token, token, memory_order_release);
	atomic_store_explicit(&s->frame[d].span_id, span_id, memory_order_release);
	/* the frame before the depth: our handler may run between the two */
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(&s->depth, d + 1, memory_order_release);
}

/* Owner only. False if it lies beyond the last frame. */
static inline bool sp_span_stack_push(struct sp_span_stack *s, uint64_t span_id, uint64_t token)
{
	uint8_t place = sp_span_stack_place(s);

	sp_span_stack_put(s, span_id, token, place);
	return place == 0;
}

/* Owner only. Takes the topmost one of d frames away, beyond which there is nothing. */
static inline void sp_span_stack_drop(struct sp_span_stack *s, uint32_t d)
{
	atomic_store_explicit(&s->depth, d - 1, memory_order_release);
	if (d == 1)
		s->reaped = atomic_load_explicit(&s->struck, memory_order_relaxed);
	else
		sp_span_stack_reap(s);
}

/*
 * Owner only. That span, which was started on this thread, at that place, has left the table: its frame
 * goes at once if it is on top.
 */
static inline void sp_span_stack_ended(struct sp_span_stack *s, uint64_t span_id, uint8_t beyond)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	if (d != 0 && atomic_load_explicit(&s->beyond, memory_order_relaxed) == 0 &&
	    atomic_load_explicit(&s->frame[d - 1].span_id, memory_order_relaxed) == span_id &&
	    !sp_span_token_attached(
		    atomic_load_explicit(&s->frame[d - 1].token, memory_order_relaxed)))
		sp_span_stack_drop(s, d);
	else
		sp_span_stack_ended_below(s, span_id, beyond);
}

/*
 * Any thread. A span that was started there has left the table, and a frame behind, which the owner takes
 * away when it comes to it.
 */
static inline void sp_span_stack_strike(struct sp_span_stack *s)
{
	/* Pairs with close_ranks() in span_stack.c. */
	atomic_fetch_add_explicit(&s->struck, 1, memory_order_release);
}

/*
 * Owner only. Takes away the topmost frame with that token; with through, all above it too. If there is a
 * scope with that token beyond the last frame, it goes first, as scopes nest. Of a manual label's token the
 * level decides. False if no frame was taken away.
 */
static inline __attribute__((always_inline)) bool sp_span_stack_pop(struct sp_span_stack *s,
								    uint64_t token, bool through)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	/* the token of a scope, on top */
	if (d == 0 || atomic_load_explicit(&s->beyond, memory_order_relaxed) != 0 ||
	    atomic_load_explicit(&s->frame[d - 1].token, memory_order_relaxed) != token ||
	    atomic_load_explicit(&s->frame[d - 1].span_id, memory_order_relaxed) == 0 ||
	    token >= SP_SPAN_NO_SCOPE || token == SP_SPAN_STARTED || sp_span_token_silent(token))
		return sp_span_stack_pop_below(s, token, through);
	sp_span_stack_drop(s, d);
	return true;
}

/* Owner only. Takes away all frames of scopes of SDKs; with silent_only those of silent storages. */
void sp_span_stack_pop_scopes(struct sp_span_stack *s, bool silent_only);

/*
 * Owner only. The id of the topmost span that is attached by that storage, whether it has ended or
 * not; 0 if there is none or it is blank.
 */
uint64_t sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage);

/* Any thread. A frame may have that id. */
bool sp_span_stack_has(const struct sp_span_stack *s, uint64_t span_id);

/* Owner only. The level of the topmost manual label; 0 if there is none. */
SP_SIGSAFE uint32_t sp_span_stack_label_level(const struct sp_span_stack *s);

/* Owner, no handler running. The ids on it; returns how many. */
unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_DEPTH_MAX]);

/* Owner only. Local roots are counted from now on, those that are on it included. */
void sp_span_stack_count_roots(struct sp_span_stack *s);

/* For sp_span_stack_meet_root(). */
void sp_span_stack_met_root(struct sp_span_stack *s);

/* Owner only. Something has been pushed. Most threads have had two roots before long. */
static inline void sp_span_stack_meet_root(struct sp_span_stack *s)
{
	if (s->root.n < 2)
		sp_span_stack_met_root(s);
}

/* Owner only. That root ends, with this name. */
static inline void sp_span_stack_name_root(struct sp_span_stack *s, uint64_t id, uint32_t name_id)
{
	if (s->root.id == id)
		s->root.name_id = name_id;
}

/* What is active on a thread. */
enum sp_span_active {
	SP_SPAN_NONE,
	SP_SPAN_KNOWN,       /* this span */
	SP_SPAN_LABEL,       /* this manual label */
	SP_SPAN_ROOT_ALONE,  /* a span below this root, beyond the last frame */
	SP_SPAN_INTERLEAVED, /* one of several, and nobody knows which */
};

/*
 * Owner or its handler. *out is the record of the active span, with the root's name as it is now. Of
 * SP_SPAN_LABEL only ids, names and the trace around it are there, of SP_SPAN_ROOT_ALONE only what it says
 * of the root and the trace. Of all else nothing.
 */
SP_SIGSAFE enum sp_span_active sp_span_stack_peek(const struct sp_span_stack *s,
						  struct sp_span_record *out);

/* The same beneath all manual labels. */
SP_SIGSAFE enum sp_span_active sp_span_stack_peek_span(const struct sp_span_stack *s,
						       struct sp_span_record *out);

#endif
