/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the label of a sample from the active span. Runs inside the sampling signal handler or
 * elsewhere.
 */
#include "sampler/span/span.h"

#include <string.h>

#include "sampler/base/counters.h"
#include "sampler/context/foreign_context.h"
#include "sampler/region/ring.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

struct sp_active_span_label_scopes sp_active_span_label_scopes;

SP_SIGSAFE void sp_active_span_label_of(enum sp_span_active what, const struct sp_span_record *r,
					struct sp_span_label *out)
{
	const struct sp_active_span_label_scopes *scopes = &sp_active_span_label_scopes;
	bool root = scopes->id == SP_SCOPE_ROOT;

	memset(out, 0, sizeof(*out));
	out->what = what;
	if (what == SP_SPAN_NONE || what == SP_SPAN_INTERLEAVED || what == SP_SPAN_FORGOTTEN ||
	    (what == SP_SPAN_ROOT_ALONE && scopes->id == SP_SCOPE_ALL))
		return;
	if (scopes->id != SP_SCOPE_NONE)
		out->span_id = root ? r->root_id : r->span_id;
	if (scopes->name != SP_SCOPE_NONE)
		out->name_id = scopes->name == SP_SCOPE_ROOT ? r->root_name_id : r->name_id;
	if (scopes->trace_id)
		memcpy(out->trace_id, r->trace, sizeof(out->trace_id));
	out->ref = root ? r->root_ref : r->ref;
	/* A manual label has no reference. */
	if (scopes->root && r->root_ref != 0) {
		out->root_ref = r->root_ref;
		out->root_id = r->root_id;
	}
}

SP_SIGSAFE void sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out)
{
	struct sp_span_record r;

	sp_active_span_label_of(sp_span_stack_peek(s, &r), &r, out);
}

SP_SIGSAFE void sp_active_span_label_foreign(const struct sp_thread *t, struct sp_span_label *out)
{
	const struct sp_active_span_label_scopes *scopes = &sp_active_span_label_scopes;
	struct sp_foreign_ids ids;

	if (!sp_span_stack_bare(&t->spans) || !sp_foreign_context_read(&t->context.record, &ids))
		return;
	if (scopes->id == SP_SCOPE_ROOT && ids.root_id != 0)
		out->span_id = ids.root_id;
	else if (scopes->id != SP_SCOPE_NONE)
		out->span_id = ids.span_id;
	if (scopes->trace_id)
		memcpy(out->trace_id, ids.trace_id, sizeof(out->trace_id));
}

SP_SIGSAFE void sp_span_announce_end(uint64_t span_id)
{
	if (sp_ring_put(&sp_channel_now()->ring, SP_RECORD_SPAN_ENDED, &span_id, sizeof(span_id)) !=
	    0)
		sp_count(SP_COUNT_DROP_SPAN_ENDS);
}
