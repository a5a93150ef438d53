/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the active span of a thread (span_stack.h), for its signal handler and for the thread
 * itself.
 */
#include "sampler/open_spans/span_stack.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic bool sp_span_stack_scoped;
_Atomic uint32_t sp_span_stack_silent;

/* A position on the stack. Frames below it have lower numbers. */
struct at {
	const struct sp_span_stack *stack;
	uint32_t n;
	uint64_t id;
	uint64_t token;
};

/* Goes down to the next frame that counts at the moment. False if there is none. */
static bool next_frame(struct at *at)
{
	while (at->n > 0) {
		const struct sp_span_frame *f = &at->stack->frame[--at->n];

		/* These pair with the releases of the owner. */
		at->id = atomic_load_explicit(&f->span_id, memory_order_acquire);
		at->token = atomic_load_explicit(&f->token, memory_order_acquire);
		if (at->id != 0 && !sp_span_token_ignored(at->token))
			return true;
	}
	return false;
}

/*
 * Whether a forgotten span stands in for a scope and may have another root. The SDK of a forgotten
 * span is unknown.
 */
static bool forgotten_interleaves(const struct sp_span_stack *s, uint64_t root_id, uint64_t token)
{
	uint64_t root = atomic_load_explicit(&s->forgotten_root, memory_order_acquire);

	return sp_span_stack_forgot_starts(s) &&
	       (atomic_load_explicit(&s->has_stand_in, memory_order_relaxed) ||
		(atomic_load_explicit(&s->has_yielding, memory_order_relaxed) &&
		 !atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed))) &&
	       root != root_id && !sp_span_token_links_to(token, root);
}

/*
 * Whether a frame below stands in for a scope of the same SDK, and its span has another root,
 * without a link. Going down, a frame with the same root, or with the root that the frame above
 * links to, continues the chain.
 */
static bool interleaves(struct at at, const struct sp_span_record *top)
{
	uint64_t root = top->root_id;
	uint64_t token = at.token;
	struct sp_span_record r;

	while (next_frame(&at)) {
		if (!sp_span_token_stands_in(at.token) || !sp_span_table_by_id(at.id, &r))
			continue;
		if (r.root_id == root || r.root_id == top->root_id ||
		    sp_span_token_links_to(token, r.root_id)) {
			root = r.root_id;
			token = sp_span_token_links(at.token) ? at.token : token;
		} else if (r.sdk == top->sdk) {
			return true;
		}
	}
	return forgotten_interleaves(at.stack, root, token);
}

/*
 * The answer when no frame counts. The last of the forgotten spans and scopes is active, but the
 * stack did not store which one that is. If all have the same root, the root is known, and *out is
 * that root. Scopes of a silent storage do not count. If there is a silent storage, any forgotten
 * scope may be from it, so the root is unknown.
 */
static enum sp_span_active forgotten(const struct sp_span_stack *s, struct sp_span_record *out)
{
	uint64_t root = atomic_load_explicit(&s->forgotten_root, memory_order_acquire);

	if (!sp_span_stack_forgot(s))
		return SP_SPAN_NONE;
	if (root == 0 || atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed) != 0 ||
	    (atomic_load_explicit(&s->has_yielding, memory_order_relaxed) &&
	     atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed)) ||
	    !sp_span_table_by_id(root, out))
		return SP_SPAN_FORGOTTEN;
	out->span_id = 0;
	out->root_name_id = sp_span_table_root_name(out);
	out->name_id = 0;
	out->ref = 0;
	return SP_SPAN_ROOT_ALONE;
}

/* Finds the active span or label. beneath: ignore manual labels. */
static enum sp_span_active find(struct at *at, bool beneath, struct sp_span_record *out)
{
	while (next_frame(at)) {
		if (sp_span_token_is_label(at->token)) {
			if (!beneath)
				return SP_SPAN_LABEL;
			continue;
		}
		if (!sp_span_table_by_id(at->id, out)) {
			if (sp_span_token_attached(at->token))
				return SP_SPAN_NONE;
			continue;
		}
		if (sp_span_token_stands_in(at->token) && interleaves(*at, out))
			return SP_SPAN_INTERLEAVED;
		out->root_name_id = sp_span_table_root_name(out);
		return SP_SPAN_KNOWN;
	}
	return forgotten(at->stack, out);
}

static struct at top_of(const struct sp_span_stack *s)
{
	return (struct at){.stack = s, .n = atomic_load_explicit(&s->depth, memory_order_acquire)};
}

SP_SIGSAFE enum sp_span_active sp_span_stack_peek_span(const struct sp_span_stack *s,
						       struct sp_span_record *out)
{
	struct at at = top_of(s);

	return find(&at, true, out);
}

SP_SIGSAFE uint32_t sp_span_stack_label_level(const struct sp_span_stack *s)
{
	struct at at = top_of(s);

	while (next_frame(&at)) {
		if (sp_span_token_is_label(at.token))
			return sp_span_token_level(at.token);
	}
	return 0;
}

SP_SIGSAFE enum sp_span_active sp_span_stack_peek(const struct sp_span_stack *s,
						  struct sp_span_record *out)
{
	struct sp_span_record around;
	struct at at = top_of(s);
	enum sp_span_active shown;

	shown = find(&at, false, out);
	if (shown != SP_SPAN_LABEL)
		return shown;
	memset(out, 0, sizeof(*out));
	out->span_id = at.id;
	out->root_id = at.id;
	out->name_id = (uint32_t)at.token;
	out->root_name_id = out->name_id;
	/* The label is work for the trace of the span around it. */
	if (find(&at, true, &around) == SP_SPAN_KNOWN)
		memcpy(out->trace, around.trace, sizeof(out->trace));
	return SP_SPAN_LABEL;
}
