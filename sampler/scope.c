/* SPDX-License-Identifier: Apache-2.0 */
/* Attach and detach of spans on the calling thread. APP context. */
#include "sampler/scope.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/counters.h"
#include "sampler/span.h"
#include "sampler/span_stack.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static _Atomic bool used;

bool sp_scope_start_activates(enum sp_activation how)
{
	return how != SP_ACTIVATION_SCOPE || !atomic_load_explicit(&used, memory_order_relaxed);
}

void sp_scope_attached(uint64_t token, const uint8_t *span_id)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_entry e = {.span_id = SP_SPAN_BLANK, .token = token};
	struct sp_span_record r;
	uint64_t id = 0;

	if (!atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, true, memory_order_relaxed);
	if (t == NULL) {
		sp_count(SP_COUNT_SPAN_NO_THREAD);
		return;
	}
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

	if (t != NULL)
		(void)sp_span_stack_pop_token(&t->spans, token, through);
}
