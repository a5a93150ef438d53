/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends of spans, and scopes. A start finds the local root, interns the name, enters the
 * span into the span table and, if starting makes it active, puts it on the thread's stack. An end
 * may come on any thread, more than once, or never; only the caller that removes the span's entry
 * from the table does the rest. Attach and detach change the stack of the calling thread. Each of
 * these shows the thread's label to the exporter and to other profilers. Spans that are too old are
 * given up. Manual labels come last. Context: APP; bounded, lock-free.
 */
#include "sampler/span/span.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/thread.h"

bool sp_shown_label_notes_waits;

/*
 * Takes over the span id that the exporter has written for a wait of that thread, which may be
 * another one, and marks that span.
 */
static void note_wait(uint32_t block)
{
	uint64_t id = sp_thread_labels_take_wait(block);
	struct sp_span_record r;

	if (id == 0 || !sp_span_table_by_id(id, &r))
		return;
	sp_span_table_mark_wait(r.ref, id);
	sp_span_values_mark(r.root_ref, r.root_id);
}

void sp_shown_label_put(struct sp_thread *t)
{
	struct sp_thread_label shown = {0};
	struct sp_span_label label;
	const struct sp_thread_labels_owner owner = {
		.block = t->index,
		.tid = atomic_load_explicit(&t->tid, memory_order_relaxed),
		.cpu_ns = atomic_load_explicit(&t->account.since_ns, memory_order_relaxed),
	};

	/*
	 * Reads the span of the last wait before the label changes: after that, the exporter may
	 * overwrite it with the span of another wait.
	 */
	if (sp_shown_label_notes_waits)
		note_wait(t->index);
	sp_active_span_label(&t->spans, &label);
	shown.span_id = label.span_id;
	memcpy(shown.trace, label.trace_id, sizeof(shown.trace));
	shown.root_id = label.root_id;
	shown.name_id = label.name_id;
	/* Without span id and name, a trace id alone is no label. */
	if (label.span_id == 0 && label.name_id == 0)
		shown = (struct sp_thread_label){0};
	/*
	 * If the ring of names is full, the name is not announced. The exporter shows "(other)"
	 * instead, and counts that, until a later label or sample announces the name.
	 */
	(void)sp_names_announce(sp_channel_now(), label.name_id);
	sp_thread_labels_put(&owner, &shown);
}

void sp_shown_label_changed(struct sp_thread *t)
{
	sp_span_times_change(t);
	if (sp_thread_labels_now() != NULL)
		sp_shown_label_put(t);
	sp_thread_context_changed(&t->context, &t->spans);
}

static uint32_t own_number(void)
{
	return sp_thread_own != NULL ? sp_thread_own->index : SP_SPAN_COUNTS_NO_THREAD;
}

/*
 * The local root of a new span: the first recorded span without a recorded local parent is the root
 * of all spans below it. If the start names no parent, the parent is the span that is active on the
 * thread, if both are of one trace: a child is of the trace of its parent, and a root begins a new
 * trace.
 */
struct sp_span_root sp_span_find_root(const struct sp_span_stack *s, uint64_t parent_id,
				      const uint64_t trace[2])
{
	struct sp_span_record parent;

	if (s == NULL) {
		if (sp_span_table_by_id(parent_id, &parent))
			return (struct sp_span_root){parent.root_id, parent.root_ref,
						     sp_span_table_root_name(&parent)};
		return (struct sp_span_root){0};
	}
	/* A manual label is not the root of a span. */
	switch (sp_span_stack_peek_span(s, &parent)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_ROOT_ALONE:
		if (memcmp(parent.trace, trace, sizeof(parent.trace)) == 0)
			return (struct sp_span_root){parent.root_id, parent.root_ref,
						     parent.root_name_id};
		break;
	case SP_SPAN_NONE:
	case SP_SPAN_LABEL:
	case SP_SPAN_INTERLEAVED:
	case SP_SPAN_FORGOTTEN:
		break;
	}
	return (struct sp_span_root){0};
}

/*
 * The span was started, and put on a stack, on another thread. That thread, and the exporter, have
 * to find out again which span is active there.
 */
