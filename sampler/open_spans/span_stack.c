/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a thread's stack of spans, by the thread itself (span_stack.h). Context: APP. */
#include "sampler/open_spans/span_stack.h"

#include <string.h>
#include <time.h>

#include "sampler/base/cpu_clock.h"

static uint64_t token_of(const struct sp_span_frame *f)
{
	return atomic_load_explicit(&f->token, memory_order_relaxed);
}

static uint64_t id_of(const struct sp_span_frame *f)
{
	return atomic_load_explicit(&f->span_id, memory_order_relaxed);
}

static uint32_t depth_of(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->depth, memory_order_relaxed);
}

static void set_depth(struct sp_span_stack *s, uint32_t depth)
{
	atomic_store_explicit(&s->depth, depth, memory_order_release);
}

static uint32_t read_count(const _Atomic uint32_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void set_count(_Atomic uint32_t *count, uint32_t n)
{
	atomic_store_explicit(count, n, memory_order_release);
}

static void set_forgotten_root(struct sp_span_stack *s, uint64_t root)
{
	atomic_store_explicit(&s->forgotten_root, root, memory_order_release);
}

/*
 * Resets the counts of forgotten starts once all these spans have ended: then no other thread will
 * count the end of one.
 */
static void settle(struct sp_span_stack *s)
{
	if (sp_span_stack_forgot_starts(s))
		return;
	set_count(&s->starts, 0);
	set_count(&s->ended, 0);
	atomic_store_explicit(&s->has_stand_in, false, memory_order_relaxed);
	atomic_store_explicit(&s->has_yielding, false, memory_order_relaxed);
}

static void set_scopes(struct sp_span_stack *s, uint32_t n)
{
	set_count(&s->scopes, n);
	if (n == 0)
		s->piled = 0;
}

void sp_span_stack_clear(struct sp_span_stack *s)
{
	set_depth(s, 0);
	/* From now on no other thread counts a span of the former thread here. */
	atomic_fetch_add_explicit(&s->user, 1, memory_order_relaxed);
	set_scopes(s, 0);
	set_count(&s->starts, 0);
	set_count(&s->ended, 0);
	settle(s);
	s->reaped = atomic_load_explicit(&s->struck, memory_order_relaxed);
}

void sp_span_stack_forked(struct sp_span_stack *s, uint32_t starts)
{
	set_count(&s->starts, starts);
	set_count(&s->ended, 0);
	settle(s);
}

/*
 * Whether a reader may find a span or a scope in that frame, now or later. The function searches
 * the table only if some span may have ended without the removal of its frame.
 */
static bool counts(const struct sp_span_stack *s, const struct sp_span_frame *f, uint32_t struck)
{
	struct sp_span_record r;

	return id_of(f) != 0 && !sp_span_token_ignored(token_of(f)) &&
	       (struck == s->reaped || sp_span_token_attached(token_of(f)) ||
		sp_span_table_by_id(id_of(f), &r));
}

/*
 * Lowers the depth past frames that were removed or count for nothing, and past frames of ended
 * spans, if there are any. Readers skip all these frames, so nothing changes for a reader.
 */
void sp_span_stack_drop_ended(struct sp_span_stack *s)
{
	uint32_t struck = atomic_load_explicit(&s->struck, memory_order_relaxed);
	uint32_t d = depth_of(s);

	while (d > 0 && !counts(s, &s->frame[d - 1], struck))
		d--;
	set_depth(s, d);
	/* Otherwise there may be more such frames further down. */
	if (d == 0)
		s->reaped = struck;
}

/*
 * Moves the frames that count down over the others. In an event loop, spans end below later spans
 * that are open, so the depth alone never gets past their frames. Our handler sees the same active
 * span at every instruction: a frame is complete at its new position before its old position is
 * overwritten, and the frames that still have to move are above it. Meanwhile some frames are on
 * the stack twice, in the same order, which changes no answer. A reader on another thread searches
 * an id from the top down, so it does not miss a frame that moves down.
 */
static void close_ranks(struct sp_span_stack *s)
{
	/* Pairs with sp_span_stack_strike(): the spans that it counted have left the table. */
	uint32_t struck = atomic_load_explicit(&s->struck, memory_order_acquire);
	uint32_t d = depth_of(s);
	uint32_t to = 0;

	for (uint32_t i = 0; i < d; i++) {
		const struct sp_span_frame *from = &s->frame[i];
		struct sp_span_frame *f = &s->frame[to];

		if (!counts(s, from, struck))
			continue;
		if (to++ == i)
			continue;
		/* Our handler must not find the old id with the new token. */
		atomic_store_explicit(&f->span_id, 0, memory_order_release);
		atomic_signal_fence(memory_order_release);
		atomic_store_explicit(&f->token, token_of(from), memory_order_release);
		atomic_signal_fence(memory_order_release);
		atomic_store_explicit(&f->span_id, id_of(from), memory_order_release);
		atomic_signal_fence(memory_order_release);
	}
	set_depth(s, to);
	s->reaped = struck;
}

/* The part of a token that identifies its scope or label. */
static uint64_t key_of(uint64_t token)
{
	return token >> (sp_span_token_is_label(token) ? 32 : 0);
}

/* The position of the topmost frame with that token, + 1; 0 = none. */
static uint32_t find_token(const struct sp_span_stack *s, uint64_t token)
{
	uint32_t at = depth_of(s);

	while (at > 0 && (id_of(&s->frame[at - 1]) == 0 ||
			  key_of(token_of(&s->frame[at - 1])) != key_of(token)))
		at--;
	return at;
}

static void end_frame(struct sp_span_stack *s, uint32_t at)
{
	atomic_store_explicit(&s->frame[at].span_id, 0, memory_order_release);
}

/* The part of a token by which a forgotten scope is found later. */
static uint16_t part_of(uint64_t token)
{
	return (uint16_t)(sp_span_index_hash(key_of(token)) >> 48);
}

/* When scope[] is full, its older half is dropped. */
static void add_scope(struct sp_span_stack *s, uint64_t token)
{
	uint32_t n = read_count(&s->scopes);

	if (n == SP_SPAN_FORGOTTEN_SCOPES) {
		n /= 2;
		set_forgotten_root(s, 0);
		memmove(s->scope, &s->scope[n], n * sizeof(s->scope[0]));
	}
	s->scope[n] = part_of(token);
	set_count(&s->scopes, n + 1);
	s->piled += token < SP_SPAN_NO_SCOPE;
}

static void add_start(struct sp_span_stack *s, uint64_t token)
{
	if (token >= SP_SPAN_YIELDS)
		atomic_store_explicit(&s->has_yielding, true, memory_order_relaxed);
	else if (sp_span_token_stands_in(token))
		atomic_store_explicit(&s->has_stand_in, true, memory_order_relaxed);
	set_count(&s->starts, read_count(&s->starts) + 1);
}

/*
 * Our handler may run between any two stores: until the last store it sees this frame, and the
 * active span is the span of this frame or of a frame above it. A label has no root, and neither
 * has a context without a span.
 */
static void forget(struct sp_span_stack *s, uint32_t at)
{
	uint64_t token = token_of(&s->frame[at]);
	struct sp_span_record r;
	bool is_open = sp_span_table_by_id(id_of(&s->frame[at]), &r);
	uint64_t root = is_open && !sp_span_token_is_label(token) ? r.root_id : 0;
	bool is_first = !sp_span_stack_forgot(s);

	if (is_first)
		settle(s);
	if (sp_span_token_attached(token) ||
	    (is_open && sp_span_table_forget(&r, sp_span_stack_mark(s)))) {
		if (is_first)
			set_forgotten_root(s, root);
		else if (root != atomic_load_explicit(&s->forgotten_root, memory_order_relaxed))
			set_forgotten_root(s, 0);
		if (sp_span_token_attached(token))
			add_scope(s, token);
		else
			add_start(s, token);
	}
	end_frame(s, at);
}

__attribute__((cold)) void sp_span_stack_make_room(struct sp_span_stack *s)
{
	if (atomic_load_explicit(&s->struck, memory_order_relaxed) != s->reaped)
		sp_span_stack_drop_ended(s);
	if (depth_of(s) < SP_SPAN_DEPTH_MAX)
		return;
	close_ranks(s);
	if (depth_of(s) < SP_SPAN_DEPTH_MAX)
		return;
	for (uint32_t i = 0; i < SP_SPAN_FORGET; i++)
		forget(s, i);
	close_ranks(s);
}

void sp_span_stack_ended_below(struct sp_span_stack *s, uint64_t span_id, uint8_t forgot)
{
	uint32_t d = depth_of(s);

	if (forgot != 0) {
		if (forgot == sp_span_stack_mark(s))
			set_count(&s->starts, read_count(&s->starts) - 1);
		settle(s);
	} else if (d != 0 && id_of(&s->frame[d - 1]) == span_id &&
		   !sp_span_token_attached(token_of(&s->frame[d - 1]))) {
		set_depth(s, d - 1);
	} else {
		sp_span_stack_strike(s);
	}
	sp_span_stack_drop_ended(s);
}

bool sp_span_stack_ended_elsewhere(struct sp_span_stack *s, const struct sp_span_record *r)
{
	uint8_t forgot = sp_span_table_end_elsewhere(r);

	/* Otherwise the block belonged to another thread then. */
	if (forgot == sp_span_stack_mark(s)) {
		atomic_fetch_add_explicit(&s->ended, 1, memory_order_release);
		return true;
	}
	if (forgot != 0 || !sp_span_stack_has(s, r->span_id))
		return false;
	sp_span_stack_strike(s);
	return true;
}

/*
 * Some of the forgotten spans may have become active after that scope, and then are no longer
 * active; we do not know which.
 */
static bool pop_forgotten(struct sp_span_stack *s, uint64_t token, bool through)
{
	uint32_t n = read_count(&s->scopes);
	uint32_t at = n;
	uint32_t gone;

	while (at > 0 && s->scope[at - 1] != part_of(token))
		at--;
	if (at == 0)
		return false;
	gone = through ? n - at + 1 : 1;
	if (!through)
		memmove(&s->scope[at - 1], &s->scope[at], (n - at) * sizeof(s->scope[0]));
	else if (sp_span_stack_forgot_starts(s))
		set_forgotten_root(s, 0);
	s->piled -= gone < s->piled ? gone : s->piled;
	set_scopes(s, n - gone);
	if (through)
		set_depth(s, 0);
	sp_span_stack_drop_ended(s);
	return true;
}

bool sp_span_stack_pop_below(struct sp_span_stack *s, uint64_t token, bool through)
{
	uint32_t at;

	/*
	 * A silent storage's frame may have been removed, and a frame below may have the same
	 * token.
	 */
	if (!sp_span_token_attached(token) || sp_span_token_silent(token))
		return false;
	at = find_token(s, token);
	if (at == 0)
		return pop_forgotten(s, token, through);
	if (through)
		set_depth(s, at - 1);
	else
		end_frame(s, at - 1);
	sp_span_stack_drop_ended(s);
	return true;
}

void sp_span_stack_pop_scopes(struct sp_span_stack *s, bool silent_only)
{
	for (uint32_t i = depth_of(s); i > 0; i--) {
		uint64_t token = token_of(&s->frame[i - 1]);

		if (token < SP_SPAN_NO_SCOPE && sp_span_token_attached(token) &&
		    (!silent_only || sp_span_token_silent(token)))
			end_frame(s, i - 1);
	}
	/* Any of the forgotten scopes may be one of these. */
	if (read_count(&s->scopes) != 0)
		set_forgotten_root(s, 0);
	set_scopes(s, 0);
	sp_span_stack_drop_ended(s);
}

void sp_span_stack_met_root(struct sp_span_stack *s)
{
	struct sp_span_last_root *root = &s->root;
	struct sp_span_record r;

	switch (sp_span_stack_peek(s, &r)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_LABEL:
	case SP_SPAN_ROOT_ALONE:
		if (root->n != 0 && root->id == r.root_id)
			return;
		if (root->n == 0)
			(void)sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &root->from_ns);
		root->id = r.root_id;
		root->name_id = r.root_name_id;
		memcpy(root->trace, r.trace, sizeof(root->trace));
		root->n++;
		break;
	case SP_SPAN_INTERLEAVED:
		root->n = 2;
		break;
	case SP_SPAN_NONE:
	case SP_SPAN_FORGOTTEN:
		break;
	}
}

