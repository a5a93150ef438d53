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
#include "sampler/span/span_times.h"
#include "sampler/thread/thread.h"

/*
 * The active span of a thread: what makes a span active, and what a sample is labelled with then:
 * the active span or its local root, as the configuration says.
 *
 * An SDK with scopes says which span a thread works for, and this decides from the first time that
 * the process uses a scope. Where an SDK has no scopes, or the process never uses them, start and
 * end stand in for them: the span that was started last counts as active. An event loop keeps many
 * spans open on one thread, and there this would be wrong. So while two local roots of an SDK are
 * open on a thread by their starts alone, its samples get no span (span_stack.h), because a wrong
 * label is worse than none.
 *
 * Contexts: the label functions run in any context; all else is APP, inside the reentrancy guard,
 * calling thread only; bounded, lock-free.
 */

struct sp_span_label {
	uint64_t span_id; /* it, trace and name: all 0 = nothing */
	uint8_t trace_id[16];
	uint32_t name_id;
	uint32_t ref; /* the span table's reference to the span whose id that is; 0 = it has none */
	uint32_t
		root_ref; /* of the local root, where samples carry that (span_values.h); else both are 0 */
	uint64_t root_id;
	enum sp_span_active what;
};

/* Written at activation before the first timer is armed. */
struct sp_active_span_label_scopes {
	enum sp_label_scope id;
	enum sp_label_scope name;
	bool trace_id;
	bool root; /* samples carry their local root, which is no label */
};
extern struct sp_active_span_label_scopes sp_active_span_label_scopes;

/*
 * Owner or its handler, as sp_span_stack_peek() that it calls: the label of a sample that is taken now. The other
 * one makes it of what that said.
 */
SP_SIGSAFE void sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out);
SP_SIGSAFE void sp_active_span_label_of(enum sp_span_active what, const struct sp_span_record *r,
					struct sp_span_label *out);

/*
 * The interrupted thread's handler. The same by what another library of the program publishes for
 * the thread, whose block that is (foreign_context.h). That knows no names. Nothing where spans of
 * a hooked SDK are on the thread's stack, if only one that is not recorded.
 */
SP_SIGSAFE void sp_active_span_label_foreign(const struct sp_thread *t, struct sp_span_label *out);

/* How an SDK says that a span is active on a thread. */
enum sp_activation {
	SP_ACTIVATION_START, /* starting a span makes it active on that thread until it ends */
	SP_ACTIVATION_SCOPE, /* attach and detach decide, once the process has used them */
	SP_ACTIVATION_NONE, /* no scopes that tell; start and end stand in unless spans interleave */
};

/*
 * The calling thread attached a context under this token (sp_span_token_of()).
 * span_id is the span of the context, NULL or all zero if it has none. A span that is not recorded
 * here labels nothing, and hides what was active before until the detach.
 *
 * False if scopes pile up on the thread: many did not fit and are not known to be detached, and none of
 * those below was meanwhile. They do not tell what the thread works for, so all of them are forgotten, and the
 * SDK's spans are better active from start to end (SP_ACTIVATION_NONE).
 */
bool sp_active_span_attached(uint64_t token, const uint8_t *span_id);

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static inline bool sp_active_span_scopes_used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* What decides. */
SP_HIDDEN enum sp_active_span sp_active_span_source;

/* Scopes decide, or may. */
static inline bool sp_active_span_by_scopes(void)
{
	return sp_active_span_source == SP_ACTIVE_AUTO || sp_active_span_source == SP_ACTIVE_SCOPE;
}

/* Forgets all scopes of the calling thread: they label nothing and hide nothing any more. */
void sp_active_span_forget_scopes(void);

/*
 * A program that runs fibers or coroutines has a context storage of its own, which keeps what is
 * current for each of them. Attach and detach on a thread do not tell then which span runs there,
 * because others take the thread over without a call of the SDK. So such a storage is asked before
 * each attach and at each start. If it names another open span than the one that it last attached on
 * this thread, or none where there is one, its scopes are worth nothing: a wrong label is worse than
 * none.
 */

/*
 * What that storage says is current on the calling thread agrees with the scopes that we saw: the id
 * of the span, 0 if there is none. A span that is not open, here or there, counts as none.
 */
bool sp_active_span_agrees(uint32_t storage, uint64_t says);

/*
 * The active span of the calling thread is the parent of what is started there within its trace, as all
 * that an SDK attached is on the thread's stack. trace_id: the active span has to be of that trace; NULL
 * if it does not matter. What goes on with the trace of the start before it has a parent, so if that is not
 * on the stack, something was attached unseen.
 */