static __attribute__((noinline)) void strike(const struct sp_span_record *r)
{
	struct sp_thread *t = sp_thread_of(r->thread);

	/* The block may belong to another thread by now. */
	if (t != NULL && sp_span_stack_ended_elsewhere(&t->spans, r))
		sp_thread_labels_strike(t->index);
}

static inline __attribute__((always_inline)) bool leave(const struct sp_span_record *r)
{
	struct sp_thread *own = sp_thread_own;
	bool here = own != NULL && r->thread == own->index;

	/* After the end nobody would know whose wait that was. */
	if (sp_shown_label_notes_waits) {
		if (own != NULL)
			note_wait(own->index);
		if (!here && r->thread != SP_SPAN_NO_THREAD)
			note_wait(r->thread);
	}
	if (!sp_span_table_close(r))
		return false;
	if (here)
		sp_span_stack_ended(&own->spans, r->span_id, r->forgot);
	else if (r->thread != SP_SPAN_NO_THREAD)
		strike(r);
	if (own != NULL)
		sp_span_stack_name_root(&own->spans, r->span_id, r->root_name_id);
	sp_root_cpu_left(own);
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

static void tell_end_if_noted(const struct sp_span_record *r)
{
	if (sp_span_table_has_allocation(r))
		sp_span_announce_end(r->span_id);
}

void sp_span_report_end(const struct sp_span_record *r)
{
	tell_end_if_noted(r);
	sp_span_values_end(r);
}

/*
 * Enters the span into the table. If there is no room, it takes the place of a span that has been
 * open for SP_SPAN_AGE_CROWDED_NS or longer.
 */
static bool record(struct sp_span_record *r)
{
	return sp_span_table_add(r) == 0 ||
	       (sp_span_age_make_room(r, r->span_id) && sp_span_table_add(r) == 0) ||
	       (sp_span_age_make_room(r, r->handle) && sp_span_table_add(r) == 0);
}

/*
 * noinline, because this is rare: the table may have that id or that object. True if the span is in
 * the table already; *same: with this object. A span counts once, however many calls or objects
 * there are for it, and the first object ends it.
 */
static __attribute__((noinline)) bool is_known(const struct sp_span_record *r, bool *same)
{
	struct sp_span_record other;

	if (sp_span_table_by_id(r->span_id, &other)) {
		*same = other.handle == r->handle;
		return true;
	}
	/* The SDK reuses an object only after its span has ended, so we have missed that end. */
	if (sp_span_table_by_handle(r->handle, &other) && sp_span_close(&other)) {
		tell_end_if_noted(&other);
		sp_span_table_release(&other);
	}
	return false;
}

void sp_span_check_interleaving(const struct sp_thread *t)
{
	static _Atomic bool told;
	struct sp_span_record r;

	if (sp_span_stack_peek(&t->spans, &r) == SP_SPAN_INTERLEAVED &&
	    !atomic_exchange_explicit(&told, true, memory_order_relaxed))
		sp_log(SP_LOG_WARN,
		       "spans interleave on a thread, so their starts do not show for which one "
		       "the thread works: its samples get no span while two root spans are open "
		       "there (unless SPANPROF_ACTIVE_SPAN=start is set)");
}

uint64_t sp_active_span_linked_root(uint64_t span_id)
{
	const struct sp_thread *t = sp_thread_own;
	struct sp_span_record r;

	return t != NULL && sp_span_table_by_id(span_id, &r) && r.thread == t->index ? r.root_id
										     : 0;
}

/* Fills in the root of the span, and the calling thread if the span goes on its stack. */
static void place(const struct sp_span_start *s, struct sp_thread *t, struct sp_span_record *r)
{
	struct sp_span_root root = {0};
	uint64_t parent = sp_span_id_word(s->parent_id);

	if (s->has_parent && parent != 0)
		root = sp_span_find_root(NULL, parent, r->trace);
	else if (!s->has_parent && t != NULL && !sp_span_stack_bare(&t->spans))
		root = sp_span_find_root(&t->spans, 0, r->trace);
	r->root_id = root.id != 0 ? root.id : r->span_id;
	r->root_ref = root.ref;
	r->root_name_id = root.id != 0 ? root.name_id : r->name_id;
	r->ref = 0;
	r->thread = SP_SPAN_NO_THREAD;
	r->forgot = 0;
	if (t != NULL && sp_active_span_start_activates(s->how))
		r->thread = (uint16_t)t->index;
}

bool sp_span_started(const struct sp_span_start *s)
{
	return sp_span_started_as(s, sp_names_intern(s->name, s->name_len));
}

bool sp_span_started_as(const struct sp_span_start *s, uint32_t name_id)
{
	struct sp_span_record r;
	struct sp_thread *t = sp_thread_own != NULL ? sp_thread_own : sp_thread_self();
	bool same;

	r.span_id = sp_span_id_word(s->span_id);
	r.handle = (uint64_t)(uintptr_t)s->handle | (s->by_id ? SP_SPAN_BY_ID : 0);
	if (r.span_id == 0)
		return false;
	memcpy(r.trace, s->trace_id, sizeof(r.trace));
	r.start_ns = sp_span_age_start_ns();
	r.name_id = name_id;
	r.sdk = s->sdk;
	if (sp_span_table_may_have(r.span_id, r.handle) && is_known(&r, &same))
		return same;
	/* After is_known(), which may have ended a span below this one on the stack. */
	place(s, t, &r);
	/* Without a record the span has no label. */
	if (!record(&r)) {
		sp_count(SP_COUNT_SPAN_TABLE_FULL);
		return false;
	}
	sp_count_span_started(own_number(), s->sdk);
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_times_begin(&r);
	if (sp_span_is_root(&r))
		sp_slow_roots_begin(r.ref);
	if (r.thread != SP_SPAN_NO_THREAD) {
		const struct sp_span_root root = {r.root_id, r.root_ref, r.root_name_id};

		if (!sp_span_stack_has_room(&t->spans))
			sp_span_stack_make_room(&t->spans);
		sp_span_put(t, r.span_id, &root, s->how, s->linked_root);
	} else if (t != NULL) {
		sp_root_cpu_started(t, r.span_id, r.root_id, r.root_name_id);
	} else if (t == NULL && sp_active_span_start_activates(s->how))
		sp_thread_count_missing();
	return true;
}

void sp_span_begin_times(uint32_t ref)
{
	struct sp_span_record r;

	sp_span_load(ref, &r);
	sp_span_times_begin(&r);
}

uint32_t sp_span_close_any(uint64_t span_id, const void *handle)
{
	struct sp_span_record r;

	return sp_span_of_id(span_id, handle, &r) && sp_span_close(&r) ? r.ref : 0;
}

bool sp_span_of(const void *handle, struct sp_span_record *out)
{
	return sp_span_table_by_handle((uint64_t)(uintptr_t)handle, out);
}

bool sp_span_aged(const struct sp_span_record *r)
{
	if (!leave(r))
		return false;
	tell_end_if_noted(r);
	sp_span_table_release(r);
	sp_count(SP_COUNT_SPANS_AGED);
	return true;
}

void sp_span_rename(const struct sp_span_record *r, const char *name, size_t len)
{
	uint32_t name_id = sp_names_intern(name, len);

	sp_span_table_rename(r, name_id);
	sp_root_cpu_renamed(r, name_id);
}

bool sp_span_renamed(const void *handle, const char *name, size_t len)
{
	struct sp_span_record r;

	if (!sp_span_of(handle, &r))
		return false;
	sp_span_rename(&r, name, len);
	return true;
}

/*
 * If this many scopes of a thread had to be forgotten, they are no deep nesting: the program never
 * detaches them. All scopes of the thread are then forgotten, and spans of the SDK label from start
 * to end, on all threads. Real nesting of this depth is treated in the same way.
 */
#define PILE_MAX 1024U

enum sp_active_span sp_active_span_source;

void sp_active_span_set_source(enum sp_active_span which)
{
	sp_active_span_source = which;
}

void sp_active_span_forget_scopes(void)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL || sp_span_stack_bare(&t->spans))
		return;
	sp_span_stack_pop_scopes(&t->spans, false);
	sp_root_cpu_changed(t);
	sp_shown_label_update(t);
}

