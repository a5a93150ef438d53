/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span table: all open recorded spans of the process, found by span id (a child asks for its
 * parent's root) and by the SDK's handle (an end may come on any thread). Bounded, lock-free.
 * Context: APP.
 *
 * Two indexes (span_index.h) point into one array of entries. They have no tombstones, and a
 * look-up reads one or two lines of an index, whatever happened before.
 */
#ifndef SP_SPAN_TABLE_H
#define SP_SPAN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

#define SP_SPANS_MAX 16384U
/* So many keys with the same hash find room. */
#define SP_SPAN_WINDOW 35U

struct sp_span_record {
	uint64_t span_id;
	uint64_t root_id;
	uint64_t handle;   /* with SP_SPAN_BY_ID it is no key */
	uint64_t trace[2]; /* 16 bytes in W3C order */
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint32_t name_id;
	uint32_t root_name_id; /* as it was at the start; sp_span_table_names() follows a rename */
	uint32_t root_ref;     /* the local root's reference, its own one's for a root; 0 = none */
	uint16_t thread;       /* block of the thread whose stack holds it; or SP_SPAN_NO_THREAD */
	uint8_t slot;          /* its slot there */
	uint8_t stand_in; /* active_span.h: how start and end stand in for its SDK's scopes; 0 = they do not */
	uint32_t ref; /* written by the table: finds this record, never a later one in the entry */
};
#define SP_SPAN_NO_THREAD UINT16_MAX
/* A bit that no address has: the span is found by its id alone, which costs one index less. */
#define SP_SPAN_BY_ID (UINT64_C(1) << 63)

struct sp_span_names {
	uint32_t name_id;
	uint32_t root_name_id;
};

/* APP, at activation. Idempotent. 0 or -ENOMEM. */
int sp_span_table_init(void);

/* 0, with r->ref, or -ENOSPC. A root, whose two ids are equal, gets itself as root_ref. */
int sp_span_table_add(struct sp_span_record *r);

/*
 * The table may have a span with that id or that object. False is certain, and by far the most
 * frequent answer for a span that is to be added.
 */
bool sp_span_table_may_have(uint64_t span_id, uint64_t handle);

/* Copies the open span with that id. */
bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out);

/* Copies the open span of that SDK object. */
bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out);

/* Removes it; true for exactly one of several concurrent callers. */
bool sp_span_table_remove(uint64_t span_id, struct sp_span_record *out);

/* The same for a copy that the caller has of it. */
bool sp_span_table_close(const struct sp_span_record *r);

/* Gives the open span a new name; if it is a root, its root_name_id changes with it. */
void sp_span_table_rename(const struct sp_span_record *r, uint32_t name_id);

/* The names of that span as they are now. False if it is no longer open. */
SP_SIGSAFE bool sp_span_table_names(uint32_t ref, uint64_t span_id, struct sp_span_names *out);

/* The same without the names. */
SP_SIGSAFE bool sp_span_table_is_open(uint32_t ref, uint64_t span_id);

/*
 * Notes that a sample carries the id of that span, if the span is still open. Any number of threads
 * and handlers; a late note never reaches the next span of the entry.
 */
SP_SIGSAFE void sp_span_table_note_sample(uint32_t ref, uint64_t span_id);

/* The same of a wait that is in a profile. */
SP_SIGSAFE void sp_span_table_note_wait(uint32_t ref, uint64_t span_id);

/* Whether that was noted of the span. */
bool sp_span_table_has_sample(const struct sp_span_record *r);
bool sp_span_table_has_wait(const struct sp_span_record *r);

/*
 * Walks all open spans, as long as it returns true; *at is 0 at first. Spans that start or end
 * meanwhile may be seen or not.
 */
bool sp_span_table_next(uint32_t *at, struct sp_span_record *out);

/*
 * The open span with the earliest start among those that take the place of the given one: in the
 * window of its id or, with by_handle, of its handle. False if there is none.
 */
bool sp_span_table_oldest(const struct sp_span_record *r, bool by_handle,
			  struct sp_span_record *out);

/* Open spans right now; walks the whole table. */
uint32_t sp_span_table_count(void);

/*
 * Forked child, only thread: forgets all spans except those that were started on the stack of block
 * `keep_thread` and those with the given ids, at most SP_SPAN_DEPTH_MAX. They have new references
 * then.
 */
void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n);

#endif
