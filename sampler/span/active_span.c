/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach and detach of spans on the calling thread, and the proof that spans interleave
 * (active_span.h). Context: APP.
 */
#include "sampler/span/active_span.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/span/manual_label.h"
#include "sampler/span/shown_label.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"

/*
 * So many scopes in a row that did not fit are no deep nesting, where scopes would also be detached
 * again. They are scopes that are never detached. All of the thread's scopes are then forgotten,
 * and its spans label from start to end. A call tree with so many leaves below the last frame is
 * treated the same.
 */
#define OVERFLOWS_MAX 1024U

enum sp_active_span sp_active_span_source;

void sp_active_span_set_source(enum sp_active_span which)
{
	sp_active_span_source = which;
}

void sp_active_span_forget_scopes(void)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL || sp_span_stack_empty(&t->spans))
		return;
	sp_span_stack_pop_attached(&t->spans, SP_MANUAL_LABEL_TOKEN);
	t->scope_overflows = 0;
	sp_shown_label_update(t);
}

/*
 * One more scope did not fit. True if they were too many and all scopes of the thread were
 * forgotten.
 */
static bool pile_up(struct sp_thread *t)
{
	if (++t->scope_overflows < OVERFLOWS_MAX)
		return false;
	sp_count_add(SP_COUNT_SPAN_STACK_FULL, OVERFLOWS_MAX);
	sp_active_span_forget_scopes();
	return true;
}

bool sp_active_span_attached(uint64_t token, const uint8_t *span_id)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_entry e = {.span_id = SP_SPAN_BLANK, .token = token};
	struct sp_span_record r;
	uint64_t id = 0;
	bool deep;

	if (sp_active_span_source == SP_ACTIVE_START || sp_active_span_source == SP_ACTIVE_CONTEXT)
		return true;
	if (!sp_active_span_scopes_used())
		atomic_store_explicit(&sp_span_stack_scoped, true, memory_order_relaxed);
	if (t == NULL) {
		sp_thread_count_missing();
		return true;
	}
	if (sp_span_token_silent(token)) {
		/* what is left of the time before takes room only */
		if (!sp_span_stack_empty(&t->spans))
			sp_span_stack_pop_silent(&t->spans);
		return true;
	}
	if (span_id != NULL)
		memcpy(&id, span_id, sizeof(id));
	if (sp_span_table_by_id(id, &r))
		sp_span_entry_of(&r, token, &e);
	deep = sp_span_slot_is_deep(sp_span_stack_push(&t->spans, &e));
	sp_shown_label_update(t);
	return !deep || !pile_up(t);
}

void sp_active_span_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	if (sp_span_stack_pop_token(&t->spans, token, through))
		t->scope_overflows = 0;
	sp_shown_label_update(t);
}

static bool is_open(uint64_t span_id)
{
	struct sp_span_record r;

	return span_id != 0 && sp_span_table_by_id(span_id, &r);
}

bool sp_active_span_agrees(uint32_t storage, uint64_t says)
{
	struct sp_thread *t = sp_thread_own;
	uint64_t token;
	uint64_t attached;

	if (sp_active_span_source == SP_ACTIVE_START || sp_active_span_source == SP_ACTIVE_CONTEXT)
		return true;
	/* without a stack, or beyond its end, we know nothing that could be wrong */
	if (t == NULL || sp_span_overflow_count(&t->spans.rest) != 0)
		return true;
	attached = sp_span_stack_attached(&t->spans, storage);
	/* A wrapper's start attaches too, and its frame is not the storage's. */
	if (says == attached || (says != 0 && says == sp_span_stack_top(&t->spans, &token)))
		return true;
	return !is_open(attached) && !is_open(says);
}

void sp_active_span_silence(uint32_t storage)
{
	const struct sp_thread_labels_part *shown = sp_thread_labels_now();
	uint32_t n = shown != NULL ? atomic_load_explicit(&shown->used, memory_order_relaxed) : 0;

	atomic_fetch_or_explicit(&sp_span_stack_silent, UINT32_C(1) << storage,
				 memory_order_relaxed);
	/* What other threads have shown to the exporter is no longer so. */
	for (uint32_t i = 0; i < n; i++)
		sp_thread_labels_strike(i);
	sp_shown_label_update(sp_thread_own);
}

/*
 * Whether the frame in that slot is there because a span of the same SDK was started; *out is its
 * record then.
 */
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

	atomic_fetch_or_explicit(&t->interleaved, sp_active_span_sdk_bit(gone->stand_in),
				 memory_order_relaxed);
	for (uint32_t i = 0; i < depth_of(t); i++) {
		if (started_there(t, i, gone, &r))
			(void)sp_span_stack_strike(&t->spans, i, r.span_id);
	}
	sp_log_limited(&site, SP_LOG_WARN,
		       "spans interleave on a thread, so their starts do not tell which one it "
		       "works for: its samples get no span any more "
		       "(unless SPANPROF_ACTIVE_SPAN=start is set)");
}

void sp_active_span_prove(const struct sp_span_record *gone)
{
	struct sp_thread *t = sp_thread_of(gone->thread);

	/* The usual case: nothing was started on top of it. */
	if (t == NULL || gone->slot + 1U >= depth_of(t))
		return;
	if ((gone->stand_in & SP_ACTIVE_SPAN_SCOPES) != 0 &&
	    !sp_active_span_start_activates(SP_ACTIVATION_SCOPE))
		return;
	/* The block may be another thread's by now. */
	if (atomic_load_explicit(&t->spans.frame[gone->slot].span_id, memory_order_relaxed) !=
	    gone->span_id)
		return;
	if (sp_active_span_starts_may_interleave() && later_root_is_open(t, gone))
		act(t, gone);
}
