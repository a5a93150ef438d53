/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Span semantics, the same for every SDK: which span labels a thread's samples, and what its local
 * root is. APP context, inside the reentrancy guard, which preserves errno; bounded, lock-free.
 */
#ifndef SP_SPAN_H
#define SP_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/config/config.h"
#include "sampler/context/thread_context.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/thread_labels.h"
#include "sampler/span/root_cpu.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span_times.h"
#include "sampler/thread/thread.h"

/*
 * The active span of a thread: what makes a span active, and which label a sample then gets: the
 * active span or its local root, as the configuration says.
 *
 * Scopes of an SDK say for which span a thread works, and they decide from the moment at which the
 * process first uses a scope. If an SDK has no scopes, or the process never uses them, start and
 * end stand in for them: the span that was started last counts as active. That would be wrong for
 * an event loop, which keeps many spans open on one thread. So while two local roots of an SDK are
 * open on a thread by their starts alone, its samples get no span (span_stack.h), because a wrong
 * label is worse than none.
 *
 * Contexts: the label functions run in any context; the others in APP, inside the reentrancy guard,
 * calling thread only; bounded, lock-free.
 */

struct sp_span_label {
	uint64_t span_id; /* span_id, trace_id and name_id all 0 = no label */
	uint8_t trace_id[16];
	uint32_t name_id;
	uint32_t ref; /* the span table's reference to the span with that id; 0 = none */
	/* of the local root, if samples carry it (span_values.h); otherwise both are 0 */
	uint32_t root_ref;
	uint64_t root_id;
	enum sp_span_active what;
};

/* Written at activation before the first timer is armed. */
struct sp_active_span_label_scopes {
	enum sp_label_scope id;
	enum sp_label_scope name;
	bool trace_id;
	bool root; /* samples carry the id of their local root, which is no label */
};
extern struct sp_active_span_label_scopes sp_active_span_label_scopes;

/*
 * The owner or its handler, as for sp_span_stack_peek(). The label of a sample that is taken now.
 */
SP_SIGSAFE void sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out);
SP_SIGSAFE void sp_active_span_label_of(enum sp_span_active what, const struct sp_span_record *r,
					struct sp_span_label *out);

/*
 * The handler of the interrupted thread. The label from the thread context that another library
 * publishes (foreign_context.h); t is the block of the thread. A context has no span name. No label
 * if spans of a hooked SDK are on the thread's stack, even an unrecorded one.
 */
SP_SIGSAFE void sp_active_span_label_foreign(const struct sp_thread *t, struct sp_span_label *out);

/* How an SDK says that a span is active on a thread. */
enum sp_activation {
	SP_ACTIVATION_START, /* starting a span makes it active on that thread until it ends */
	SP_ACTIVATION_SCOPE, /* attach and detach decide, once the process has used them */
	/* no scope shows the active span; start and end stand in unless spans interleave */
	SP_ACTIVATION_NONE,
};

/*
 * The calling thread has attached a context under this token (sp_span_token_of()). span_id is the
 * span of the context; NULL or all zero = none. A span that is not recorded here labels nothing,
 * and hides the span that was active before until the detach.
 *
 * False if scopes pile up on the thread: many did not fit on the stack, and we saw no detach of
 * them or of a scope below them. Such scopes do not show for which span the thread works, so all of
 * them are forgotten. Spans of the SDK should then be active from start to end
 * (SP_ACTIVATION_NONE).
 */
bool sp_active_span_attached(uint64_t token, const uint8_t *span_id);

/* Some thread has attached something: from now on, starts of SDKs with scopes do not activate. */
static inline bool sp_active_span_scopes_used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* Whether scopes, starts or a foreign context decide. */
SP_HIDDEN enum sp_active_span sp_active_span_source;

/* Scopes decide, or may (SP_ACTIVE_AUTO). */
static inline bool sp_active_span_by_scopes(void)
{
	return sp_active_span_source == SP_ACTIVE_AUTO || sp_active_span_source == SP_ACTIVE_SCOPE;
}

/* Forgets all scopes of the calling thread: they label nothing and hide nothing any more. */
void sp_active_span_forget_scopes(void);