/*
 * If the thread has PILE_MAX forgotten scopes that were not detached, forgets its other scopes,
 * too, and returns true.
 */
static bool pile_up(struct sp_thread *t)
{
	if (t->spans.piled < PILE_MAX)
		return false;
	sp_count_add(SP_COUNT_SPAN_STACK_FULL, t->spans.piled);
	sp_active_span_forget_scopes();
	return true;
}

bool sp_active_span_attached(uint64_t token, const uint8_t *span_id)
{
	struct sp_thread *t = sp_thread_own != NULL ? sp_thread_own : sp_thread_self();
	uint64_t id = 0;

	if (!sp_active_span_by_scopes())
		return true;
	if (!sp_active_span_scopes_used())
		atomic_store_explicit(&sp_span_stack_scoped, true, memory_order_relaxed);
	if (t == NULL) {
		sp_thread_count_missing();
		return true;
	}
	if (sp_span_token_silent(token)) {
		/* frames from earlier only take room */
		if (!sp_span_stack_bare(&t->spans))
			sp_span_stack_pop_scopes(&t->spans, true);
		return true;
	}
	if (span_id != NULL)
		memcpy(&id, span_id, sizeof(id));
	sp_span_stack_push(&t->spans, id != 0 ? id : SP_SPAN_BLANK, token);
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	sp_root_cpu_changed(t);
	return !pile_up(t);
}

