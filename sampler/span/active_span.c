/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, attaches and detaches on the calling thread (active_span.h). Context: APP. */
#include "sampler/span/active_span.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/span/shown_label.h"
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
	sp_span_stack_pop_scopes(&t->spans, false);
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
	uint64_t id = 0;
	bool fits;

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
			sp_span_stack_pop_scopes(&t->spans, true);
		return true;
	}
	if (span_id != NULL)
		memcpy(&id, span_id, sizeof(id));
	fits = sp_span_stack_push(&t->spans, id != 0 ? id : SP_SPAN_BLANK, token);
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	return fits || !pile_up(t);
}

void sp_active_span_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	if (sp_span_stack_pop(&t->spans, token, through))
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
	struct sp_span_record active;
	uint64_t attached;

	if (sp_active_span_source == SP_ACTIVE_START || sp_active_span_source == SP_ACTIVE_CONTEXT)
		return true;
	/* without a stack, or beyond its end, we know nothing that could be wrong */
	if (t == NULL || sp_span_stack_is_beyond(&t->spans))
		return true;
	attached = sp_span_stack_attached(&t->spans, storage);
	/* A wrapper's start attaches too, and its frame is not the storage's. */
	if (says == attached ||
	    (says != 0 && sp_span_stack_peek(&t->spans, &active) == SP_SPAN_KNOWN &&
	     says == active.span_id))
		return true;
	return !is_open(attached) && !is_open(says);
}

/* noinline: most starts without a given parent begin a trace. */
static __attribute__((noinline)) bool is_in_trace(const struct sp_thread *t,
						  const uint8_t *trace_id)
{
	struct sp_span_record r;
	enum sp_span_active what = sp_span_stack_peek_span(&t->spans, &r);

	return (what == SP_SPAN_KNOWN || what == SP_SPAN_ROOT_ALONE) &&
	       memcmp(r.trace, trace_id, sizeof(r.trace)) == 0;
}

bool sp_active_span_tells_parent(const uint8_t *trace_id)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && !sp_span_stack_is_beyond(&t->spans) &&
	       (sp_active_span_source == SP_ACTIVE_AUTO ||
		sp_active_span_source == SP_ACTIVE_SCOPE) &&
	       (trace_id == NULL || is_in_trace(t, trace_id));
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

/* noinline: most roots are started while no other is open on the thread. */
static __attribute__((noinline)) void look_for_interleaving(const struct sp_thread *t)
{
	static _Atomic bool told;
	struct sp_span_record r;

	if (sp_span_stack_peek(&t->spans, &r) == SP_SPAN_INTERLEAVED &&
	    !atomic_exchange_explicit(&told, true, memory_order_relaxed))
		sp_log(SP_LOG_WARN,
		       "spans interleave on a thread, so their starts do not tell which one it "
		       "works for: its samples get no span while two root spans are open there "
		       "(unless SPANPROF_ACTIVE_SPAN=start is set)");
}

void sp_active_span_started(struct sp_thread *t, const struct sp_span_record *r,
			    enum sp_activation how)
{
	uint64_t token = sp_active_span_start_token(how);
	bool first = sp_span_stack_empty(&t->spans);

	sp_span_stack_put(&t->spans, r->span_id, token, r->beyond);
	sp_span_stack_meet_root(&t->spans);
	if (!first && r->root_id == r->span_id && sp_span_token_stands_in(token))
		look_for_interleaving(t);
	sp_shown_label_update(t);
}
