/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is active on a thread (span_stack.h), read by its signal handler or by the thread itself.
 */
#include "sampler/open_spans/span_stack.h"

#include <string.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic bool sp_span_stack_scoped;
_Atomic uint32_t sp_span_stack_silent;
_Atomic uint32_t sp_span_stack_doubted;

/* A place on the stack. The frames below it are those with lower numbers. */
struct at {
	const struct sp_span_stack *stack;
	uint32_t n;
	uint64_t id;
	uint64_t token;
};

/* Goes down to the next frame that counts, as things are now. False if there is none. */
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
 * Some frame below stands in for a scope, of the same SDK or of any, and its span has another root, to which
 * that of the upper frame does not link.
 */
static bool interleaves(struct at at, const struct sp_span_record *top, bool any_sdk)
{
	uint64_t token = at.token;
	struct sp_span_record r;

	while (next_frame(&at)) {
		if (sp_span_token_stands_in(at.token) && sp_span_table_by_id(at.id, &r) &&
		    (any_sdk || r.sdk == top->sdk) && r.root_id != top->root_id &&
		    !sp_span_token_links_to(token, r.root_id))
			return true;
	}
	return false;
}

/* What the frames show. With beneath, what they show beneath manual labels. */
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
		if (sp_span_token_stands_in(at->token) && interleaves(*at, out, false))
			return SP_SPAN_INTERLEAVED;
		out->root_name_id = sp_span_table_root_name(out);
		return SP_SPAN_KNOWN;
	}
	return SP_SPAN_NONE;
}

/*
 * What is known of spans beyond the last frame; *out is what the frames show. Nobody knows whether those
 * spans stand in for scopes.
 */
static enum sp_span_active beyond(struct at top, enum sp_span_active frames,
				  struct sp_span_record *out)
{
	if (frames != SP_SPAN_KNOWN ||
	    out->root_id != atomic_load_explicit(&top.stack->beyond_root, memory_order_relaxed) ||
	    atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed) != 0)
		return frames == SP_SPAN_INTERLEAVED ? frames : SP_SPAN_NONE;
	if (interleaves(top, out, true))
		return SP_SPAN_INTERLEAVED;
	out->span_id = 0;
	out->name_id = 0;
	out->ref = 0;
	return SP_SPAN_ROOT_ALONE;
}

static struct at top_of(const struct sp_span_stack *s)
{
	return (struct at){.stack = s, .n = atomic_load_explicit(&s->depth, memory_order_acquire)};
}

SP_SIGSAFE enum sp_span_active sp_span_stack_peek_span(const struct sp_span_stack *s,
						       struct sp_span_record *out)
{
	struct at top = top_of(s);
	struct at at = top;
	enum sp_span_active frames = find(&at, true, out);

	return sp_span_stack_is_beyond(s) ? beyond(top, frames, out) : frames;
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

	if (sp_span_stack_is_beyond(s))
		return sp_span_stack_peek_span(s, out);
	shown = find(&at, false, out);
	if (shown != SP_SPAN_LABEL)
		return shown;
	memset(out, 0, sizeof(*out));
	out->span_id = at.id;
	out->root_id = at.id;
	out->name_id = (uint32_t)at.token;
	out->root_name_id = out->name_id;
	/* It is still work for the same trace. */
	if (find(&at, true, &around) == SP_SPAN_KNOWN)
		memcpy(out->trace, around.trace, sizeof(out->trace));
	return SP_SPAN_LABEL;
}
