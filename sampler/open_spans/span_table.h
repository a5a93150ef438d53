/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span table: all open recorded spans of the process, found by span id and by the SDK's handle.
 * All facts about a span are here and nowhere else. Bounded, lock-free; any number of threads.
 *
 * A span ends in two steps. After sp_span_table_close() no look-up finds it: it is active nowhere
 * and no sample gets its label. The entry and the marks in it belong to the caller until
 * sp_span_table_release(), so that attributes can say whether the span has a sample after the last
 * one was taken.
 *
 * Contexts: APP; functions with SP_SIGSAFE in any context.
 */
#ifndef SP_SPAN_TABLE_H
#define SP_SPAN_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

#define SP_SPANS_MAX 16384U
/* The number of frames in a thread's stack (span_stack.h). */
#define SP_SPAN_DEPTH_MAX 128U
/* The table has room for this many keys with the same hash. */
#define SP_SPAN_WINDOW 35U

struct sp_span_record {
	uint64_t span_id;
	uint64_t root_id;
	uint64_t handle;   /* with SP_SPAN_BY_ID: not a key */
	uint64_t trace[2]; /* 16 bytes in W3C order */
	uint64_t start_ns; /* CLOCK_REALTIME */
	uint32_t root_ref; /* the local root's reference; a root's own; 0 = none */
	uint16_t thread;   /* block of the thread that its start put it on; or SP_SPAN_NO_THREAD */
	uint8_t sdk;       /* the adapter's number */
	uint8_t forgot; /* 0 = the frame of its start was never forgotten; or SP_SPAN_FORGOT and more */
	uint32_t name_id;
	uint32_t root_name_id; /* at the start; sp_span_table_root_name() follows a rename */
	uint32_t ref; /* set by the table: finds this record, and never a later one in the entry */
	_Atomic uint64_t *cell; /* set by the table: its id's cell; NULL = not in its home line */
};
#define SP_SPAN_NO_THREAD UINT16_MAX
/*
 * Bits of `forgot`. SP_SPAN_FORGOT: the stack of its thread has forgotten the frame of its start
 * (span_stack.h); the lower bits say which user of the thread's block that was.
 * SP_SPAN_ENDED_ELSEWHERE: another thread has ended the span.
 */
#define SP_SPAN_FORGOT 0x40U
#define SP_SPAN_ENDED_ELSEWHERE 0x80U
/* A bit that no address has: the span is found by its id alone, which saves one index word. */
#define SP_SPAN_BY_ID (UINT64_C(1) << 63)

/*
 * The private free entries of a thread, so that a span that starts and ends on the thread touches
 * no memory of other threads. A part of the thread's block (thread.h). No other thread can take
 * these entries, and a thread that ends other threads' spans would hoard them. So the more threads
 * there are, the fewer each may have; some thousand entries remain shared.
 */
#define SP_SPAN_SPARE_MAX 16U
#define SP_SPAN_SPARES 2048U
#define SP_SPAN_SPARE_THREADS 8192U
struct sp_span_spare {
	uint32_t n;
	uint32_t ref[SP_SPAN_SPARE_MAX];
};
/* The private free entries of the calling thread; NULL = it has none. */
extern SP_TLS struct sp_span_spare *sp_span_spare_own;

/* To be called when a block is made: the number of blocks made so far. */
void sp_span_table_threads(uint32_t threads);

/*
 * To be called when the block of an ended thread is freed: gives its free entries back to all
 * threads.
 */
void sp_span_table_thread_ended(struct sp_span_spare *spare);

/* APP, at activation. Idempotent. 0 or -ENOMEM. */
int sp_span_table_init(void);

/*
 * Adds the span and sets r->ref. Returns 0 or -ENOSPC. A root, whose two ids are equal, gets itself
 * as root_ref.
 */
int sp_span_table_add(struct sp_span_record *r);

/*
 * Whether the table may have a span with that id or that object. False is certain, and nearly
 * always the answer for a span that is to be added.
 */
bool sp_span_table_may_have(uint64_t span_id, uint64_t handle);

/* Copies the open span with that id. */
SP_SIGSAFE bool sp_span_table_by_id(uint64_t span_id, struct sp_span_record *out);

/* Copies the open span of that SDK object. */
bool sp_span_table_by_handle(uint64_t handle, struct sp_span_record *out);