/*
 * A program that runs fibers or coroutines has its own context storage, which stores the current
 * context of each fiber. Attach and detach on a thread then do not show which span runs there,
 * because another fiber gets the thread without a call of the SDK. So we ask such a storage before
 * each attach and at each start. If the storage names another open span than the one that it last
 * attached on this thread, or names no span although that one is open, its scopes are not used any
 * more: a wrong label is worse than none.
 */

/*
 * Whether the scopes that we saw agree with the storage. says: the id of the span that the storage
 * says is current on the calling thread; 0 = none. A span that is not open counts as none, on both
 * sides.
 */
bool sp_active_span_agrees(uint32_t storage, uint64_t says);

/*
 * Whether the thread's stack has all contexts that an SDK attached. Then the active span is the
 * parent of a span that is started now in the same trace. trace_id: the active span has to be of
 * that trace; NULL = any. A start that continues the trace of the last start has a parent; if the
 * parent is not on the stack, no hook saw its attach.
 */
static inline bool sp_active_span_shows_parent(const uint8_t *trace_id);

/* A part of sp_active_span_shows_parent(): whether the active span is of that trace. */
bool sp_active_span_is_in_trace(const struct sp_thread *t, const uint8_t *trace_id);

static inline __attribute__((always_inline)) bool
sp_active_span_shows_parent(const uint8_t *trace_id)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && (!sp_span_stack_empty(&t->spans) || sp_span_stack_bare(&t->spans)) &&
	       sp_active_span_by_scopes() &&
	       (trace_id == NULL || sp_active_span_is_in_trace(t, trace_id));
}

/* Scopes of that storage label nothing any more, on any thread. */
void sp_active_span_silence(uint32_t storage);

/*
 * APP, at activation. Sets whether scopes, starts or a foreign context decide; SP_ACTIVE_AUTO
 * before.
 */
void sp_active_span_set_source(enum sp_active_span source);

/* Whether starting a span of an SDK with this activation makes it active at this moment. */
static inline bool sp_active_span_start_activates(enum sp_activation how)
{
	if (sp_active_span_source == SP_ACTIVE_CONTEXT)
		return false;
	if (how != SP_ACTIVATION_SCOPE)
		return sp_active_span_source != SP_ACTIVE_SCOPE || how == SP_ACTIVATION_START;
	return sp_active_span_source == SP_ACTIVE_START ||
	       (sp_active_span_source == SP_ACTIVE_AUTO && !sp_active_span_scopes_used());
}

/*
 * The token of the frame of a span that was started. If the SDK has scopes and has attached nothing
 * yet, the first attach replaces the frame: main() may start its span before it attaches it, and
 * the frame must not label after the detach. If the user has asked for starts
 * (SPANPROF_ACTIVE_SPAN=start), the frame counts as a scope.
 */
static inline uint64_t sp_active_span_start_token(enum sp_activation how, uint64_t linked_root)
{
	if (how == SP_ACTIVATION_START || sp_active_span_source != SP_ACTIVE_AUTO)
		return SP_SPAN_STARTED;
	return sp_span_token_linked(how == SP_ACTIVATION_SCOPE ? SP_SPAN_YIELDS : SP_SPAN_STANDS_IN,
				    linked_root);
}

/* Whether that span is recorded here and has not ended. 0 is no span. */
bool sp_active_span_is_open(uint64_t span_id);

/*
 * Whether the links of a span that is started now matter: there are spans on the calling thread's
 * stack, and the new span is a root. It is a root if the start names no parent (0), or a parent
 * that is no open span of this process, such as a remote parent.
 */
static inline __attribute__((always_inline)) bool sp_active_span_wants_links(uint64_t parent_id)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && !sp_span_stack_bare(&t->spans) && !sp_active_span_is_open(parent_id);
}

/*
 * The local root of that span, if the calling thread has started the span and it is open; otherwise
 * 0.
 */
uint64_t sp_active_span_linked_root(uint64_t span_id);

