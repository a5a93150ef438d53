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

static uint32_t beyond_of(const struct sp_span_stack *s)
{
	return atomic_load_explicit(&s->beyond, memory_order_relaxed);
}

static void set_beyond(struct sp_span_stack *s, uint32_t beyond)
{
	atomic_store_explicit(&s->beyond, beyond, memory_order_release);
}

void sp_span_stack_clear(struct sp_span_stack *s)
{
	set_depth(s, 0);
	set_beyond(s, 0);
	s->reaped = atomic_load_explicit(&s->struck, memory_order_relaxed);
}

/*
 * A reader may find something in that frame, now or later. Where no span has left a frame behind since the
 * stack was last free of such frames, none is looked up.
 */
static bool counts(const struct sp_span_stack *s, const struct sp_span_frame *f, uint32_t struck)
{
	struct sp_span_record r;

	return id_of(f) != 0 &&
	       (!sp_span_token_ignored(token_of(f)) || sp_span_token_doubted(token_of(f))) &&
	       (struck == s->reaped || sp_span_token_attached(token_of(f)) ||
		sp_span_table_by_id(id_of(f), &r));
}

/*
 * Lowers the depth past frames that are gone or count for nothing and, where spans have left some behind,
 * past those of starts whose span has ended. A reader skips all of these anyway, so nothing changes for
 * it.
 */
void sp_span_stack_reap(struct sp_span_stack *s)
{
	uint32_t struck = atomic_load_explicit(&s->struck, memory_order_relaxed);
	uint32_t d = depth_of(s);

	while (d > 0 && !counts(s, &s->frame[d - 1], struck))
		d--;
	set_depth(s, d);
	if (d != 0)
		return;
	/* Further down there may be more of them otherwise. */
	s->reaped = struck;
	if (beyond_of(s) != 0)
		set_beyond(s, 0);
}

/*
 * Moves the frames that count down over those that do not. In an event loop, spans end below later ones that
 * are open, and the depth never gets past their frames. Our handler finds the same at every instruction: a
 * frame is whole in its new place before its old place is overwritten, and those that are still to be moved
 * lie above. Meanwhile some are there twice, in the same order, so a reader finds nothing else. A reader on
 * another thread looks for an id from the top down, and so does not miss a frame that moves down.
 */