bool sp_active_span_is_open(uint64_t span_id)
{
	struct sp_span_record r;

	return span_id != 0 && sp_span_table_by_id(span_id, &r);
}

bool sp_active_span_agrees(uint32_t storage, uint64_t says)
{
	struct sp_thread *t = sp_thread_own;
	struct sp_span_record active;
	uint64_t attached;

	if (!sp_active_span_by_scopes())
		return true;
	/* Without a stack, or if a frame was forgotten, the storage counts as agreeing. */
	if (t == NULL || !sp_span_stack_attached(&t->spans, storage, &attached))
		return true;
	/* The start of a wrapper attaches, too, and its frame does not belong to the storage. */
	if (says == attached ||
	    (says != 0 && sp_span_stack_peek(&t->spans, &active) == SP_SPAN_KNOWN &&
	     says == active.span_id))
		return true;
	return !sp_active_span_is_open(attached) && !sp_active_span_is_open(says);
}

bool sp_active_span_is_in_trace(const struct sp_thread *t, const uint8_t *trace_id)
{
	struct sp_span_record r;
	enum sp_span_active what = sp_span_stack_peek_span(&t->spans, &r);

	return (what == SP_SPAN_KNOWN || what == SP_SPAN_ROOT_ALONE) &&
	       memcmp(r.trace, trace_id, sizeof(r.trace)) == 0;
}

void sp_active_span_silence(uint32_t storage)
{
	const struct sp_thread_labels_part *shown = sp_thread_labels_now();
	uint32_t n = shown != NULL ? atomic_load_explicit(&shown->used, memory_order_relaxed) : 0;

	atomic_fetch_or_explicit(&sp_span_stack_silent, UINT32_C(1) << storage,
				 memory_order_relaxed);
	/* Strikes the labels that other threads have shown to the exporter. */
	for (uint32_t i = 0; i < n; i++)
		sp_thread_labels_strike(i);
	sp_root_cpu_changed(sp_thread_own);
	sp_shown_label_update(sp_thread_own);
}

/*
 * When a sweep first saw the span of a table entry. Kept apart from the table, so that starts of
 * spans need not write it.
 */
struct first_seen {
	uint32_t ref;
	uint32_t ms; /* wraps after 49 days; the longest age is shorter */
};
static struct first_seen *first_seen;

#define FIRST_SEEN_BYTES (SP_SPANS_MAX * sizeof(struct first_seen))

static uint32_t sweep_at;

bool sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns)
{
	uint32_t now = (uint32_t)(now_ns / SP_NS_PER_MS);
	uint32_t max_age = (uint32_t)(max_age_ns / SP_NS_PER_MS);
	uint32_t most = SP_SPAN_LOOK_MAX;
	struct sp_span_record r;

	while (sp_span_table_next_of(&sweep_at, &most, &r)) {
		struct first_seen *m;

		if (first_seen == NULL)
			first_seen = sp_arena_map(FIRST_SEEN_BYTES);
		if (first_seen == NULL)
			break;
		m = &first_seen[(r.ref & SP_SPAN_NUMBER_MASK) - 1];
		if (m->ref != r.ref) {
			m->ref = r.ref;
			m->ms = now;
		} else if (now - m->ms >= max_age) {
			(void)sp_span_aged(&r);
		}
	}
	return sweep_at == 0;
}

