/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push and pop of the stack of active spans. The owner's signal handler may run between any two
 * instructions here, so every change becomes visible by one store: the depth for a push, the span
 * id for a pop. Context: APP, owner thread, except sp_span_stack_strike() and
 * sp_span_stack_leave().
 */
#include "sampler/open_spans/span_stack.h"

#include <string.h>

/*
 * To be called before each change. Whoever sees the change also sees the new count: the stores of
 * the change are releases, which pair with the acquires of sp_span_stack_top().
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

uint32_t sp_span_stack_room(struct sp_span_stack *s)
{
	uint32_t d;

	reap(s);
	d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	return d < SP_SPAN_DEPTH_MAX && sp_span_overflow_count(&s->rest) == 0
		       ? d
		       : SP_SPAN_DEPTH_MAX + sp_span_overflow_generation(&s->rest);
}

/* The place of the topmost frame with that token, + 1; 0 if there is none. */
static uint32_t find_token(const struct sp_span_stack *s, uint64_t token)
{
	uint32_t at = atomic_load_explicit(&s->depth, memory_order_relaxed);

	while (at > 0) {
		const struct sp_span_frame *f = &s->frame[at - 1];

		if (token_of(f) == token &&
		    atomic_load_explicit(&f->span_id, memory_order_relaxed) != 0)
			break;
		at--;
	}
	return at;
}

static void put_deep(struct sp_span_stack *s, const struct sp_span_entry *e)
{
	begin_change(s);
	sp_span_overflow_add(&s->rest, e);
	if (sp_span_token_attached(e->token) && find_token(s, e->token) != 0)
		s->rest.again++;
}

void sp_span_stack_leave(struct sp_span_stack *s, uint32_t slot, bool owner)
{
	if (owner)
		begin_change(s);
	else
		atomic_fetch_add_explicit(&s->struck, 1, memory_order_relaxed);
	sp_span_overflow_leave(&s->rest, slot - SP_SPAN_DEPTH_MAX);
}

void sp_span_stack_hide_rest(struct sp_span_stack *s)
{
	begin_change(s);
	atomic_store_explicit(&s->rest.alike, false, memory_order_relaxed);
}

static void meet_root(struct sp_span_last_root *r, const struct sp_span_entry *e)
{
	if (r->id == e->root_id)
		return;
	r->id = e->root_id;
	r->name_id = e->root_name_id;
	memcpy(r->trace_id, e->trace_id, sizeof(r->trace_id));
	if (r->n < UINT32_MAX)
		r->n++;
}

void sp_span_stack_count_roots(struct sp_span_stack *s)
{
	struct sp_span_entry e;

	memset(&s->root, 0, sizeof(s->root));
	if (sp_span_stack_peek(s, &e))
		meet_root(&s->root, &e);
}

void sp_span_stack_put(struct sp_span_stack *s, uint32_t slot, const struct sp_span_entry *e)
{
	struct sp_span_frame *f;

	meet_root(&s->root, e);
	if (sp_span_slot_is_deep(slot)) {
		put_deep(s, e);
		return;
	}
	f = &s->frame[slot];
	begin_change(s);
	f->root_id = e->root_id;
	f->name_id = e->name_id;
	f->root_name_id = e->root_name_id;
	memcpy(f->trace_id, e->trace_id, sizeof(f->trace_id));
	atomic_store_explicit(&f->token, e->token, memory_order_release);
	f->ref = e->ref;
	f->root_ref = e->root_ref;
	/*
	 * Pairs with sp_span_stack_strike() of another thread, which must not see the id of an
	 * unfinished frame.
	 */
	atomic_store_explicit(&f->span_id, e->span_id, memory_order_release);
	/* slot before depth: our handler may run between the two */
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(&s->depth, slot + 1, memory_order_release);
}

uint32_t sp_span_stack_push(struct sp_span_stack *s, const struct sp_span_entry *e)
{
	uint32_t slot = sp_span_stack_room(s);

	sp_span_stack_put(s, slot, e);
	return slot;
}

