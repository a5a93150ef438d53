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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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
	uint32_t root_ref; /* the local root's reference, its own one's for a root; 0 = none */
	uint16_t thread;   /* block of the thread that its start put it on; or SP_SPAN_NO_THREAD */
	uint8_t sdk;       /* the adapter's number */
	uint8_t beyond;    /* span_stack.h: the generation beyond its last frame; 0 = a frame */
	uint32_t name_id;
	uint32_t
		root_name_id; /* as it was at the start; sp_span_table_root_name() follows a rename */
	uint32_t ref; /* written by the table: finds this record, never a later one in the entry */
	_Atomic uint64_t *cell; /* the same: where its id was found; NULL = not in its home line */
};
#define SP_SPAN_NO_THREAD UINT16_MAX
/* A bit that no address has: the span is found by its id alone, which costs one index less. */
#define SP_SPAN_BY_ID (UINT64_C(1) << 63)

/*
 * Free entries that a thread has at hand, so that a span that starts and ends on it touches nothing of
 * others. A part of its block (thread.h). What a thread has nobody else can take, and a thread that ends what others
 * start would have as many as it may: so the more threads there are, the fewer it may have, and all of them together
 * leave some thousand entries to threads that have none.
 */
#define SP_SPAN_SPARE_MAX 16U
#define SP_SPAN_SPARES 2048U
#define SP_SPAN_SPARE_THREADS 8192U
struct sp_span_spare {
	uint32_t n;
	uint32_t ref[SP_SPAN_SPARE_MAX];
};
/* The calling thread's; NULL while it has none. */
extern SP_TLS struct sp_span_spare *sp_span_spare_own;

/* Whoever makes a block: so many there have been. */
void sp_span_table_threads(uint32_t threads);

/* Whoever frees the block of a thread that has ended: what it had at hand is everybody's again. */
void sp_span_table_thread_ended(struct sp_span_spare *spare);

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

/*
 * The name of the span's local root as it is now, or was when the root ended. Last names share 16,384 places by
 * their hash: when a later root that is renamed takes the place of one that has ended, its name is again
 * the one that it had when the span was started.
 */
SP_SIGSAFE uint32_t sp_span_table_root_name(const struct sp_span_record *r);

/* A span with that id has that entry, and was not released yet. */
SP_SIGSAFE bool sp_span_table_holds(uint32_t ref, uint64_t span_id);

/*
 * Notes that a sample carries the id of that span, if the span was not released yet. Any number of
 * threads and handlers; a late note never reaches the next span of the entry.
 */
SP_SIGSAFE void sp_span_table_note_sample(uint32_t ref, uint64_t span_id);

/* The same of a wait that is in a profile. */
SP_SIGSAFE void sp_span_table_note_wait(uint32_t ref, uint64_t span_id);

/*
 * The same of an allocation that was sampled. False if the span is closed already: who has done that may not have found
 * the note, or have told the end before the sample.
 */
SP_SIGSAFE bool sp_span_table_note_allocation(uint32_t ref, uint64_t span_id);

/* Whether that was noted of the span, which was not released yet: a sample or a wait; a sample, a wait, an allocation. */
bool sp_span_table_has_note(const struct sp_span_record *r);
bool sp_span_table_has_sample(const struct sp_span_record *r);
bool sp_span_table_has_wait(const struct sp_span_record *r);
bool sp_span_table_has_allocation(const struct sp_span_record *r);

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
 * The open span with the earliest start among those that take the place of one with that id or that
 * object. False if there is none.
 */
bool sp_span_table_oldest(uint64_t key, struct sp_span_record *out);

/* Open spans right now; walks the whole table. */
uint32_t sp_span_table_count(void);

/*
 * Forked child, only thread: forgets all spans except those that their start put on the thread with
 * block `keep_thread` and those with the given ids, at most twice SP_SPAN_DEPTH_MAX. They have new
 * references then.
 */
void sp_span_table_forked(uint32_t keep_thread, const uint64_t *ids, unsigned n);

