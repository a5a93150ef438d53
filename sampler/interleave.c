/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that spans interleave, and what follows from it. APP context. */
#include "sampler/interleave.h"

#include <stdatomic.h>

#include "sampler/compiler.h"
#include "sampler/log.h"
#include "sampler/span_stack.h"

/* The frame in that slot is there because a span of the same SDK was started; its record then. */
static bool started_there(struct sp_thread *t, uint32_t slot, const struct sp_span_record *gone,
			  struct sp_span_record *out)
{
	uint64_t id = atomic_load_explicit(&t->spans.frame[slot].span_id, memory_order_acquire);

	return sp_span_table_by_id(id, out) && out->thread == gone->thread && out->slot == slot &&
	       out->stand_in == gone->stand_in;
}

static uint32_t depth_of(const struct sp_thread *t)
{
	uint32_t depth = atomic_load_explicit(&t->spans.depth, memory_order_relaxed);

	return depth < SP_SPAN_DEPTH_MAX ? depth : SP_SPAN_DEPTH_MAX;
}

/* A higher slot was filled later. */
static bool later_root_is_open(struct sp_thread *t, const struct sp_span_record *gone)
{
	struct sp_span_record r;

	for (uint32_t i = gone->slot + 1U; i < depth_of(t); i++) {
		if (started_there(t, i, gone, &r) && r.root_id == r.span_id)
			return true;
	}
	return false;
}

static void act(struct sp_thread *t, const struct sp_span_record *gone)
{
	static struct sp_log_site site;
	struct sp_span_record r;

	atomic_fetch_or_explicit(&t->interleaved, sp_interleave_bit(gone->stand_in),
				 memory_order_relaxed);
	for (uint32_t i = 0; i < depth_of(t); i++) {
		if (started_there(t, i, gone, &r))
			(void)sp_span_stack_strike(&t->spans, i, r.span_id);
	}
	sp_log_limited(&site, SP_LOG_WARN,
		       "spans interleave on a thread, so a start does not tell which one it works "
		       "for: not labelling its samples by starts any more "
		       "(SPANPROF_ACTIVE_SPAN=start would)");
}

void sp_interleave_look(const struct sp_span_record *gone)
{
	struct sp_thread *t = sp_thread_of(gone->thread);

	/* nothing was started on top of it, as is the rule */
	if (t == NULL || gone->slot + 1U >= depth_of(t))
		return;
	if ((gone->stand_in & SP_INTERLEAVE_SCOPES) != 0 &&
	    !sp_scope_start_activates(SP_ACTIVATION_SCOPE))
		return;
	/* The block may be another thread's by now. */
	if (atomic_load_explicit(&t->spans.frame[gone->slot].span_id, memory_order_relaxed) !=
	    gone->span_id)
		return;
	if (sp_scope_starts_may_interleave() && later_root_is_open(t, gone))
		act(t, gone);
}
