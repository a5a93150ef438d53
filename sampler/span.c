/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of spans: names, roots, the table and the owning thread's stack. APP context. */
#include "sampler/span.h"

#include <string.h>
#include <time.h>

#include "sampler/compiler.h"
#include "sampler/counters.h"
#include "sampler/label.h"
#include "sampler/scope.h"
#include "sampler/span_stack.h"
#include "sampler/thread.h"

static uint64_t id_word(const uint8_t id[8])
{
	uint64_t w;

	memcpy(&w, id, sizeof(w));
	return w;
}

static uint64_t realtime_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The first recorded span without a recorded local parent is the root of what follows. */
static void find_root(const struct sp_span_start *s, const struct sp_thread *t,
		      struct sp_span_record *r)
{
	struct sp_span_record parent;
	struct sp_span_entry active;

	r->root_id = r->span_id;
	r->root_name_id = r->name_id;
	if (s->has_parent) {
		if (sp_span_table_by_id(id_word(s->parent_id), &parent)) {
			r->root_id = parent.root_id;
			r->root_name_id = parent.root_name_id;
		}
	} else if (t != NULL && sp_span_stack_peek(&t->spans, &active)) {
		r->root_id = active.root_id;
		r->root_name_id = active.root_name_id;
	}
}

/* Puts the span on the calling thread's stack; without a place there it goes unlabelled. */
static void activate(struct sp_thread *t, struct sp_span_record *r)
{
	struct sp_span_entry e = {
		.span_id = r->span_id,
		.root_id = r->root_id,
		.name_id = r->name_id,
		.root_name_id = r->root_name_id,
	};
	int slot;

	if (t == NULL) {
		sp_count(SP_COUNT_SPAN_NO_THREAD);
		return;
	}
	memcpy(e.trace_id, r->trace, sizeof(e.trace_id));
	slot = sp_span_stack_push(&t->spans, &e);
	if (slot < 0) {
		sp_count(SP_COUNT_SPAN_STACK_FULL);
		return;
	}
	r->thread = t->index;
	r->slot = (uint32_t)slot;
}

/* An ended span labels nothing any more; where another thread has it attached, until its detach. */
static void deactivate(const struct sp_span_record *r)
{
	struct sp_thread *own = sp_thread_own;
	struct sp_thread *t = r->thread != SP_SPAN_NO_THREAD ? sp_thread_at(r->thread) : NULL;

	if (t != NULL && t != own)
		(void)sp_span_stack_strike(&t->spans, r->slot, r->span_id);
	/* it may be there twice: started before the process ever attached anything, then attached */
	while (own != NULL && sp_span_stack_pop(&own->spans, r->span_id))
		continue;
}

bool sp_span_started(const struct sp_span_start *s)
{
	struct sp_span_record r;
	struct sp_span_record other;
	struct sp_thread *t = sp_thread_self();

	memset(&r, 0, sizeof(r));
	r.span_id = id_word(s->span_id);
	r.handle = (uint64_t)(uintptr_t)s->handle;
	memcpy(r.trace, s->trace_id, sizeof(r.trace));
	if (r.span_id == 0)
		return false;
	/* One span once, however many calls or objects stand for it; the first object ends it. */
	if (sp_span_table_by_id(r.span_id, &other))
		return other.handle == r.handle;
	/* The SDK reuses an object only after its span has gone: we missed that end. */
	(void)sp_span_ended(s->handle);
	sp_count(SP_COUNT_SPANS_STARTED);
	r.start_ns = realtime_ns();
	r.name_id = sp_label_intern(s->name, s->name_len);
	find_root(s, t, &r);
	r.thread = SP_SPAN_NO_THREAD;
	if (sp_scope_start_activates(s->how))
		activate(t, &r);
	if (sp_span_table_add(&r) == 0)
		return true;
	/* Nobody could find it at its end, and a label that stays would be wrong. */
	deactivate(&r);
	sp_count(SP_COUNT_SPAN_TABLE_FULL);
	return false;
}

bool sp_span_of(const void *handle, struct sp_span_record *out)
{
	return sp_span_table_by_handle((uint64_t)(uintptr_t)handle, out);
}

bool sp_span_ended(const void *handle)
{
	struct sp_span_record r;
	struct sp_span_record gone;

	if (!sp_span_of(handle, &r) || !sp_span_table_remove(r.span_id, &gone))
		return false;
	deactivate(&gone);
	sp_count(SP_COUNT_SPANS_ENDED);
	return true;
}