/*
 * The index of the span table: a hash table from a 64-bit key, which is a span's id or its object, to a
 * reference. Any number of threads, no locks. The record says whose key it is.
 *
 * Each key has a home, which is one cache line of cells. It lies there or, if that line was full,
 * in one of the lines that follow. A line counts its keys that had to go further. So a look-up that
 * finds nothing, which is the common case, reads one line, however many spans are open.
 *
 * Span ids are random. In a large index the home of each would have left the caches since it was
 * last used, and this cache miss would cost more than all the rest of a span. So the first line of
 * a key is in a small part in front, which suffices for some thousand open spans. As long as keys of a line in
 * front lie in the large part behind, because it was full, later ones go there, too.
 *
 * A cell holds a part of the key's hash, its tag, beside the reference: the record itself is read
 * only when the tag matches. The tag is the lower half, where it can be compared without a shift.
 */
/* Of 64 bytes each: the part in front is a fraction of a second-level cache. */
#define SP_SPAN_INDEX_FRONT 1024U
#define SP_SPAN_INDEX_BACK 8192U
#define SP_SPAN_INDEX_LINES (SP_SPAN_INDEX_FRONT + SP_SPAN_INDEX_BACK)
#define SP_SPAN_INDEX_CELLS 7U
/* Lines that a key may lie in: the bound of every walk here. */
#define SP_SPAN_INDEX_REACH 5U

struct sp_span_line {
	_Atomic uint64_t cell[SP_SPAN_INDEX_CELLS]; /* reference << 32 | tag; 0 = empty */
	_Atomic uint32_t beyond; /* how many of this line's keys lie in lines after it */
};
_Static_assert(sizeof(struct sp_span_line) == 64, "one cache line");
_Static_assert(SP_SPAN_INDEX_REACH *SP_SPAN_INDEX_CELLS == SP_SPAN_WINDOW, "as promised");

/* Fibonacci hashing: the upper bits depend on all bits of the key. */
static inline uint64_t sp_span_index_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15);
}

/* Line 0 is the one in front. */
static inline struct sp_span_line *sp_span_index_line(struct sp_span_line *index, uint64_t hash,
						      uint32_t i)
{
	if (i == 0)
		return &index[(hash >> 40) % SP_SPAN_INDEX_FRONT];
	return &index[SP_SPAN_INDEX_FRONT + ((hash >> 40) + i) % SP_SPAN_INDEX_BACK];
}

static inline uint64_t sp_span_index_word(uint64_t hash, uint32_t ref)
{
	return (uint64_t)ref << 32 | hash >> 32;
}

