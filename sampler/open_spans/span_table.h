/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span table: all open recorded spans of the process, found by span id and by the SDK's handle, and
 * the only place that knows anything about a span. Bounded, lock-free; any number of threads.
 *
 * A span ends in two steps. sp_span_table_close() makes it unfindable: from then on it is active
 * nowhere and no sample gets its label. Its entry, and what is noted there, is the caller's until
 * sp_span_table_release(), so that attributes can say whether it has a sample after the last one was
 * taken.
 *
 * Contexts: APP, but for the functions with SP_SIGSAFE, which any context may call.
 */
#ifndef SP_SPAN_TABLE_H
#define SP_SPAN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

#define SP_SPANS_MAX 16384U
/* Frames of a thread's stack (span_stack.h). */
#define SP_SPAN_DEPTH_MAX 128U
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
	uint16_t thread; /* block of the thread that its start put it on; or SP_SPAN_NO_THREAD */
	uint8_t sdk;     /* the adapter's number */
	uint8_t beyond;  /* span_stack.h: the generation beyond its last frame; 0 = a frame */
	uint32_t ref; /* written by the table: finds this record, never a later one in the entry */
	_Atomic uint64_t *cell; /* the same: where its id was found; NULL = not in its home line */
};
#define SP_SPAN_NO_THREAD UINT16_MAX
/* A bit that no address has: the span is found by its id alone, which costs one index less. */
#define SP_SPAN_BY_ID (UINT64_C(1) << 63)

/*
 * Free entries that a thread has at hand, so that a span that starts and ends on it touches nothing of
 * others. A part of its block (thread.h).
 */
#define SP_SPAN_SPARE_MAX 16U
struct sp_span_spare {
	uint32_t n;
	uint32_t ref[SP_SPAN_SPARE_MAX];
};
/* The calling thread's; NULL while it has none. */
extern SP_TLS struct sp_span_spare *sp_span_spare_own;

/* Whoever frees the block of a thread that has ended: what it had at hand is everybody's again. */
void sp_span_table_thread_ended(struct sp_span_spare *spare);

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
SP_SIGSAFE bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out);

/* Copies the open span of that SDK object. */
bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out);

/* It is open no longer; true for exactly one of several concurrent callers. */
bool sp_span_table_close(const struct sp_span_record *r);

/* Whoever closed it: the entry is another span's from now on. */
void sp_span_table_release(const struct sp_span_record *r);

/* Gives the open span a new name; if it is a root, its root_name_id changes with it. */
void sp_span_table_rename(const struct sp_span_record *r, uint32_t name_id);

/* The names of that span as they are now. False if it was released. */
SP_SIGSAFE bool sp_span_table_names(uint32_t ref, uint64_t span_id, struct sp_span_names *out);

/*
 * Notes that a sample carries the id of that span, if the span was not released yet. Any number of
 * threads and handlers; a late note never reaches the next span of the entry.
 */
SP_SIGSAFE void sp_span_table_note_sample(uint32_t ref, uint64_t span_id);

/* The same of a wait that is in a profile. */
SP_SIGSAFE void sp_span_table_note_wait(uint32_t ref, uint64_t span_id);

/* Whether that was noted of the span, which was not released yet: one of them, a sample, a wait. */
bool sp_span_table_has_note(const struct sp_span_record *r);
bool sp_span_table_has_sample(const struct sp_span_record *r);
bool sp_span_table_has_wait(const struct sp_span_record *r);

/*
 * The program has set these attributes of ours itself: one bit each, whose meaning the caller knows.
 * Its values must stay. The other one tells all that were added for this span until its release.
 */
void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys);
uint8_t sp_span_keys(const struct sp_span_record *r);

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
 * Forked child, only thread: forgets all spans except those that their start put on the thread with
 * block `keep_thread` and those with the given ids, at most twice SP_SPAN_DEPTH_MAX. They have new
 * references then.
 */
void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n);

#endif
