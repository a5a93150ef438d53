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
#include "sampler/span/manual_label.h"
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
	struct sp_span_entry active;

	take_root(r, r->span_id, 0, r->name_id);
	if (s->has_parent) {
		if (sp_span_table_by_id(id_word(s->parent_id), &parent))
			take_root(r, parent.root_id, parent.root_ref, sp_span_root_name(&parent));
	} else if (t != NULL && sp_span_stack_peek(&t->spans, &active)) {
		/* A manual label is not the root of a span. */
		if (!sp_manual_label_is(active.token)) {
			if (memcmp(active.trace_id, r->trace, sizeof(r->trace)) == 0)
				take_root(r, active.root_id, active.root_ref, active.root_name_id);
		} else if (sp_span_table_by_id(sp_manual_label_enclosing(&t->spans), &parent) &&
			   memcmp(parent.trace, r->trace, sizeof(r->trace)) == 0)
			take_root(r, parent.root_id, parent.root_ref, sp_span_root_name(&parent));
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

static inline struct sp_span_entry entry_of(const struct sp_span_record *r, uint32_t root_name_id,
					    uint64_t token)
{
	struct sp_span_entry e = {
		.span_id = r->span_id,
		.root_id = r->root_id,
		.name_id = r->name_id,
		.root_name_id = root_name_id,
		.token = token,
		.ref = r->ref,
		.root_ref = r->root_ref,
	};

	memcpy(e.trace_id, r->trace, sizeof(e.trace_id));
	return e;
}

void sp_span_entry_of(const struct sp_span_record *r, uint64_t token, struct sp_span_entry *e)
{
	*e = entry_of(r, sp_span_root_name(r), token);
}

/*
 * Finds a place for the span on the calling thread's stack. Without one the span is not labelled.
 */
static bool place(struct sp_thread *t, struct sp_span_record *r)
{
	if (sp_active_span_interleaved(t, r->stand_in)) {
		sp_count(SP_COUNT_SPANS_INTERLEAVED);
		return false;
	}
	if (t == NULL) {
		sp_thread_count_missing();
		return false;
	}
	r->thread = (uint16_t)t->index;
	r->slot = (uint8_t)sp_span_stack_room(&t->spans);
	return true;
}

/* The place and the root's name are those that were found just before. */
static void activate(struct sp_thread *t, const struct sp_span_record *r, uint64_t token)
{
	struct sp_span_entry e = entry_of(r, r->root_name_id, token);

	sp_span_stack_put(&t->spans, r->slot, &e);
}

/*
 * An ended span labels nothing any more. Where another thread has it attached, the frame stays
 * until the detach.
 */
static void deactivate(const struct sp_span_record *r)
{
	struct sp_thread *own = sp_thread_own;
	struct sp_thread *t = r->thread != SP_SPAN_NO_THREAD ? sp_thread_of(r->thread) : NULL;

	if (t != NULL && t != own && sp_span_stack_strike(&t->spans, r->slot, r->span_id))
		sp_thread_labels_strike(t->index);
	if (own != NULL)
		sp_span_stack_name_root(&own->spans, r->span_id, r->root_name_id);
	/*
	 * The span may be there twice: it was started before the process first attached anything,
	 * and then attached.
	 */
	while (own != NULL && !sp_span_stack_empty(&own->spans) &&
	       sp_span_stack_pop(&own->spans, r->span_id))
		continue;
}

/*
 * The same for a span that did not fit on the stack. Once only, because such spans are just
 * counted.
 */
static void leave_rest(const struct sp_span_record *r)
{
	struct sp_thread *t = r->thread != SP_SPAN_NO_THREAD && sp_span_slot_is_deep(r->slot)
				      ? sp_thread_of(r->thread)
				      : NULL;

	if (t != NULL)
		sp_span_stack_leave(&t->spans, r->slot, t == sp_thread_own);
}

/* noinline: most spans are on top of the stack of the thread that ends them. */
static __attribute__((noinline)) void leave_stacks(const struct sp_span_record *r, bool seen)
{
	if (seen)
		sp_active_span_ended(r);
	deactivate(r);
	leave_rest(r);
}

/*
 * seen: the host ends the span now. Otherwise it ended unseen at some time before, which proves
 * nothing about interleaving.
 */
static inline bool finish(const struct sp_span_record *r, bool seen)
{
	struct sp_thread *own = sp_thread_own;

	if (!sp_span_table_close(r))
		return false;
	/* Nothing was started on top of such a span, which is what would prove interleaving. */
	if (own == NULL || r->thread != own->index ||
	    !sp_span_stack_pop_top(&own->spans, r->slot, r->span_id)) {
		leave_stacks(r, seen);
	} else {
		sp_span_stack_name_root(&own->spans, r->span_id, r->root_name_id);
	}
	sp_shown_label_update(own);
	sp_count_span_ended(own_number());
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
		(void)finish(&other, false);
	return false;
}

bool sp_span_started(const struct sp_span_start *s)
{
	struct sp_span_record r;
	struct sp_thread *t = sp_thread_own != NULL ? sp_thread_own : sp_thread_self();
	bool activates;
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
	r.slot = 0;
	r.ref = 0;
	find_root(s, t, &r);
	r.thread = SP_SPAN_NO_THREAD;
	r.stand_in = sp_active_span_stand_in(s->how, s->sdk);
	activates = sp_active_span_start_activates(s->how) && place(t, &r);
	/*
	 * Without a record the span could not be found at its end, and its label would stay for
	 * ever, which is wrong.
	 */
	if (!record(&r)) {
		sp_count(SP_COUNT_SPAN_TABLE_FULL);
		return false;
	}
	sp_count_span_started(own_number(), s->sdk);
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_times_begin(&r);
	if (activates) {
		activate(t, &r, sp_active_span_start_token(s->how));
		sp_shown_label_update(t);
	}
	return true;
}

bool sp_span_of(const void *handle, struct sp_span_record *out)
{
	return sp_span_table_by_handle((uint64_t)(uintptr_t)handle, out);
}

void sp_span_unlabel(const struct sp_span_record *r)
{
	/* Of the thread on whose stack it is; the calling one takes notes whenever its label changes. */
	if (sp_shown_label_notes_waits && r->thread != SP_SPAN_NO_THREAD)
		sp_shown_label_note_wait(r->thread);
	/* Now, while it is still known whether spans interleave. */
	sp_active_span_ended(r);
	deactivate(r);
	/*
	 * The span still counts as deeper than the stack, but its root must not be shown any more.
	 */
	if (sp_span_slot_is_deep(r->slot) && sp_span_is_root(r) && sp_thread_own != NULL)
		sp_span_stack_hide_rest(&sp_thread_own->spans);
	sp_shown_label_update(sp_thread_own);
}

bool sp_span_ended(const void *handle)
{
	struct sp_span_record r;

	return sp_span_of(handle, &r) && finish(&r, true);
}

bool sp_span_close(const struct sp_span_record *r)
{
	return finish(r, true);
}

bool sp_span_aged(const struct sp_span_record *r)
{
	struct sp_span_record gone;

	if (!sp_span_table_remove(r->span_id, &gone))
		return false;
	deactivate(&gone);
	leave_rest(&gone);
	sp_shown_label_update(sp_thread_own);
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

static uint32_t ref_of(uint64_t span_id)
{
	struct sp_span_record r;

	return sp_span_table_by_id(span_id, &r) ? r.ref : 0;
}

void sp_span_forked(void)
{
	uint64_t ids[SP_SPAN_DEPTH_MAX];
	struct sp_span_stack *s;
	uint32_t depth;
	unsigned n;

	sp_span_age_forked();
	if (sp_thread_own == NULL) {
		sp_span_table_forked(SP_SPAN_NO_THREAD - 1U, NULL, 0);
		sp_span_times_forked();
		return;
	}
	s = &sp_thread_own->spans;
	n = sp_span_stack_ids(s, ids);
	sp_span_table_forked(sp_thread_own->index, ids, n);
	depth = atomic_load_explicit(&s->depth, memory_order_relaxed);
	for (uint32_t i = 0; i < depth; i++) {
		struct sp_span_frame *f = &s->frame[i];

		f->ref = ref_of(atomic_load_explicit(&f->span_id, memory_order_relaxed));
		f->root_ref = ref_of(f->root_id);
	}
	s->rest.root_ref = ref_of(s->rest.root_id);
	sp_span_times_forked();
}