static inline bool sp_active_span_tells_parent(const uint8_t *trace_id);

/* For the one above: the active span is of that trace. */
bool sp_active_span_is_in_trace(const struct sp_thread *t, const uint8_t *trace_id);

static inline __attribute__((always_inline)) bool
sp_active_span_tells_parent(const uint8_t *trace_id)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && !sp_span_stack_is_beyond(&t->spans) && sp_active_span_by_scopes() &&
	       (trace_id == NULL || sp_active_span_is_in_trace(t, trace_id));
}

/* Scopes of that storage label nothing any more, on any thread. */
void sp_active_span_silence(uint32_t storage);

/* The same, as long as they are not trusted. */
void sp_active_span_doubt(uint32_t storage);
void sp_active_span_trust(uint32_t storage);

/* APP, at activation. What decides: scopes, starts or a foreign context; SP_ACTIVE_AUTO until then. */
void sp_active_span_set_source(enum sp_active_span source);

/* Whether starting a span of an SDK with this activation makes it active, as things are now. */
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
 * The token of the frame of a span that was started. Where an SDK has scopes and has attached
 * nothing yet, the frame yields to the first attach: main() may start its span before it attaches
 * it, and the frame must not label after the detach. Where the user asked for starts they are scopes.
 */
static inline uint64_t sp_active_span_start_token(enum sp_activation how, uint64_t linked_root)
{
	if (how == SP_ACTIVATION_START || sp_active_span_source != SP_ACTIVE_AUTO)
		return SP_SPAN_STARTED;
	return sp_span_token_linked(how == SP_ACTIVATION_SCOPE ? SP_SPAN_YIELDS : SP_SPAN_STANDS_IN,
				    linked_root);
}

/* The links of a root that is started now matter: there are spans on the calling thread's stack. */
static inline bool sp_active_span_wants_links(void)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && !sp_span_stack_empty(&t->spans);
}

/* The local root of that span, if the calling thread has started it, and it is open; 0 otherwise. */
uint64_t sp_active_span_linked_root(uint64_t span_id);

/*
 * Spans whose end never comes, because the host forgot it or ended the span in a way that no hook
 * sees. Such a span would label its thread for ever and keep its place in the span table. So spans
 * are given up when they are older than a limit, or earlier when the table is full.
 */

/*
 * A full table gives up spans that are at least this old by the wall clock. Requests often take
 * seconds; hardly any program has thousands of requests at once that take minutes.
 */
#define SP_SPAN_AGE_CROWDED_NS (UINT64_C(60) * 1000000000)

/*
 * APP, every few seconds. Gives up each open span that an earlier call saw at least max_age_ns ago.
 * now_ns is of a monotonic clock; with the wall clock, a leap would age all spans.
 */
void sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns);

/*
 * APP. The table has no place for that key of that span: gives up the oldest span that is in its way, if
 * it is old enough. True if one was given up.
 */
bool sp_span_age_make_room(const struct sp_span_record *r, uint64_t key);

/*
 * The wall clock as of the last deferred work, for the time at which a span starts; 0 = ask the
 * clock. A span's age needs no better one, and to read a clock for each span takes as long as a
 * locked operation. Only the URL of a profile contains the time itself.
 */
SP_HIDDEN _Atomic uint64_t sp_span_age_now_ns;

/* APP, at deferred work: as late as the spans' ages are then. exact: each span asks the clock. */
void sp_span_age_tick(bool exact);

/* The wall clock. The coarse one takes a fifth of the time, and is late by some milliseconds. */
uint64_t sp_span_age_clock_ns(void);

static inline uint64_t sp_span_age_start_ns(void)
{
	uint64_t now = atomic_load_explicit(&sp_span_age_now_ns, memory_order_relaxed);

	return now != 0 ? now : sp_span_age_clock_ns();
}

/*
 * Shows the label of a thread to others: to the exporter, where waiting time is wanted
 * (sampler/region/thread_labels.h), and to profilers outside of the process (sampler/context/); and to the account
 * of the local root (span_times.h). To be called after each change of the thread's active span. APP, the thread
 * itself; errno untouched; no system call, but for a clock of the vDSO where waiting time is wanted, and where
 * span_times.h makes some.
 */

/* Written at activation: it matters which spans have a wait in a profile (sp_span_table_note_wait()). */
SP_HIDDEN bool sp_shown_label_notes_waits;

/* Shows it to the exporter. */
void sp_shown_label_put(struct sp_thread *t);