/* An attached frame keeps its place and its token until the detach. It only labels nothing. */
static bool end_frame(struct sp_span_stack *s, uint32_t slot, uint64_t span_id)
{
	struct sp_span_frame *f = &s->frame[slot];

	if (atomic_load_explicit(&f->span_id, memory_order_relaxed) != span_id)
		return false;
	begin_change(s);
	/* A plain store suffices: another thread could at most strike out the same span. */
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

bool sp_span_stack_pop_top(struct sp_span_stack *s, uint32_t slot, uint64_t span_id)
{
	struct sp_span_frame *f = &s->frame[slot % SP_SPAN_DEPTH_MAX];

	/* While the overflow holds something, no slot is on top. */
	if (atomic_load_explicit(&s->depth, memory_order_relaxed) != slot + 1 ||
	    sp_span_overflow_count(&s->rest) != 0 ||
	    atomic_load_explicit(&f->span_id, memory_order_relaxed) != span_id ||
	    sp_span_token_attached(token_of(f)))
		return false;
	begin_change(s);
	/* The same two stores as in sp_span_stack_pop(). */
	atomic_store_explicit(&f->span_id, 0, memory_order_release);
	atomic_signal_fence(memory_order_release);
	reap(s);
	return true;
}

/* Ends the frame in that slot, whichever span it holds. */
static void end_slot(struct sp_span_stack *s, uint32_t slot)
{
	atomic_store_explicit(&s->frame[slot].span_id, 0, memory_order_release);
	atomic_signal_fence(memory_order_release);
}

/* Scopes nest: of two with the same token the deeper one goes first. */
static bool pop_deep(struct sp_span_stack *s, bool has_frame)
{
	if (sp_span_overflow_count(&s->rest) == 0 || (has_frame && s->rest.again == 0))
		return false;
	if (has_frame)
		s->rest.again--;
	begin_change(s);
	sp_span_overflow_leave(&s->rest, sp_span_overflow_generation(&s->rest));
	return true;
}

bool sp_span_stack_pop_token(struct sp_span_stack *s, uint64_t token, bool through)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);
	uint32_t at = find_token(s, token);

	if (!sp_span_token_attached(token))
		return false;
	if (pop_deep(s, at != 0) || at == 0)
		return false;
	begin_change(s);
	if (through && sp_span_overflow_count(&s->rest) != 0)
		sp_span_overflow_clear(&s->rest);
	for (uint32_t i = d; through && i > at; i--)
		end_slot(s, i - 1);
	end_slot(s, at - 1);
	reap(s);
	return true;
}

void sp_span_stack_pop_attached(struct sp_span_stack *s, uint64_t below)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	begin_change(s);
	if (sp_span_overflow_count(&s->rest) != 0)
		sp_span_overflow_clear(&s->rest);
	for (uint32_t i = d; i > 0; i--) {
		uint64_t token = token_of(&s->frame[i - 1]);

		if (sp_span_token_attached(token) && token < below)
			end_slot(s, i - 1);
	}
	reap(s);
}

void sp_span_stack_pop_silent(struct sp_span_stack *s)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	begin_change(s);
	if (sp_span_overflow_count(&s->rest) != 0 &&
	    (s->rest.storages &
	     atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed)) != 0)
		sp_span_overflow_clear(&s->rest);
	for (uint32_t i = d; i > 0; i--) {
		if (sp_span_token_silent(token_of(&s->frame[i - 1])))
			end_slot(s, i - 1);
	}
	reap(s);
}

uint64_t sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	while (d > 0) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = atomic_load_explicit(&f->span_id, memory_order_relaxed);
		uint64_t token = token_of(f);

		if (id != 0 && sp_span_token_attached(token) && token < SP_SPAN_NO_SCOPE &&
		    token % SP_SPAN_STORAGES == storage)
			return id != SP_SPAN_BLANK ? id : 0;
	}
	return 0;
}

bool sp_span_stack_strike(struct sp_span_stack *s, uint32_t slot, uint64_t span_id)
{
	uint64_t want = span_id;

	if (slot >= SP_SPAN_DEPTH_MAX || span_id == 0)
		return false;
	/*
	 * Before the exchange, so that nobody sees the frame gone and the count unchanged. Counting
	 * in vain does no harm.
	 */
	atomic_fetch_add_explicit(&s->struck, 1, memory_order_relaxed);
	return atomic_compare_exchange_strong_explicit(&s->frame[slot].span_id, &want, 0,
						       memory_order_acq_rel, memory_order_relaxed);
}

uint64_t sp_span_stack_top(const struct sp_span_stack *s, uint64_t *token)
{
	/* These pair with the releases of the owner and of sp_span_stack_strike(). */
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_acquire);

	if (sp_span_overflow_count(&s->rest) != 0)
		return 0;
	while (d > 0 && d <= SP_SPAN_DEPTH_MAX) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = atomic_load_explicit(&f->span_id, memory_order_acquire);

		*token = atomic_load_explicit(&f->token, memory_order_acquire);
		if (id != 0 && !sp_span_token_ignored(*token))
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