/*
 * The age of spans. The end of a span may never come, because the host forgot it or ended the span
 * in a way that no hook sees. Such a span would label its thread for ever and keep its place in the
 * span table. So spans are given up when they are older than a limit, or earlier when the table is
 * full.
 */

/*
 * A full table gives up spans that are at least this old by the wall clock. Requests often take
 * seconds; hardly any program has thousands of requests at once that take minutes.
 */
#define SP_SPAN_AGE_CROWDED_NS (UINT64_C(60) * 1000000000)

/*
 * APP, one thread at a time, every few seconds. Gives up each open span that an earlier call saw at
 * least max_age_ns ago, among SP_SPAN_LOOK_MAX entries of the table. False if there are more: the
 * next call goes on. now_ns is of a monotonic clock; with the wall clock, a leap would age all
 * spans.
 */
bool sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns);

/*
 * APP. The table has no place for `key`, the id or object of span r: gives up the oldest span in
 * its way, if that is old enough. True if a span was given up.
 */
bool sp_span_age_make_room(const struct sp_span_record *r, uint64_t key);

/*
 * The wall clock at the last deferred work, as the start time of spans; 0 = ask the clock. A span's
 * age needs no better one, and reading a clock for each span takes as long as a locked operation.
 * Only the URL of a profile contains the start time.
 */
SP_HIDDEN _Atomic uint64_t sp_span_age_now_ns;

/*
 * APP, at deferred work: reads the clock for the start time of spans. exact: each span reads the
 * clock itself.
 */
void sp_span_age_tick(bool exact);

/*
 * The coarse wall clock: reading it takes a fifth of the time of the exact one, and it is some
 * milliseconds late.
 */
uint64_t sp_span_age_clock_ns(void);

static inline uint64_t sp_span_age_start_ns(void)
{
	uint64_t now = atomic_load_explicit(&sp_span_age_now_ns, memory_order_relaxed);

	return now != 0 ? now : sp_span_age_clock_ns();
}

/*
 * Shows the label of a thread to its readers: the exporter, if waiting time is wanted
 * (sampler/region/thread_labels.h), profilers outside of the process (sampler/context/), and the
 * account of the local root (span_times.h). To be called after each change of the thread's active
 * span. APP, the thread itself; errno untouched. It makes no system call, except the clock of the
 * vDSO if waiting time is wanted, and those of span_times.h.
 */

/* Written at activation: spans with a wait in a profile are marked (sp_span_table_mark_wait()). */
SP_HIDDEN bool sp_shown_label_notes_waits;

/* Shows the label to the exporter. */
void sp_shown_label_put(struct sp_thread *t);

/* The slow part of sp_shown_label_update(), if there is a reader. */
void sp_shown_label_changed(struct sp_thread *t);

static inline __attribute__((always_inline)) void sp_shown_label_update(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_thread_labels_watchers, memory_order_relaxed) != 0 &&
	    t != NULL)
		sp_shown_label_changed(t);
}

/*
 * Manual labels on the calling thread's span stack: a profile id and a name that the program
 * chooses. The innermost label counts. Each label is a separate root and no span's parent. APP
 * context, inside the reentrancy guard.
 *
 * The token in the frame of a label is made of the nesting depth and the name, so it differs from
 * the tokens of SDKs. So a pop removes the frame of its own push or none, whatever happened in
 * between.
 */

/*
 * Enters a level, without a label. To be called at every push, whether its label is shown or not.
 */
void sp_manual_label_enter(void);

/* Shows a label on the level that was just entered. 0, or -ENOSPC (counted). */
int sp_manual_label_show(uint64_t id, uint32_t name_id);

/* Leaves the level, and removes its label if it has one. False if there is no level to leave. */
bool sp_manual_label_exit(void);

struct sp_span_start {
	const void *handle; /* the SDK's span object, unique while the span is open */
	const char *name;
	size_t name_len;
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t parent_id[8]; /* used with has_parent */
	/* sp_active_span_linked_root() of the first link for which it is not 0 */
	uint64_t linked_root;
	enum sp_activation how;
	/* an explicit parent was given; otherwise the active span of this thread is the parent */
	bool has_parent;
	/* every holder of the object knows the id: the span is found by sp_span_of_id() */
	bool by_id;
	uint8_t sdk; /* enum sp_sdk */
};

