/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push and pop of the active span stack. APP context, owner thread, except strike(). The owner's
 * signal handler may run between any two instructions here, so every change becomes visible by one
 * store: the depth for a push, the span id for a pop.
 */
#include "sampler/span_stack.h"

#include <errno.h>
#include <string.h>

/*
 * Whoever sees anything of the change sees this, too: the stores that make it are releases, which pair
 * with the acquires of sp_span_stack_top().
 */
static void begin_change(struct sp_span_stack *s)
{
	atomic_store_explicit(&s->changes,
			      atomic_load_explicit(&s->changes, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static uint64_t token_of(const struct sp_span_frame *f)
{
	return atomic_load_explicit(&f->token, memory_order_relaxed);
}

static inline void reap(struct sp_span_stack *s)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	while (d > 0 && atomic_load_explicit(&s->frame[d - 1].span_id, memory_order_relaxed) == 0)
		d--;
	atomic_store_explicit(&s->depth, d, memory_order_release);
}

int sp_span_stack_room(struct sp_span_stack *s)
{
	uint32_t d;

	reap(s);
	d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	return d < SP_SPAN_DEPTH_MAX ? (int)d : -ENOSPC;
}

void sp_span_stack_put(struct sp_span_stack *s, uint32_t slot, const struct sp_span_entry *e)
{
	struct sp_span_frame *f = &s->frame[slot];

	begin_change(s);
	f->root_id = e->root_id;
	f->name_id = e->name_id;
	f->root_name_id = e->root_name_id;
	memcpy(f->trace_id, e->trace_id, sizeof(f->trace_id));
	atomic_store_explicit(&f->token, e->token, memory_order_release);
	f->ref = e->ref;
	f->root_ref = e->root_ref;
	/* pairs with strike() of another thread, which must not see the id of a half-made frame */
	atomic_store_explicit(&f->span_id, e->span_id, memory_order_release);
	/* slot before depth: our handler may run between the two */
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(&s->depth, slot + 1, memory_order_release);
}

int sp_span_stack_push(struct sp_span_stack *s, const struct sp_span_entry *e)
{
	int d = sp_span_stack_room(s);

	if (d >= 0)
		sp_span_stack_put(s, (uint32_t)d, e);
	return d;
}

/* An attached frame keeps its place, and its token, until the detach: it only labels nothing. */
static bool end_frame(struct sp_span_stack *s, uint32_t slot, uint64_t span_id)
{
	struct sp_span_frame *f = &s->frame[slot];

	if (atomic_load_explicit(&f->span_id, memory_order_relaxed) != span_id)
		return false;
	begin_change(s);
	/* a plain store: all that another thread may do meanwhile is to strike the same span out */
	atomic_store_explicit(&f->span_id, sp_span_token_attached(token_of(f)) ? SP_SPAN_BLANK : 0,
			      memory_order_release);
	return true;
}

bool sp_span_stack_pop(struct sp_span_stack *s, uint64_t span_id)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	if (d == 0)
		return false;
	while (d > 0) {
		if (end_frame(s, d - 1, span_id)) {
			atomic_signal_fence(memory_order_release);
			reap(s);
			return true;
		}
		d--;
	}
	reap(s);
	return false;
}

/* Ends the frame in that slot whatever span it holds. */
static void end_slot(struct sp_span_stack *s, uint32_t slot)
{
	atomic_store_explicit(&s->frame[slot].span_id, 0, memory_order_release);
	atomic_signal_fence(memory_order_release);
}

bool sp_span_stack_pop_token(struct sp_span_stack *s, uint64_t token, bool through)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	uint32_t at = d;

	while (at > 0) {
		const struct sp_span_frame *f = &s->frame[at - 1];

		if (token_of(f) == token &&
		    atomic_load_explicit(&f->span_id, memory_order_relaxed) != 0)
			break;
		at--;
	}
	if (at == 0 || !sp_span_token_attached(token))
		return false;
	begin_change(s);
	for (uint32_t i = d; through && i > at; i--)
		end_slot(s, i - 1);
	end_slot(s, at - 1);
	reap(s);
	return true;
}

bool sp_span_stack_strike(struct sp_span_stack *s, uint32_t slot, uint64_t span_id)
{
	uint64_t want = span_id;

	if (slot >= SP_SPAN_DEPTH_MAX || span_id == 0)
		return false;
	/* Before, so that nobody sees the frame gone and the count as it was; in vain does no harm. */
	atomic_fetch_add_explicit(&s->struck, 1, memory_order_relaxed);
	return atomic_compare_exchange_strong_explicit(&s->frame[slot].span_id, &want, 0,
						       memory_order_acq_rel, memory_order_relaxed);
}

uint64_t sp_span_stack_top(const struct sp_span_stack *s, uint64_t *token)
{
	/* these pair with the releases of the owner and of strike() */
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_acquire);

	while (d > 0 && d <= SP_SPAN_DEPTH_MAX) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = atomic_load_explicit(&f->span_id, memory_order_acquire);

		*token = atomic_load_explicit(&f->token, memory_order_acquire);
		if (id != 0 && !sp_span_token_yields(*token))
			return id != SP_SPAN_BLANK ? id : 0;
	}
	return 0;
}

unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_DEPTH_MAX])
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	unsigned n = 0;

	for (uint32_t i = 0; i < d; i++) {
		uint64_t id = atomic_load_explicit(&s->frame[i].span_id, memory_order_relaxed);

		if (id != 0 && id != SP_SPAN_BLANK)
			ids[n++] = id;
	}
	return n;
}
