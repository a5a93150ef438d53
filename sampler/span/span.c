/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of spans. A start finds the local root, interns the name, enters the span into the
 * span table and, if starting makes it active, puts it on the thread's stack. An end may come on
 * any thread, more than once, or never; the entry in the table decides, and only the caller who
 * removes it does the rest. Context: APP.
 */
#include "sampler/span/span.h"

#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/names.h"
#include "sampler/span/active_span.h"
#include "sampler/span/shown_label.h"
#include "sampler/span/span_age.h"
#include "sampler/span/span_times.h"
#include "sampler/thread/thread.h"

static uint64_t id_word(const uint8_t id[8])
{
	uint64_t w;

	memcpy(&w, id, sizeof(w));
	return w;
}

static uint32_t own_number(void)
{
	return sp_thread_own != NULL ? sp_thread_own->index : SP_SPAN_COUNTS_NO_THREAD;
}

static void take_root(struct sp_span_record *r, uint64_t root_id, uint32_t root_ref,
		      uint32_t root_name_id)
{
	r->root_id = root_id;
	r->root_ref = root_ref;
	r->root_name_id = root_name_id;
}

/*
 * The first recorded span without a recorded local parent is the root of what follows. Where nobody says
 * what the parent is, it is the span that is active on the thread, if they are of one trace: a child is of
 * the trace of its parent, and a root begins a new one.
 */
static void find_root(const struct sp_span_start *s, const struct sp_thread *t,
		      struct sp_span_record *r)
{
	struct sp_span_record parent;

	take_root(r, r->span_id, 0, r->name_id);
	if (s->has_parent) {
		if (sp_span_table_by_id(id_word(s->parent_id), &parent))
			take_root(r, parent.root_id, parent.root_ref, sp_span_root_name(&parent));
		return;
	}
	if (t == NULL)
		return;
	/*
	 * A manual label is not the root of a span. Nor is the active span if the new one is of another trace:
	 * a child has its parent's.
	 */
	switch (sp_span_stack_peek_span(&t->spans, &parent)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_ROOT_ALONE:
		if (memcmp(parent.trace, r->trace, sizeof(r->trace)) == 0)
			take_root(r, parent.root_id, parent.root_ref, parent.root_name_id);
		break;
	case SP_SPAN_NONE:
	case SP_SPAN_LABEL:
	case SP_SPAN_INTERLEAVED:
		break;
	}
}

uint32_t sp_span_root_name(const struct sp_span_record *r)
{
	struct sp_span_names root;

	/* A root has it in its own record. */
	if (r->root_id == r->span_id)
		return r->root_name_id;
	return sp_span_table_names(r->root_ref, r->root_id, &root) ? root.name_id : r->root_name_id;
}

/* On another thread the exporter, and the thread itself, have to look again at what is active there. */
static void strike(const struct sp_span_record *r)
{
	struct sp_thread *t = r->thread != SP_SPAN_NO_THREAD ? sp_thread_of(r->thread) : NULL;

	/* The block may be another thread's by now. */
	if (t == NULL || !(r->beyond != 0 || sp_span_stack_has(&t->spans, r->span_id)))
		return;
	sp_span_stack_strike(&t->spans);
	sp_thread_labels_strike(t->index);
}

static inline bool leave(const struct sp_span_record *r)
{
	struct sp_thread *own = sp_thread_own;
	bool here = own != NULL && r->thread == own->index;

	/* Later nobody would know whose wait that was. */
	if (sp_shown_label_notes_waits) {
		if (own != NULL)
			sp_shown_label_note_wait(own->index);
		if (!here && r->thread != SP_SPAN_NO_THREAD)
			sp_shown_label_note_wait(r->thread);
	}
	/* Before and after: whoever finds it gone finds another version than whoever found it. */
	if (here)
		sp_span_stack_change(&own->spans);
	else
		strike(r);
	if (!sp_span_table_close(r))
		return false;
	if (here)
		sp_span_stack_ended(&own->spans, r);
	else
		strike(r);
	if (own != NULL)
		sp_span_stack_name_root(&own->spans, r->span_id, r->root_name_id);
	sp_shown_label_update(own);
	return true;
}