bool sp_span_age_make_room(const struct sp_span_record *r, uint64_t key)
{
	struct sp_span_record oldest;

	return sp_span_table_oldest(key, &oldest) && oldest.start_ns <= r->start_ns &&
	       r->start_ns - oldest.start_ns >= SP_SPAN_AGE_CROWDED_NS && sp_span_aged(&oldest);
}

_Atomic uint64_t sp_span_age_now_ns;

uint64_t sp_span_age_clock_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void sp_span_age_tick(bool exact)
{
	atomic_store_explicit(&sp_span_age_now_ns, exact ? 0 : sp_span_age_clock_ns(),
			      memory_order_relaxed);
}

/*
 * Counts the open spans of this thread whose frames were forgotten. The parent's count may be too
 * high: another thread may just have ended one of them, or they did not all fit into the child's
 * table.
 */
static void count_forgotten(struct sp_thread *t)
{
	uint8_t mark = sp_span_stack_mark(&t->spans);
	struct sp_span_record r;
	uint32_t n = 0;
	uint32_t at = 0;

	while (sp_span_table_next(&at, &r))
		n += r.thread == t->index && r.forgot == mark;
	sp_span_stack_forked(&t->spans, n);
}

void sp_span_forked(uint32_t had_block)
{
	uint64_t ids[SP_SPAN_IDS_MAX];
	unsigned n;

	atomic_store_explicit(&sp_span_age_now_ns, 0, memory_order_relaxed);
	sweep_at = 0;
	if (first_seen != NULL)
		sp_arena_wipe(first_seen, FIRST_SEEN_BYTES);
	if (sp_thread_own == NULL) {
		sp_span_table_forked(had_block, SP_SPAN_NO_THREAD, NULL, 0);
	} else {
		n = sp_span_stack_ids(&sp_thread_own->spans, ids);
		sp_span_table_forked(had_block, (uint16_t)sp_thread_own->index, ids, n);
		count_forgotten(sp_thread_own);
	}
	sp_span_times_forked();
	sp_span_values_forked();
	sp_slow_roots_forked();
	sp_root_cpu_forked(sp_thread_own);
}

/*
 * Manual labels of the calling thread. Each push of the program enters a level, with a label or
 * without, so that every pop ends the level of its own push. Context: APP.
 */
static SP_TLS uint32_t level;
/*
 * A bit for each level that has a label. The pop of a level without one must not remove the frame
 * of a scope.
 */
static SP_TLS uint32_t labelled;
_Static_assert(SP_MANUAL_LABEL_DEPTH_MAX <= 32, "a bit for each");

static uint32_t bit_of_level(void)
{
	return UINT32_C(1) << (level - 1);
}

void sp_manual_label_enter(void)
{
	if (level < UINT32_MAX)
		level++;
}

int sp_manual_label_show(uint64_t id, uint32_t name_id)
{
	struct sp_thread *t = sp_thread_self();

	if (t == NULL) {
		sp_thread_count_missing();
		return -ENOSPC;
	}
	if (level > SP_MANUAL_LABEL_DEPTH_MAX) {
		sp_count(SP_COUNT_SPAN_STACK_FULL);
		return -ENOSPC;
	}
	labelled |= bit_of_level();
	sp_span_stack_push(&t->spans, id, sp_span_token_of_label(level, name_id));
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	sp_root_cpu_changed(t);
	return 0;
}

bool sp_manual_label_exit(void)
{
	struct sp_thread *t = sp_thread_own;

	if (level == 0)
		return false;
	if (t != NULL && level <= SP_MANUAL_LABEL_DEPTH_MAX && (labelled & bit_of_level()) != 0) {
		labelled &= ~bit_of_level();
		(void)sp_span_stack_pop(&t->spans, sp_span_token_of_label(level, 0), false);
		if ((t->allocated_levels & bit_of_level()) != 0) {
			t->allocated_levels &= ~bit_of_level();
			sp_span_announce_end(t->allocated_label[level - 1]);
		}
		sp_root_cpu_changed(t);
		sp_shown_label_update(t);
	}
	level--;
	return true;
}
