/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the active span from a thread's stack, inside the sampling signal handler or on the owning
 * thread.
 */
#include "sampler/open_spans/span_stack.h"

#include <string.h>

#include "sampler/open_spans/span_table.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic bool sp_span_stack_scoped;
_Atomic uint32_t sp_span_stack_silent;

/* Replaces the names by the current ones. False if the span is no longer open. */
static bool refresh(struct sp_span_entry *e)
{
	struct sp_span_names now;

	if (e->ref != 0) {
		if (!sp_span_table_names(e->ref, e->span_id, &now))
			return false;
		e->name_id = now.name_id;
	}
	if (e->root_ref != 0 && sp_span_table_names(e->root_ref, e->root_id, &now))
		e->root_name_id = now.name_id;
	return true;
}

/* What is known of spans in the overflow. False if that is nothing. */
static bool peek_rest(const struct sp_span_overflow *r, struct sp_span_entry *out)
{
	struct sp_span_names root;

	if (!atomic_load_explicit(&r->alike, memory_order_relaxed) ||
	    (r->storages & atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed)) != 0)
		return false;
	memset(out, 0, sizeof(*out));
	out->span_id = SP_SPAN_DEEPER;
	out->root_id = r->root_id;
	out->root_name_id = r->root_name_id;
	out->root_ref = r->root_ref;
	out->token = SP_SPAN_STARTED;
	memcpy(out->trace_id, r->trace_id, sizeof(out->trace_id));
	if (r->root_ref == 0)
		return true;
	if (!sp_span_table_names(r->root_ref, r->root_id, &root))
		return false;
	out->root_name_id = root.name_id;
	return true;
}

SP_SIGSAFE bool sp_span_stack_peek(const struct sp_span_stack *s, struct sp_span_entry *out)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	atomic_signal_fence(memory_order_acquire);
	if (d > SP_SPAN_DEPTH_MAX)
		return false;
	if (sp_span_overflow_count(&s->rest) != 0 &&
	    !(s->rest.yields && atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed)))
		return peek_rest(&s->rest, out);
	while (d > 0) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = atomic_load_explicit(&f->span_id, memory_order_acquire);

		uint64_t token = atomic_load_explicit(&f->token, memory_order_relaxed);

		if (id == 0 || sp_span_token_ignored(token))
			continue;
		if (id == SP_SPAN_BLANK)
			return false;
		out->span_id = id;
		out->root_id = f->root_id;
		out->name_id = f->name_id;
		out->root_name_id = f->root_name_id;
		memcpy(out->trace_id, f->trace_id, sizeof(out->trace_id));
		out->token = token;
		out->ref = f->ref;
		out->root_ref = f->root_ref;
		if (refresh(out))
			return true;
		if (sp_span_token_attached(token))
			return false;
	}
	return false;
}