/* For the one below: somebody wants to be told. */
void sp_shown_label_changed(struct sp_thread *t);

static inline __attribute__((always_inline)) void sp_shown_label_update(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_thread_labels_watchers, memory_order_relaxed) != 0 &&
	    t != NULL)
		sp_shown_label_changed(t);
}

/*
 * Manual labels on the calling thread's span stack: a profile id and a name that the program
 * chooses. The innermost one labels the samples; each is a root of its own and no span's parent.
 * APP context, inside the reentrancy guard.
 *
 * Their frames differ from those of SDKs by their token, which is made of the nesting depth and the
 * name: a pop ends the frame of its own push or none, whatever happened in between.
 */

/*
 * Enters a level, without a label. To be called for every push, whether its label is shown or not.
 */
void sp_manual_label_enter(void);

/* Shows a label on the level just entered. 0, -ENOSPC (counted). */
int sp_manual_label_show(uint64_t id, uint32_t name_id);

/* Leaves the level, and its label if it has one. False at the outermost: nothing to leave. */
bool sp_manual_label_leave(void);

struct sp_span_start {
	const void *handle; /* the SDK's span object, unique while the span is open */
	const char *name;
	size_t name_len;
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t parent_id[8]; /* with has_parent */
	uint64_t
		linked_root; /* sp_active_span_linked_root() of the first of its links for which that is not 0 */
	enum sp_activation how;
	bool has_parent; /* an explicit parent was given; otherwise the span that is active on this thread
			    is the parent */
	bool by_id;  /* whoever has the object knows the id: sp_span_of_id(), not sp_span_of() */
	uint8_t sdk; /* the adapter's number */
};

/*
 * A valid, sampled, recording span has started. Whether that makes it active on the calling thread
 * until it ends depends on its SDK's activation.
 * Returns false when it could not be tracked (counted), or is being tracked under another object.
 */
bool sp_span_started(const struct sp_span_start *s);

/* The open span of that object, for attributes before the real end. False if it is not ours. */
bool sp_span_of(const void *handle, struct sp_span_record *out);

/* The same for a span that was started with by_id. */
static inline bool sp_span_of_id(uint64_t span_id, const void *handle, struct sp_span_record *out)
{
	/* another object may stand for the span, as a wrapper's does */
	return sp_span_table_by_id(span_id, out) &&
	       out->handle == ((uint64_t)(uintptr_t)handle | SP_SPAN_BY_ID);
}

/*
 * The open span ends, on whatever thread; true is the answer to one caller alone. It labels nothing from
 * then on, and it is known for good whether it has a sample; so attributes come next, and then
 * sp_span_table_release().
 */
bool sp_span_close(const struct sp_span_record *r);

/*
 * Before that release: the exporter gets to know that the span has ended, if blocks were sampled in it, and its
 * values (span_values.h).
 */
void sp_span_tell_end(const struct sp_span_record *r);

/*
 * Any context. The first of it, of a span or a label with that id: what is still there of what was allocated in it
 * belongs to no open span any more.
 */
SP_SIGSAFE void sp_span_tell_ended(uint64_t span_id);

/*
 * Gives up that open span because of its age: it labels nothing any more, and its end, should it
 * come, is ignored. APP. False if it ended meanwhile.
 */
bool sp_span_aged(const struct sp_span_record *r);

/*
 * Gives the open span of that object a new name, on any thread. Samples that are taken from now on
 * show it, on every thread, for the span and, if it is a root, for all spans below it. Bounded: one
 * look-up and one store, because stacks refer to the record. False if there is no open span of that
 * object.
 *
 * Samples that were taken before keep the old name.
 */
bool sp_span_renamed(const void *handle, const char *name, size_t len);

/* The same for the record that sp_span_of_id() gave. */
void sp_span_rename(const struct sp_span_record *r, const char *name, size_t len);

/* Forked child, only thread: of all open spans only those on the calling thread's stack remain. */
void sp_span_forked(void);

static inline bool sp_span_is_root(const struct sp_span_record *r)
{
	return r->span_id == r->root_id;
}

/*
 * What an SDK with spans that are found by their id does at each start and end: the same as above, in one
 * straight piece. It holds for a thread that has a block and a free entry at hand, and for spans that are
 * where they are expected. Everything else goes the way of the functions above, before anything was changed.
 */

static inline uint64_t sp_span_id_word(const uint8_t id[8])
{
	uint64_t w;

	memcpy(&w, id, sizeof(w));
	return w;
}