bool sp_span_close(const struct sp_span_record *r)
{
	if (!leave(r))
		return false;
	sp_count_span_ended(own_number());
	return true;
}

static bool end(const struct sp_span_record *r)
{
	if (!sp_span_close(r))
		return false;
	sp_span_table_release(r);
	return true;
}

/*
 * Enters the span into the table. If there is no room, it takes the place of a span that has been open
 * for SP_SPAN_AGE_CROWDED_NS or longer.
 */
static bool record(struct sp_span_record *r)
{
	return sp_span_table_add(r) == 0 ||
	       (sp_span_age_make_room(r, false) && sp_span_table_add(r) == 0) ||
	       (sp_span_age_make_room(r, true) && sp_span_table_add(r) == 0);
}

/*
 * noinline, as this is rare: the table may have that id or that object. A span counts once, however
 * many calls or objects stand for it, and the first object ends it. True if it counts already;
 * *same tells whether by this object.
 */
static __attribute__((noinline)) bool is_known(const struct sp_span_record *r, bool *same)
{
	struct sp_span_record other;

	if (sp_span_table_by_id(r->span_id, &other)) {
		*same = other.handle == r->handle;
		return true;
	}
	/* The SDK reuses an object only after its span has ended, so that end was missed. */
	if (sp_span_table_by_handle(r->handle, &other))
		(void)end(&other);
	return false;
}

bool sp_span_started(const struct sp_span_start *s)
{
	struct sp_span_record r;
	struct sp_thread *t = sp_thread_own != NULL ? sp_thread_own : sp_thread_self();
	bool same;

	r.span_id = id_word(s->span_id);
	r.handle = (uint64_t)(uintptr_t)s->handle | (s->by_id ? SP_SPAN_BY_ID : 0);
	if (r.span_id == 0)
		return false;
	if (sp_span_table_may_have(r.span_id, r.handle) && is_known(&r, &same))
		return same;
	memcpy(r.trace, s->trace_id, sizeof(r.trace));
	r.start_ns = sp_span_age_start_ns();
	r.name_id = sp_names_intern(s->name, s->name_len);
	r.sdk = s->sdk;
	r.beyond = 0;
	r.ref = 0;
	find_root(s, t, &r);
	r.thread = SP_SPAN_NO_THREAD;
	if (sp_active_span_start_activates(s->how)) {
		if (t == NULL) {
			sp_thread_count_missing();
		} else {
			r.thread = (uint16_t)t->index;
			r.beyond = sp_span_stack_place(&t->spans);
		}
	}
	/* Without a record the span has no label. */
	if (!record(&r)) {
		sp_count(SP_COUNT_SPAN_TABLE_FULL);
		return false;
	}
	sp_count_span_started(own_number(), s->sdk);
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_times_begin(&r);
	if (r.thread != SP_SPAN_NO_THREAD)
		sp_active_span_started(t, &r, s->how);
	return true;
}

bool sp_span_of(const void *handle, struct sp_span_record *out)
{
	return sp_span_table_by_handle((uint64_t)(uintptr_t)handle, out);
}

bool sp_span_ended(const void *handle)
{
	struct sp_span_record r;

	return sp_span_of(handle, &r) && end(&r);
}

bool sp_span_aged(const struct sp_span_record *r)
{
	if (!leave(r))
		return false;
	sp_span_table_release(r);
	sp_count(SP_COUNT_SPANS_AGED);
	return true;
}

void sp_span_rename(const struct sp_span_record *r, const char *name, size_t len)
{
	sp_span_table_rename(r, sp_names_intern(name, len));
}

bool sp_span_renamed(const void *handle, const char *name, size_t len)
{
	struct sp_span_record r;

	if (!sp_span_of(handle, &r))
		return false;
	sp_span_rename(&r, name, len);
	return true;
}

void sp_span_forked(void)
{
	uint64_t ids[SP_SPAN_DEPTH_MAX];
	unsigned n;

	sp_span_age_forked();
	if (sp_thread_own == NULL) {
		sp_span_table_forked(SP_SPAN_NO_THREAD - 1U, NULL, 0);
	} else {
		n = sp_span_stack_ids(&sp_thread_own->spans, ids);
		sp_span_table_forked(sp_thread_own->index, ids, n);
	}
	sp_span_times_forked();
}