/*
 * A valid, sampled, recording span has started. Its SDK's activation decides whether that makes it
 * active on the calling thread until it ends. Returns false if the span cannot be tracked
 * (counted), or is tracked under another object.
 */
bool sp_span_started(const struct sp_span_start *s);

/*
 * The open span of that object, for its attributes before the real end. False if the span is not
 * tracked.
 */
bool sp_span_of(const void *handle, struct sp_span_record *out);

/* sp_span_of() for a span that was started with by_id. */
static inline bool sp_span_of_id(uint64_t span_id, const void *handle, struct sp_span_record *out)
{
	/* the span may be tracked under another object, such as a wrapper's */
	return sp_span_table_by_id(span_id, out) &&
	       out->handle == ((uint64_t)(uintptr_t)handle | SP_SPAN_BY_ID);
}

/*
 * Ends the open span, on whatever thread; only one caller gets true. From then on the span labels
 * nothing, and whether it has a sample does not change any more. So the caller sets its attributes
 * next, and then calls sp_span_table_release().
 */
bool sp_span_close(const struct sp_span_record *r);

/*
 * To be called before sp_span_table_release(). Tells the exporter the values of the span
 * (span_values.h), and that it has ended if blocks were sampled in it. If the program has ended the
 * span, sp_slow_roots_end() is to be called as well.
 */
void sp_span_report_end(const struct sp_span_record *r);

/*
 * Any context. Tells the exporter that the span, or the manual label, with that id has ended:
 * blocks that were allocated in it and are still in use belong to no open span any more.
 */
SP_SIGSAFE void sp_span_announce_end(uint64_t span_id);

/*
 * Gives up that open span because of its age: it labels nothing any more, and its end, if it comes,
 * is ignored. APP. False if it ended meanwhile.
 */
bool sp_span_aged(const struct sp_span_record *r);

/*
 * Gives the open span of that object a new name, on any thread. Later samples on any thread show
 * it, for the span and, if it is a root, for all spans below it. Bounded: one look-up and one
 * store, because stacks refer to the record. False if there is no open span of that object.
 *
 * Earlier samples keep the old name.
 */
bool sp_span_renamed(const void *handle, const char *name, size_t len);

/* sp_span_renamed() for a record that sp_span_of_id() gave. */
void sp_span_rename(const struct sp_span_record *r, const char *name, size_t len);

/*
 * In a forked child, which has one thread. had_block: the number of the thread's block in the
 * parent (sp_thread_forked()). Of all open spans only those on the thread's stack remain.
 */
void sp_span_forked(uint32_t had_block);

static inline bool sp_span_is_root(const struct sp_span_record *r)
{
	return r->span_id == r->root_id;
}

/*
 * Start and end of a span that is found by its id, as one inlined piece of code with the same
 * effect as the functions above. It serves a thread with a block and a private free entry, and a
 * span in its usual cell of the table. In all other cases it calls those functions before it has
 * changed anything.
 */

static inline uint64_t sp_span_id_word(const uint8_t id[8])
{
	uint64_t w;

	memcpy(&w, id, sizeof(w));
	return w;
}

/* The local root of a span below a root; id 0 = the span is a root itself. */
struct sp_span_root {
	uint64_t id;
	uint32_t ref;
	uint32_t name_id;
};

/*
 * Finds the root by the parent's id, or, if s is not NULL, by the active span of that stack if it
 * is of the same trace.
 */
struct sp_span_root sp_span_find_root(const struct sp_span_stack *s, uint64_t parent_id,
				      const uint64_t trace[2]);

/* A root was started on a thread with another open span. Logs once if spans interleave there. */
void sp_span_check_interleaving(const struct sp_thread *t);

/* Calls sp_span_times_begin() for the span of that entry. */
void sp_span_begin_times(uint32_t ref);

/* The slow part of sp_span_close_by_id(). */
uint32_t sp_span_close_any(uint64_t span_id, const void *handle);

/*
 * A span was started on the calling thread, whose stack has room. It becomes active unless it
 * interleaves.
 */