/* Closes the span; true for exactly one of several concurrent callers. */
bool sp_span_table_close(const struct sp_span_record *r);

/* To be called by the thread that closed the span: frees the entry. */
void sp_span_table_release(const struct sp_span_record *r);

/* Gives the open span a new name; if it is a root, its root_name_id changes with it. */
void sp_span_table_rename(const struct sp_span_record *r, uint32_t name_id);

/*
 * The present name of the span's local root, or its name when it ended. These names share 16,384
 * words by a hash: if a later root that is renamed takes the word of an ended one, the ended root
 * has again the name from the start of the span.
 */
SP_SIGSAFE uint32_t sp_span_table_root_name(const struct sp_span_record *r);

/* Whether the entry has the span with that id, which is not released yet. */
SP_SIGSAFE bool sp_span_table_holds(uint32_t ref, uint64_t span_id);

/*
 * Marks that a sample carries the id of the span, if it is not released yet. For any number of
 * threads and handlers; a late mark never reaches the next span of the entry.
 */
SP_SIGSAFE void sp_span_table_mark_sample(uint32_t ref, uint64_t span_id);

/* The same for a wait in a profile. */
SP_SIGSAFE void sp_span_table_mark_wait(uint32_t ref, uint64_t span_id);

/*
 * The same for a sampled allocation. False if the span is already closed: the thread that closed it
 * may have missed the mark, or have reported the end before the sample.
 */
SP_SIGSAFE bool sp_span_table_mark_allocation(uint32_t ref, uint64_t span_id);

/*
 * Whether the span, which is not released yet, has a mark: for a sample or a wait; a sample; a
 * wait; an allocation.
 */
bool sp_span_table_has_mark(const struct sp_span_record *r);
bool sp_span_table_has_sample(const struct sp_span_record *r);
bool sp_span_table_has_wait(const struct sp_span_record *r);
bool sp_span_table_has_allocation(const struct sp_span_record *r);

/*
 * Adds attributes of ours that the program has set itself: one bit each, defined by the caller. The
 * program's values must stay. sp_span_keys() returns all bits that were added for this span.
 */
void sp_span_keys_add(const struct sp_span_record *r, uint8_t keys);
uint8_t sp_span_keys(const struct sp_span_record *r);

/*
 * Walks all open spans while it returns true; *at is 0 at first. A walk may miss spans that start
 * or end meanwhile.
 */
bool sp_span_table_next(uint32_t *at, struct sp_span_record *out);

/*
 * The same for at most *most entries. Afterwards *at is the last one of them, or 0 at the end of
 * the table.
 */
bool sp_span_table_next_of(uint32_t *at, uint32_t *most, struct sp_span_record *out);

/*
 * Copies the span with the earliest start among the open spans that occupy cells for that key.
 * False if there is none.
 */
bool sp_span_table_oldest(uint64_t key, struct sp_span_record *out);

/* The number of open spans; walks the whole table. */
uint32_t sp_span_table_count(void);

/* A call of the host waits for the walk, so one call reads at most this many entries. */
#define SP_SPAN_LOOK_MAX 1024U

/*
 * APP, one thread at a time. Continues to count the open spans, SP_SPAN_LOOK_MAX entries a call.
 * Returns the count of the last complete walk.
 */
uint32_t sp_span_table_count_on(void);

/*
 * For the owner of the stack that has the frame of that span's start. Stores `forgot` in the span's
 * record. False if another thread is ending the span.
 */
bool sp_span_table_forget(const struct sp_span_record *r, uint8_t forgot);

/*
 * For another thread that has closed that span and not released it. Returns the record's final
 * `forgot`.
 */
uint8_t sp_span_table_end_elsewhere(const struct sp_span_record *r);

/*
 * Forked child, only thread: removes all spans except those with the given ids and those that were
 * started on the thread with block `had_block`, at most twice SP_SPAN_DEPTH_MAX. The remaining
 * spans get new references, and their thread is now the block `has_block`.
 */
void sp_span_table_forked(uint32_t had_block, uint16_t has_block, const uint64_t *ids, unsigned n);

