/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Span semantics, the same for every SDK: which span labels a thread's samples, and what its local
 * root is. APP context, inside the reentrancy guard, which preserves errno; bounded, lock-free.
 */
#ifndef SP_SPAN_H
#define SP_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/open_spans/span_table.h"
#include "sampler/span/active_span.h"

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

#endif