static inline __attribute__((always_inline)) void sp_span_put(struct sp_thread *t, uint64_t span_id,
							      const struct sp_span_root *root,
							      enum sp_activation how,
							      uint64_t linked_root)
{
	uint64_t token = sp_active_span_start_token(how, linked_root);
	bool first = sp_span_stack_empty(&t->spans);

	sp_span_stack_put(&t->spans, span_id, token);
	sp_span_stack_meet_root(&t->spans);
	/* Most roots are started while no other is open on the thread. */
	if (__builtin_expect(!first, 0) && root->id == span_id && sp_span_token_stands_in(token))
		sp_span_check_interleaving(t);
	sp_shown_label_update(t);
	sp_root_cpu_entered(t, root->id, root->name_id, first);
}

/* The span was entered into the table. */
static inline __attribute__((always_inline)) void sp_span_begun(struct sp_thread *t,
								const struct sp_span_start *s,
								const struct sp_span_root *root,
								bool activates)
{
	const uint64_t id = sp_span_id_word(s->span_id);

	if (activates)
		sp_span_put(t, id, root, s->how, s->linked_root);
	else
		sp_root_cpu_started(t, id, root->id, root->name_id);
}

/* sp_active_span_attached() for the span with that id; 0 = none. */
static inline __attribute__((always_inline)) bool sp_active_span_attach(uint64_t token, uint64_t id)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL || !sp_active_span_by_scopes() || !sp_active_span_scopes_used() ||
	    atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed) != 0 ||
	    !sp_span_stack_has_room(&t->spans)) {
		uint64_t whole = id;

		return sp_active_span_attached(token, (const uint8_t *)&whole);
	}
	sp_span_stack_put(&t->spans, id != 0 ? id : SP_SPAN_BLANK, token);
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	sp_root_cpu_attached(t, id);
	return true;
}

/*
 * The calling thread has detached the scope with that token. through: every scope that was attached
 * after it goes, too.
 */
static inline void sp_active_span_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	(void)sp_span_stack_pop(&t->spans, token, through);
	sp_root_cpu_left(t);
	sp_shown_label_update(t);
}

/* sp_span_started() with the interned name. */
bool sp_span_started_as(const struct sp_span_start *s, uint32_t name_id);

/*
 * sp_span_started_as() for a start with by_id. The name is a parameter, and not in *s: the caller
 * interns it by a function call, before it has anything in registers.
 */
static inline __attribute__((always_inline)) bool
sp_span_started_by_id(const struct sp_span_start *s, uint32_t name_id)
{
	struct sp_thread *t = sp_thread_own;
	const uint64_t id = sp_span_id_word(s->span_id);
	const uint64_t parent = s->has_parent ? sp_span_id_word(s->parent_id) : 0;
	const uint64_t hash = sp_span_index_hash(id);
	const bool activates = sp_active_span_start_activates(s->how);
	struct sp_span_root root = {0};
	_Atomic uint64_t *cell;
	struct sp_span_words *e;
	uint64_t none = 0;
	uint32_t ref;

	/* A thread has a spare entry only after it has ended a span, so there is a table. */
	if (t == NULL || t->spare.n == 0 || id == 0 ||
	    (activates && !sp_span_stack_has_room(&t->spans)) || !sp_span_table_room(hash, &cell)) {
		struct sp_span_start whole = *s;

		return sp_span_started_as(&whole, name_id);
	}
	ref = t->spare.ref[t->spare.n - 1];
	e = sp_span_entry(ref);
	if (parent != 0 || (!s->has_parent && !sp_span_stack_bare(&t->spans))) {
		uint64_t trace[2] = {sp_span_id_word(s->trace_id),
				     sp_span_id_word(s->trace_id + 8)};

		root = sp_span_find_root(parent != 0 ? NULL : &t->spans, parent, trace);
	}
	if (root.id == 0)
		root = (struct sp_span_root){id, ref, name_id};
	sp_span_set_word(e, SP_SPAN_WORD_ID, id);
	sp_span_set_word(e, SP_SPAN_WORD_ROOT, root.id);
	sp_span_set_word(e, SP_SPAN_WORD_HANDLE, (uint64_t)(uintptr_t)s->handle | SP_SPAN_BY_ID);
	sp_span_set_word(e, SP_SPAN_WORD_TRACE, sp_span_id_word(s->trace_id));
	sp_span_set_word(e, SP_SPAN_WORD_TRACE + 1, sp_span_id_word(s->trace_id + 8));
	sp_span_set_word(e, SP_SPAN_WORD_START, sp_span_age_start_ns());
	sp_span_set_word(e, SP_SPAN_WORD_PLACE,
			 (uint64_t)s->sdk << 48 |
				 (uint64_t)(activates ? t->index : SP_SPAN_NO_THREAD) << 32 |
				 root.ref);
	sp_span_set_word(e, SP_SPAN_WORD_NAMES, (uint64_t)root.name_id << 32 | name_id);
	/*
	 * As in put_in() of span_table.c. If another thread has just taken the cell, nothing was
	 * changed.
	 */
	if (!atomic_compare_exchange_strong_explicit(cell, &none, sp_span_index_word(hash, ref),
						     memory_order_release, memory_order_relaxed)) {
		struct sp_span_start whole = *s;

		sp_span_set_word(e, SP_SPAN_WORD_ID, 0);
		return sp_span_started_as(&whole, name_id);
	}
	t->spare.n--;
	sp_count_span_started(t->index, s->sdk % SP_COUNTED_SDKS);
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_begin_times(ref);
	if (root.id == id)
		sp_slow_roots_begin(ref);
	sp_span_begun(t, s, &root, activates);
	return true;
}

