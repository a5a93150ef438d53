/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the label of a sample from the active span. Runs inside the sampling signal handler or
 * elsewhere.
 */
#include "sampler/span/active_span.h"

#include <string.h>

#include "sampler/context/foreign_context.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_active_span_label_scopes sp_active_span_label_scopes;

SP_SIGSAFE uint32_t sp_active_span_label_of(const struct sp_span_entry *e,
					    struct sp_span_label *out)
{
	const struct sp_active_span_label_scopes *scopes = &sp_active_span_label_scopes;
	bool root = scopes->id == SP_SCOPE_ROOT;

	memset(out, 0, sizeof(*out));
	/*
	 * A span below the last frame of the stack is known only by its root. With the scope "all"
	 * the label would name a wrong span.
	 */
	if (e->span_id == SP_SPAN_DEEPER && scopes->id == SP_SCOPE_ALL)
		return 0;
	if (scopes->id != SP_SCOPE_NONE)
		out->span_id = root ? e->root_id : e->span_id;
	if (scopes->name != SP_SCOPE_NONE)
		out->name_id = scopes->name == SP_SCOPE_ROOT ? e->root_name_id : e->name_id;
	if (scopes->trace_id)
		memcpy(out->trace_id, e->trace_id, sizeof(out->trace_id));
	return root ? e->root_ref : e->ref;
}

SP_SIGSAFE uint32_t sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out)
{
	struct sp_span_entry e;

	if (sp_span_stack_peek(s, &e))
		return sp_active_span_label_of(&e, out);
	memset(out, 0, sizeof(*out));
	return 0;
}

SP_SIGSAFE void sp_active_span_label_foreign(const struct sp_thread *t, struct sp_span_label *out)
{
	const struct sp_active_span_label_scopes *scopes = &sp_active_span_label_scopes;
	struct sp_foreign_ids ids;

	if (!sp_span_stack_empty(&t->spans) || sp_span_overflow_count(&t->spans.rest) != 0 ||
	    !sp_foreign_context_read(&t->context.record, &ids))
		return;
	if (scopes->id == SP_SCOPE_ROOT && ids.root_id != 0)
		out->span_id = ids.root_id;
	else if (scopes->id != SP_SCOPE_NONE)
		out->span_id = ids.span_id;
	if (scopes->trace_id)
		memcpy(out->trace_id, ids.trace_id, sizeof(out->trace_id));
}
