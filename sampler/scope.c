/* SPDX-License-Identifier: Apache-2.0 */
/* Attach and detach of spans on the calling thread. APP context. */
#include "sampler/scope.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/counters.h"
#include "sampler/manual_label.h"
#include "sampler/span.h"
#include "sampler/span_cpu.h"
#include "sampler/span_stack.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

/*
 * That many in a row that did not fit are no deep nesting: whoever nests so deeply comes back. A tree
 * of calls with so many leaves below the last frame loses its scopes, and has its starts instead.
 */
#define OVERFLOWS_MAX 1024U

enum sp_active_span sp_scope_source;

void sp_scope_set_source(enum sp_active_span which)
{
	sp_scope_source = which;
}

void sp_scope_forget(void)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL || sp_span_stack_empty(&t->spans))
		return;
	sp_span_cpu_change(t);
	sp_span_stack_pop_attached(&t->spans, SP_MANUAL_LABEL_TOKEN);
	t->scope_overflows = 0;
}

/* One more that did not fit. */
static bool pile_up(struct sp_thread *t)
{
	if (++t->scope_overflows < OVERFLOWS_MAX)
		return false;
	sp_count_add(SP_COUNT_SPAN_STACK_FULL, OVERFLOWS_MAX);
	sp_scope_forget();
	return true;
}

bool sp_scope_attached(uint64_t token, const uint8_t *span_id)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_entry e = {.span_id = SP_SPAN_BLANK, .token = token};
	struct sp_span_record r;
	uint64_t id = 0;

	if (sp_scope_source == SP_ACTIVE_START)
		return true;
	if (!sp_scope_used())
		atomic_store_explicit(&sp_span_stack_scoped, true, memory_order_relaxed);
	if (t == NULL) {
		sp_count(SP_COUNT_SPAN_NO_THREAD);
		return true;
	}
	sp_span_cpu_change(t);
	if (span_id != NULL)
		memcpy(&id, span_id, sizeof(id));
	if (sp_span_table_by_id(id, &r))
		sp_span_entry_of(&r, token, &e);
	return !sp_span_slot_is_deep(sp_span_stack_push(&t->spans, &e)) || !pile_up(t);
}

void sp_scope_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	sp_span_cpu_change(t);
	if (sp_span_stack_pop_token(&t->spans, token, through))
		t->scope_overflows = 0;
}