static inline uint32_t sp_span_index_ref(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Keys of that line may lie further on. */
static inline bool sp_span_index_further(const struct sp_span_line *line)
{
	return atomic_load_explicit(&line->beyond, memory_order_relaxed) != 0;
}

/* The cell's word, if it may be of a key with that hash; otherwise 0. */
static inline uint64_t sp_span_index_load(const _Atomic uint64_t *cell, uint64_t hash)
{
	/* pairs with the release that stored it: the record before its reference */
	uint64_t word = atomic_load_explicit(cell, memory_order_acquire);

	return (uint32_t)word == hash >> 32 ? word : 0;
}

/* The entries of the span table, which APP writes and the signal handler reads. */
#define SP_SPAN_WORDS (offsetof(struct sp_span_record, ref) / sizeof(uint64_t))

/* The record as words, so that a reader racing with reuse reads stale values, not torn ones. */
struct sp_span_words {
	_Atomic uint64_t word[SP_SPAN_WORDS];
};
_Static_assert(offsetof(struct sp_span_record, ref) == 64, "one cache line");
_Static_assert(offsetof(struct sp_span_record, span_id) == 0, "word 0 is the id");
_Static_assert(offsetof(struct sp_span_record, handle) == 16, "word 2 is the handle");
_Static_assert(offsetof(struct sp_span_record, root_ref) == 48, "word 6 is what is below");
_Static_assert(offsetof(struct sp_span_record, thread) == 52, "of 16 bits, from bit 32 on");
_Static_assert(offsetof(struct sp_span_record, sdk) == 54, "of 8 bits, from bit 48 on");
_Static_assert(offsetof(struct sp_span_record, beyond) == 55, "of 8 bits, from bit 56 on");
_Static_assert(offsetof(struct sp_span_record, name_id) == 56, "word 7 is both names");
_Static_assert(offsetof(struct sp_span_record, root_name_id) == 60, "word 7 is both names");

/*
 * Written in this order. The id is 0 before the first use and after the span's release. A root's place has
 * its own reference, so whoever has read names and then finds that one there has not read a later root's.
 */
enum {
	SP_SPAN_WORD_ID = 0,
	SP_SPAN_WORD_ROOT = 1,
	SP_SPAN_WORD_HANDLE = 2,
	SP_SPAN_WORD_TRACE = 3,
	SP_SPAN_WORD_START = 5,
	SP_SPAN_WORD_PLACE = 6,
	SP_SPAN_WORD_NAMES = 7
};

/*
 * A reference to an entry: its number + 1, and above that how often the entry was used before.
 * Without the count, a slow caller could take a reused entry for the span that it had found.
 */
#define SP_SPAN_NUMBER_BITS 15U
#define SP_SPAN_NUMBER_MASK ((1U << SP_SPAN_NUMBER_BITS) - 1)
_Static_assert(SP_SPANS_MAX <= SP_SPAN_NUMBER_MASK, "a number and its 1 fit");

/*
 * NULL before sp_span_table_init(), and the same from then on. The index comes last, so whoever sees it
 * sees the others.
 */
struct sp_span_tables {
	struct sp_span_words *words;
	/*
	 * For each entry the id of the last span that was sampled, of the last that has a wait in a
	 * profile, and of the last that has a sampled allocation. An id and not a flag: if a slow handler writes it after the
	 * entry was reused, it does not count for the next span.
	 */
	_Atomic uint64_t *noted;
	/* Of roots that were renamed, by a hash of id and reference: a part of it << 32 | the name. */
	_Atomic uint64_t *renamed;
	struct sp_span_line *_Atomic index;
	_Atomic uint32_t spare_max; /* what each thread may have at hand */
};
enum sp_span_note {
	SP_SPAN_NOTE_SAMPLE,
	SP_SPAN_NOTE_WAIT,
	SP_SPAN_NOTE_ALLOCATION,
	SP_SPAN_NOTES
};
SP_HIDDEN struct sp_span_tables sp_span_tables;

static inline SP_SIGSAFE struct sp_span_line *sp_span_index(void)
{
	/* pairs with the release in sp_span_table_init() */
	return atomic_load_explicit(&sp_span_tables.index, memory_order_acquire);
}

/* A reference comes again when its entry was used 131,072 times, so it is not enough. */
static inline SP_SIGSAFE uint64_t sp_span_renamed_hash(uint64_t root_id, uint32_t ref)
{
	return sp_span_index_hash(root_id ^ sp_span_index_hash(ref));
}

static inline SP_SIGSAFE uint64_t sp_span_renamed_tag(uint64_t root_id, uint32_t ref)
{
	return sp_span_renamed_hash(root_id, ref) << 24 & ~(uint64_t)UINT32_MAX;
}

static inline SP_SIGSAFE _Atomic uint64_t *sp_span_table_renamed(uint64_t root_id, uint32_t ref)
{
	return &sp_span_tables.renamed[(sp_span_renamed_hash(root_id, ref) >> 40) % SP_SPANS_MAX];
}

static inline SP_SIGSAFE struct sp_span_words *sp_span_entry(uint32_t ref)
{
	return &sp_span_tables.words[(ref & SP_SPAN_NUMBER_MASK) - 1];
}

/* A word of an entry, and what it says. */
static inline SP_SIGSAFE uint64_t sp_span_word(const struct sp_span_words *e, unsigned which)
{
	return atomic_load_explicit(&e->word[which], memory_order_acquire);
}

static inline void sp_span_set_word(struct sp_span_words *e, unsigned which, uint64_t w)
{
	/* Pairs with sp_span_load(): whoever reads a new word finds the old reference removed. */
	atomic_store_explicit(&e->word[which], w, memory_order_release);
}

static inline uint16_t sp_span_word_thread(uint64_t place)
{
	return (uint16_t)(place >> 32);
}

static inline uint8_t sp_span_word_beyond(uint64_t place)
{
	return (uint8_t)(place >> 56);
}

static inline SP_SIGSAFE void sp_span_load(uint32_t ref, struct sp_span_record *r)
{
	const struct sp_span_words *e = sp_span_entry(ref);

#pragma GCC unroll 8
	for (size_t i = 0; i < SP_SPAN_WORDS; i++) {
		uint64_t w = sp_span_word(e, (unsigned)i);

		__builtin_memcpy((char *)r + i * sizeof(w), &w, sizeof(w));
	}
	r->ref = ref;
	r->cell = NULL;
}

/* any | *cell: as one instruction where there is one, since a load of its own would take a register more. */
static inline uint64_t sp_span_or_cell(uint64_t any, const _Atomic uint64_t *cell)
{
#if defined(__x86_64__)
	__asm__("orq %1, %0" : "+r"(any) : "m"(*cell) : "cc");
	return any;
#else
	return any | atomic_load_explicit(cell, memory_order_relaxed);
#endif
}

/* For sp_span_table_room(). */
_Atomic uint64_t *sp_span_table_find_room(struct sp_span_line *line, uint64_t hash);

/*
 * Where the table, which has been made, has a cell in the line in front for a span with an id of that hash,
 * which it certainly does not have. False: it may have it, or there is no room in front. A line without any
 * key is the common case, which one comparison tells.
 */
static inline bool sp_span_table_room(uint64_t hash, _Atomic uint64_t **cell)
{
	struct sp_span_line *line = sp_span_index_line(sp_span_index(), hash, 0);
	uint64_t any = atomic_load_explicit(&line->beyond, memory_order_relaxed);

#pragma GCC unroll 7
	for (uint32_t c = 0; c < SP_SPAN_INDEX_CELLS; c++)
		any = sp_span_or_cell(any, &line->cell[c]);
	*cell = &line->cell[0];
	if (any == 0)
		return true;
	*cell = sp_span_table_find_room(line, hash);
	return *cell != NULL;
}

/* Any note of the span in that entry. */
static inline bool sp_span_table_is_noted(uint32_t ref, uint64_t span_id)
{
	const _Atomic uint64_t *noted =
		&sp_span_tables.noted[(size_t)((ref & SP_SPAN_NUMBER_MASK) - 1) * SP_SPAN_NOTES];

	for (unsigned i = 0; i < SP_SPAN_NOTES; i++)
		if (atomic_load_explicit(&noted[i], memory_order_relaxed) == span_id)
			return true;
	return false;
}

/* For sp_span_table_leave(): the thread, which may have none, has enough at hand. */
void sp_span_table_give(struct sp_span_spare *spare, uint32_t ref);

/* Whoever closed the span: its entry is another span's from now on, and has another reference then. */
static inline void sp_span_table_leave(uint32_t ref)
{
	struct sp_span_spare *spare = sp_span_spare_own;
	uint32_t next_use = ref + SP_SPAN_NUMBER_MASK + 1;

	/* relaxed: the words that follow it in the entry's next record carry a release */
	atomic_store_explicit(&sp_span_entry(ref)->word[SP_SPAN_WORD_ID], 0, memory_order_relaxed);
	if (spare != NULL &&
	    spare->n < atomic_load_explicit(&sp_span_tables.spare_max, memory_order_relaxed))
		spare->ref[spare->n++] = next_use;
	else
		sp_span_table_give(spare, next_use);
}

#endif
