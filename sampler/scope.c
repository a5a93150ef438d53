/* SPDX-License-Identifier: Apache-2.0 */
/* Attach and detach of spans on the calling thread. APP context. */
#include "sampler/scope.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/counters.h"
#include "sampler/span.h"
#include "sampler/span_cpu.h"
#include "sampler/span_stack.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"
#include "sampler/turns.h"

static enum sp_active_span source;

void sp_scope_set_source(enum sp_active_span which)
{
	source = which;
}

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static bool used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

bool sp_scope_start_activates(enum sp_activation how)
{
	switch (source) {
	case SP_ACTIVE_START:
		return true;
	case SP_ACTIVE_SCOPE:
		return how == SP_ACTIVATION_START;
	case SP_ACTIVE_AUTO:
		break;
	}
	return how != SP_ACTIVATION_SCOPE || !used();
}

bool sp_scope_starts_may_interleave(void)
{
	return source == SP_ACTIVE_AUTO;
}

uint64_t sp_scope_start_token(enum sp_activation how)
{
	return how == SP_ACTIVATION_SCOPE && source == SP_ACTIVE_AUTO ? SP_SPAN_YIELDS
								      : SP_SPAN_STARTED;
}

void sp_scope_attached(uint64_t token, const uint8_t *span_id)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_entry e = {.span_id = SP_SPAN_BLANK, .token = token};
	struct sp_span_record r;
	uint64_t id = 0;

	if (source == SP_ACTIVE_START)
		return;
	if (!used())
		atomic_store_explicit(&sp_span_stack_scoped, true, memory_order_relaxed);
	if (t == NULL) {
		sp_count(SP_COUNT_SPAN_NO_THREAD);
		return;
	}
	sp_span_cpu_change(t);
	sp_turns_change(t);
	if (span_id != NULL)
		memcpy(&id, span_id, sizeof(id));
	if (sp_span_table_by_id(id, &r))
		sp_span_entry_of(&r, token, &e);
	if (sp_span_stack_push(&t->spans, &e) < 0)
		sp_count(SP_COUNT_SPAN_STACK_FULL);
}

void sp_scope_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	sp_span_cpu_change(t);
	sp_turns_change(t);
	(void)sp_span_stack_pop_token(&t->spans, token, through);
}