/* sp_names_intern(), for adapters, which do not include names.h. */
static inline uint32_t sp_span_name(const char *name, size_t len)
{
	return sp_names_intern(name, len);
}

/*
 * sp_span_close() for the span with that id and object, which was started with by_id. Returns its
 * reference, for sp_span_table_free(); 0 = there is no such span, or another caller ends it. If
 * the exchange succeeds, the cell, and so the entry that was read before, belonged to the span all
 * the time.
 */
static inline __attribute__((always_inline)) uint32_t sp_span_close_by_id(uint64_t id,
									  const void *handle)
{
	struct sp_thread *t = sp_thread_own;
	struct sp_span_line *index = sp_span_index();
	const uint64_t hash = sp_span_index_hash(id);
	const struct sp_span_words *e;
	_Atomic uint64_t *cell;
	uint64_t place;
	uint64_t word;
	uint32_t ref;
	bool here;

	if (index == NULL || t == NULL || sp_shown_label_notes_waits)
		return sp_span_close_any(id, handle);
	cell = &sp_span_index_line(index, hash, 0)->cell[0];
	word = sp_span_index_load(cell, hash);
	for (uint32_t c = 1; c < SP_SPAN_INDEX_CELLS && word == 0; c++)
		word = sp_span_index_load(++cell, hash);
	ref = sp_span_index_ref(word);
	if (ref == 0)
		return sp_span_close_any(id, handle);
	e = sp_span_entry(ref);
	place = sp_span_word(e, SP_SPAN_WORD_PLACE);
	here = sp_span_word_thread(place) == t->index;
	if (sp_span_word(e, SP_SPAN_WORD_ID) != id ||
	    sp_span_word(e, SP_SPAN_WORD_HANDLE) != ((uint64_t)(uintptr_t)handle | SP_SPAN_BY_ID) ||
	    (!here && sp_span_word_thread(place) != SP_SPAN_NO_THREAD))
		return sp_span_close_any(id, handle);
	if (!atomic_compare_exchange_strong_explicit(cell, &word, 0, memory_order_acq_rel,
						     memory_order_relaxed))
		return 0;
	if (here)
		sp_span_stack_ended(&t->spans, id, sp_span_word_forgot(place));
	if (t->spans.root.id == id)
		t->spans.root.name_id = (uint32_t)(sp_span_word(e, SP_SPAN_WORD_NAMES) >> 32);
	sp_root_cpu_left(t);
	sp_shown_label_update(t);
	sp_count_span_ended(t->index);
	return ref;
}

#endif