/* The local root of a span that has one above it: id 0 = it is one itself. */
struct sp_span_root {
	uint64_t id;
	uint32_t ref;
	uint32_t name_id;
};

/* By the parent's id, or, with a stack, by what is active there, if that is of the same trace. */
struct sp_span_root sp_span_find_root(const struct sp_span_stack *s, uint64_t parent_id,
				      const uint64_t trace[2]);

/* A root was started where another span is. Tells, once, that they interleave. */
void sp_span_look_for_interleaving(const struct sp_thread *t);

/* For sp_span_times_begin(). */
void sp_span_begin_times(uint32_t ref);

/* For sp_span_close_by_id(). */
uint32_t sp_span_close_any(uint64_t span_id, const void *handle);

/* That span was started on the calling thread, and is active there from now on unless it interleaves. */
static inline __attribute__((always_inline)) void sp_span_put(struct sp_thread *t, uint64_t span_id,
							      uint64_t root_id, uint8_t place,
							      enum sp_activation how,
							      uint64_t linked_root)
{
	uint64_t token = sp_active_span_start_token(how, linked_root);
	bool first = sp_span_stack_empty(&t->spans);

	sp_span_stack_put(&t->spans, span_id, token, place);
	sp_span_stack_meet_root(&t->spans);
	/* Most roots are started while no other is open on the thread. */
	if (__builtin_expect(!first, 0) && root_id == span_id && sp_span_token_stands_in(token))
		sp_span_look_for_interleaving(t);
	sp_shown_label_update(t);
}

/* sp_active_span_attached() for the span of that id, 0 = none. */
static inline __attribute__((always_inline)) bool sp_active_span_attach(uint64_t token, uint64_t id)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL || !sp_active_span_by_scopes() || !sp_active_span_scopes_used() ||
	    atomic_load_explicit(&sp_span_stack_silent, memory_order_relaxed) != 0 ||
	    !sp_span_stack_has_room(&t->spans)) {
		uint64_t whole = id;

		return sp_active_span_attached(token, (const uint8_t *)&whole);
	}
	sp_span_stack_put(&t->spans, id != 0 ? id : SP_SPAN_BLANK, token, 0);
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	return true;
}

/* The calling thread detached that scope. With through, every scope attached after it goes too. */
static inline void sp_active_span_detached(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	if (sp_span_stack_pop(&t->spans, token, through))
		t->scope_overflows = 0;
	sp_shown_label_update(t);
}

/*
 * The same, of an SDK that keeps a stack of each thread: the calling thread had attached that scope, so it has
 * not piled up if it was beyond the last frame. Of another storage nobody knows: fibers detach on one thread what
 * they attached on another, and beyond the last frame that may be taken for one of the scopes that pile up there.
 */
static inline void sp_active_span_detached_here(uint64_t token, bool through)
{
	struct sp_thread *t = sp_thread_own;
	uint32_t beyond;

	if (t == NULL)
		return;
	beyond = atomic_load_explicit(&t->spans.beyond, memory_order_relaxed);
	sp_active_span_detached(token, through);
	if (t->scope_overflows != 0 &&
	    atomic_load_explicit(&t->spans.beyond, memory_order_relaxed) < beyond)
		t->scope_overflows--;
}

/* sp_span_started() with the name as it was interned. */
bool sp_span_started_as(const struct sp_span_start *s, uint32_t name_id);

/*
 * The same for a start with by_id. The name comes first, and not in *s, because to intern it is a call, in
 * which nothing else should have to be kept.
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

	/* A thread that has ended a span has an entry at hand, and so there is a table. */
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
	/* As in put_in() of span_table.c. Where another thread has just taken the cell, nothing was done. */
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
	if (activates)
		sp_span_put(t, id, root.id, 0, s->how, s->linked_root);
	return true;
}

/* For whoever may not know how names are kept. */
static inline uint32_t sp_span_name(const char *name, size_t len)
{
	return sp_names_intern(name, len);
}

/*
 * sp_span_close() for the span of that id and object, which was started with by_id: its reference, for
 * sp_span_table_leave(). 0: there is none, or another caller ends it. The exchange says that the cell, and
 * so the entry that was read before, was the span's all the time.
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
		sp_span_stack_ended(&t->spans, id, sp_span_word_beyond(place));
	if (t->spans.root.id == id)
		t->spans.root.name_id = (uint32_t)(sp_span_word(e, SP_SPAN_WORD_NAMES) >> 32);
	sp_shown_label_update(t);
	sp_count_span_ended(t->index);
	return ref;
}

#endif