/* A pop may show a root below the active one again, and pops do not count roots. */
void sp_span_stack_count_roots(struct sp_span_stack *s)
{
	uint64_t ids[SP_SPAN_IDS_MAX];
	unsigned n = sp_span_stack_ids(s, ids);
	struct sp_span_record r;

	s->root = (struct sp_span_last_root){.n = 0};
	sp_span_stack_met_root(s);
	for (unsigned i = 0; i < n; i++)
		if (ids[i] != s->root.id &&
		    !(sp_span_table_by_id(ids[i], &r) && r.root_id == s->root.id))
			s->root.n = 2;
}

bool sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage, uint64_t *span_id)
{
	uint32_t d = depth_of(s);

	*span_id = 0;
	while (d > 0) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = id_of(f);
		uint64_t token = token_of(f);

		if (id == 0 || token >= SP_SPAN_NO_SCOPE || !sp_span_token_attached(token) ||
		    token % SP_SPAN_STORAGES != storage)
			continue;
		*span_id = id != SP_SPAN_BLANK ? id : 0;
		return true;
	}
	return read_count(&s->scopes) == 0;
}

bool sp_span_stack_has(const struct sp_span_stack *s, uint64_t span_id)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_acquire);

	while (d > 0) {
		if (atomic_load_explicit(&s->frame[--d].span_id, memory_order_acquire) == span_id)
			return true;
	}
	return false;
}

unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_IDS_MAX])
{
	uint64_t root = atomic_load_explicit(&s->forgotten_root, memory_order_relaxed);
	uint32_t d = depth_of(s);
	unsigned n = 0;

	for (uint32_t i = 0; i < d; i++) {
		uint64_t id = id_of(&s->frame[i]);

		if (id != 0 && id != SP_SPAN_BLANK)
			ids[n++] = id;
	}
	if (root != 0 && sp_span_stack_forgot(s))
		ids[n++] = root;
	return n;
}
