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
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/open_spans/span_table_sig.h"
#include "sampler/region/names.h"
#include "sampler/span/active_span.h"
#include "sampler/span/shown_label.h"
#include "sampler/span/span_age.h"
#include "sampler/span/span_times.h"
#include "sampler/thread/thread.h"

struct sp_span_start {
	const void *handle; /* the SDK's span object, unique while the span is open */
	const char *name;
	size_t name_len;
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t parent_id[8]; /* with has_parent */
	enum sp_activation how;
	bool has_parent; /* an explicit parent was given; otherwise the span that is active on this thread
			    is the parent */
	bool by_id;  /* whoever has the object knows the id: sp_span_of_id(), not sp_span_of() */
	uint8_t sdk; /* the adapter's number */
};

/*
 * A valid, sampled, recording span has started. Whether that makes it active on the calling thread
 * until it ends depends on its SDK's activation (active_span.h).
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
 * The span of that object ends, on whatever thread. Idempotent: false if there is no open span of
 * that object.
 */
bool sp_span_ended(const void *handle);

/*
 * The same in two steps, for the record that sp_span_of() gave. After the first, for which true is the
 * answer to one caller alone, the span labels nothing, and it is known for good whether it has a
 * sample; so attributes come next, and then sp_span_table_release().
 */
bool sp_span_close(const struct sp_span_record *r);

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
 * Samples that were taken before keep the old name, and so do those of children that outlive their
 * root.
 */
bool sp_span_renamed(const void *handle, const char *name, size_t len);

/* The same for the record that sp_span_of_id() gave. */
void sp_span_rename(const struct sp_span_record *r, const char *name, size_t len);

/* Forked child, only thread: of all open spans only those on the calling thread's stack remain. */
void sp_span_forked(void);

/* The name of the span's root as it is now. */
uint32_t sp_span_root_name(const struct sp_span_record *r);

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
							      enum sp_activation how)
{
	uint64_t token = sp_active_span_start_token(how);
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
	sp_span_set_word(e, SP_SPAN_WORD_NAMES, (uint64_t)root.name_id << 32 | name_id);
	sp_span_set_word(e, SP_SPAN_WORD_PLACE,
			 (uint64_t)s->sdk << 48 |
				 (uint64_t)(activates ? t->index : SP_SPAN_NO_THREAD) << 32 |
				 root.ref);
	/* As in sp_span_index_put_in(). Where another thread has just taken the cell, nothing was done. */
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
		sp_span_put(t, id, root.id, 0, s->how);
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
	struct sp_span_line *index = sp_span_index_by_id();
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