static void close_ranks(struct sp_span_stack *s)
{
	/* Pairs with sp_span_stack_strike(): the spans that were counted have left the table. */
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

/* What of a token tells whose it is. */
static uint64_t key_of(uint64_t token)
{
	return token >> (sp_span_token_is_label(token) ? 32 : 0);
}

/* The place of the topmost frame with that token, + 1; 0 if there is none. */
static uint32_t find_token(const struct sp_span_stack *s, uint64_t token)
{
	uint32_t at = depth_of(s);

	while (at > 0 && (id_of(&s->frame[at - 1]) == 0 ||
			  key_of(token_of(&s->frame[at - 1])) != key_of(token)))
		at--;
	return at;
}

/* Never 0. */
static uint32_t next_generation(const struct sp_span_stack *s)
{
	return s->generation % UINT8_MAX + 1;
}

uint8_t sp_span_stack_find_place(struct sp_span_stack *s)
{
	if (atomic_load_explicit(&s->struck, memory_order_relaxed) != s->reaped)
		sp_span_stack_reap(s);
	if (beyond_of(s) != 0)
		return (uint8_t)s->generation;
	if (depth_of(s) == SP_SPAN_DEPTH_MAX)
		close_ranks(s);
	return depth_of(s) < SP_SPAN_DEPTH_MAX ? 0 : (uint8_t)next_generation(s);
}

static uint32_t *beyond_by(struct sp_span_stack *s, uint64_t token)
{
	return &s->beyond_by[(sp_span_index_hash(key_of(token)) >> 40) % SP_SPAN_HASHES];
}

__attribute__((cold)) void sp_span_stack_push_beyond(struct sp_span_stack *s, uint64_t span_id,
						     uint64_t token)
{
	uint32_t beyond = beyond_of(s);
	struct sp_span_record r;
	uint64_t root = sp_span_table_by_id(span_id, &r) ? r.root_id : 0;

	if (beyond == 0) {
		s->generation = next_generation(s);
		s->again = 0;
		memset(s->beyond_by, 0, sizeof(s->beyond_by));
	} else if (root != atomic_load_explicit(&s->beyond_root, memory_order_relaxed)) {
		root = 0;
	}
	atomic_store_explicit(&s->beyond_root, root, memory_order_release);
	if (sp_span_token_attached(token)) {
		(*beyond_by(s, token))++;
		s->again += find_token(s, token) != 0;
	}
	if (beyond != UINT32_MAX)
		set_beyond(s, beyond + 1);
}

void sp_span_stack_ended_below(struct sp_span_stack *s, uint64_t span_id, uint8_t place)
{
	uint32_t d = depth_of(s);
	uint32_t beyond = beyond_of(s);

	if (beyond != 0 && place == s->generation)
		set_beyond(s, beyond - 1);
	else if (d != 0 && id_of(&s->frame[d - 1]) == span_id &&
		 !sp_span_token_attached(token_of(&s->frame[d - 1])))
		set_depth(s, d - 1);
	else
		sp_span_stack_strike(s);
	sp_span_stack_reap(s);
}

static void end_frame(struct sp_span_stack *s, uint32_t at)
{
	atomic_store_explicit(&s->frame[at].span_id, 0, memory_order_release);
}

/* Scopes nest: of two with the same token the deeper one goes first. */
static bool pop_beyond(struct sp_span_stack *s, uint64_t token, bool has_frame)
{
	uint32_t *by = beyond_by(s, token);
	uint32_t beyond = beyond_of(s);

	if (beyond == 0 || *by == 0 || (has_frame && s->again == 0))
		return false;
	(*by)--;
	s->again -= has_frame;
	set_beyond(s, beyond - 1);
	sp_span_stack_reap(s);
	return true;
}

bool sp_span_stack_pop_below(struct sp_span_stack *s, uint64_t token, bool through)
{
	uint32_t at;

	/* A silent storage's own frames may be gone, and below them may be another with that token. */
	if (!sp_span_token_attached(token) || sp_span_token_silent(token))
		return false;
	at = find_token(s, token);
	if (pop_beyond(s, token, at != 0) || at == 0)
		return false;
	if (through) {
		set_beyond(s, 0);
		set_depth(s, at - 1);
	} else {
		end_frame(s, at - 1);
	}
	sp_span_stack_reap(s);
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
	/* Nobody knows which of what is beyond the last frame were such scopes. */
	atomic_store_explicit(&s->beyond_root, 0, memory_order_release);
	sp_span_stack_reap(s);
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
		break;
	}
}

/* A root below the active one comes to light by a pop, which counts none. */
void sp_span_stack_count_roots(struct sp_span_stack *s)
{
	uint64_t ids[SP_SPAN_DEPTH_MAX];
	unsigned n = sp_span_stack_ids(s, ids);
	struct sp_span_record r;

	s->root = (struct sp_span_last_root){.n = 0};
	sp_span_stack_met_root(s);
	for (unsigned i = 0; i < n; i++)
		if (ids[i] != s->root.id &&
		    !(sp_span_table_by_id(ids[i], &r) && r.root_id == s->root.id))
			s->root.n = 2;
}

uint64_t sp_span_stack_attached(const struct sp_span_stack *s, uint32_t storage)
{
	uint32_t d = depth_of(s);

	while (d > 0) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = id_of(f);
		uint64_t token = token_of(f);

		if (id != 0 && token < SP_SPAN_NO_SCOPE && sp_span_token_attached(token) &&
		    token % SP_SPAN_STORAGES == storage)
			return id != SP_SPAN_BLANK ? id : 0;
	}
	return 0;
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

unsigned sp_span_stack_ids(const struct sp_span_stack *s, uint64_t ids[SP_SPAN_DEPTH_MAX])
{
	uint32_t d = depth_of(s);
	unsigned n = 0;

	for (uint32_t i = 0; i < d; i++) {
		uint64_t id = id_of(&s->frame[i]);

		if (id != 0 && id != SP_SPAN_BLANK)
			ids[n++] = id;
	}
	return n;
}