/*
 * The index of the span table: a hash table from a 64-bit key, which is a span's id or its object,
 * to a reference. Any number of threads, no locks. The record has the whole key.
 *
 * Each key has a home, which is one cache line of cells. The key lies there or, if that line was
 * full, in one of the next lines. A line counts its keys that lie further on. So a look-up that
 * finds nothing, which is the common case, reads one line, however many spans are open.
 *
 * Span ids are random. In a large index the home line of an id would not be in the caches, and this
 * cache miss would cost more than all other work for a span. So the first line of a key is in a
 * small part in front, which suffices for some thousand open spans. If a line in front was full and
 * some of its keys are in the large part, its later keys go there, too.
 *
 * A cell has a part of the key's hash, its tag, beside the reference: the record is read only if
 * the tag matches. The tag is in the lower half, where it can be compared without a shift.
 */
/* In lines of 64 bytes: the part in front is a fraction of a second-level cache. */
#define SP_SPAN_INDEX_FRONT 1024U
#define SP_SPAN_INDEX_BACK 8192U
#define SP_SPAN_INDEX_LINES (SP_SPAN_INDEX_FRONT + SP_SPAN_INDEX_BACK)
#define SP_SPAN_INDEX_CELLS 7U
/* The number of lines that a key may lie in, which bounds every walk here. */
#define SP_SPAN_INDEX_REACH 5U

struct sp_span_line {
	_Atomic uint64_t cell[SP_SPAN_INDEX_CELLS]; /* reference << 32 | tag; 0 = empty */
	_Atomic uint32_t beyond; /* the number of this line's keys in lines behind it */
};
_Static_assert(sizeof(struct sp_span_line) == 64, "one cache line");
_Static_assert(SP_SPAN_INDEX_REACH *SP_SPAN_INDEX_CELLS == SP_SPAN_WINDOW, "as promised");

/* Fibonacci hashing: the upper bits depend on all bits of the key. */
static inline uint64_t sp_span_index_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15);
}

/* Line 0 is the line in front. */
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

/* Whether keys of that line may lie further on. */
static inline bool sp_span_index_further(const struct sp_span_line *line)
{
	return atomic_load_explicit(&line->beyond, memory_order_relaxed) != 0;
}

/* The cell's word if its key may have that hash; otherwise 0. */
static inline uint64_t sp_span_index_load(const _Atomic uint64_t *cell, uint64_t hash)
{
	/* pairs with the release that stored the word: the record is complete */
	uint64_t word = atomic_load_explicit(cell, memory_order_acquire);

	return (uint32_t)word == hash >> 32 ? word : 0;
}

/* The entries of the span table, which APP writes and the signal handler reads. */
#define SP_SPAN_WORDS (offsetof(struct sp_span_record, ref) / sizeof(uint64_t))

/*
 * The record as words. A reader that races with a reuse reads old or new words, but never half of
 * one.
 */
struct sp_span_words {
	_Atomic uint64_t word[SP_SPAN_WORDS];
};
_Static_assert(offsetof(struct sp_span_record, ref) == 64, "one cache line");
_Static_assert(offsetof(struct sp_span_record, span_id) == 0, "word 0 is the id");
_Static_assert(offsetof(struct sp_span_record, handle) == 16, "word 2 is the handle");
_Static_assert(offsetof(struct sp_span_record, root_ref) == 48, "word 6 is what is below");
_Static_assert(offsetof(struct sp_span_record, thread) == 52, "of 16 bits, from bit 32 on");
_Static_assert(offsetof(struct sp_span_record, sdk) == 54, "of 8 bits, from bit 48 on");
_Static_assert(offsetof(struct sp_span_record, forgot) == 55, "of 8 bits, from bit 56 on");
_Static_assert(offsetof(struct sp_span_record, name_id) == 56, "word 7 is both names");
_Static_assert(offsetof(struct sp_span_record, root_name_id) == 60, "word 7 is both names");

/*
 * The words are written in this order. The id is 0 before the first use and after a release. A
 * root's SP_SPAN_WORD_PLACE has its own reference: a reader that finds it after reading the names
 * has not read a later root's names.
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
 * A reference to an entry: its number + 1 in the lower bits, and the number of its former uses
 * above. Without that count a slow caller could take a reused entry for the span that it had found.
 */
#define SP_SPAN_NUMBER_BITS 15U
#define SP_SPAN_NUMBER_MASK ((1U << SP_SPAN_NUMBER_BITS) - 1)
_Static_assert(SP_SPANS_MAX <= SP_SPAN_NUMBER_MASK, "a number and its 1 fit");

/*
 * NULL until sp_span_table_init(), constant afterwards. The index is stored last, so a thread that
 * sees it sees the other members.
 */
struct sp_span_tables {
	struct sp_span_words *words;
	/*
	 * Marks: for each entry the id of its last span with a sample, with a wait in a profile,
	 * and with a sampled allocation. Ids instead of flags: an id that a slow handler writes
	 * after the entry was reused does not count for the next span.
	 */
	_Atomic uint64_t *marked;
	/* Names of renamed roots, by a hash of id and reference: part of the hash << 32 | name. */
	_Atomic uint64_t *renamed;
	struct sp_span_line *_Atomic index;
	_Atomic uint32_t spare_max; /* how many free entries each thread may have */
};
enum sp_span_mark {
	SP_SPAN_MARK_SAMPLE,
	SP_SPAN_MARK_WAIT,
	SP_SPAN_MARK_ALLOCATION,
	SP_SPAN_MARKS
};
SP_HIDDEN struct sp_span_tables sp_span_tables;

static inline SP_SIGSAFE struct sp_span_line *sp_span_index(void)
{
	/* pairs with the release in sp_span_table_init() */
	return atomic_load_explicit(&sp_span_tables.index, memory_order_acquire);
}

/* A reference repeats after its entry was used 131,072 times, so the id is hashed as well. */
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

/* Reads and writes a word of an entry. */
static inline SP_SIGSAFE uint64_t sp_span_word(const struct sp_span_words *e, unsigned which)
{
	return atomic_load_explicit(&e->word[which], memory_order_acquire);
}

static inline void sp_span_set_word(struct sp_span_words *e, unsigned which, uint64_t w)
{
	/*
	 * Pairs with sp_span_load(): a reader of the new word finds that the old reference was
	 * removed.
	 */
	atomic_store_explicit(&e->word[which], w, memory_order_release);
}

static inline uint16_t sp_span_word_thread(uint64_t place)
{
	return (uint16_t)(place >> 32);
}

static inline uint8_t sp_span_word_forgot(uint64_t place)
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

/*
 * any | *cell; by one instruction if possible, because a separate load would need another register.
 */
static inline uint64_t sp_span_or_cell(uint64_t any, const _Atomic uint64_t *cell)
{
#if defined(__x86_64__)
	__asm__("orq %1, %0" : "+r"(any) : "m"(*cell) : "cc");
	return any;
#else
	return any | atomic_load_explicit(cell, memory_order_relaxed);
#endif
}

/* The rare part of sp_span_table_room(). */
_Atomic uint64_t *sp_span_table_find_room(struct sp_span_line *line, uint64_t hash);

/*
 * Finds a free cell in the line in front, for the id of a new span with that hash. False: the table
 * may have the id already, or the line has no free cell. Usually the line is empty, which one
 * comparison shows.
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

/* Whether the span in that entry has any mark. */
static inline bool sp_span_table_is_marked(uint32_t ref, uint64_t span_id)
{
	const _Atomic uint64_t *marked =
		&sp_span_tables.marked[(size_t)((ref & SP_SPAN_NUMBER_MASK) - 1) * SP_SPAN_MARKS];

	for (unsigned i = 0; i < SP_SPAN_MARKS; i++)
		if (atomic_load_explicit(&marked[i], memory_order_relaxed) == span_id)
			return true;
	return false;
}

/* The part of sp_span_table_free() for a thread without a block, or with enough free entries. */
void sp_span_table_give(struct sp_span_spare *spare, uint32_t ref);

/* For the thread that closed the span: frees its entry, which gets the next reference. */
static inline void sp_span_table_free(uint32_t ref)
{
	struct sp_span_spare *spare = sp_span_spare_own;
	uint32_t next_use = ref + SP_SPAN_NUMBER_MASK + 1;

	/* relaxed: the words of the entry's next record are stored with release */
	atomic_store_explicit(&sp_span_entry(ref)->word[SP_SPAN_WORD_ID], 0, memory_order_relaxed);
	if (spare != NULL &&
	    spare->n < atomic_load_explicit(&sp_span_tables.spare_max, memory_order_relaxed))
		spare->ref[spare->n++] = next_use;
	else
		sp_span_table_give(spare, next_use);
}

#endif
