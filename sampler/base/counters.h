/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process-wide atomic counters of all losses, and of a few totals. Every context adds to them, SIG
 * included (relaxed atomic add). Once there is a region, the counters are in it, so that the
 * exporter can report the counts of a host that was killed.
 */
#ifndef SP_COUNTERS_H
#define SP_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * X(enum suffix, name in logs and pprof comments, kind). Kind 0 counts work; 1 counts a loss, which
 * is also logged; 2 counts samples that were taken but are incomplete. DROP_UNTOLD and
 * DROP_ALLOCATIONS are parts of DROP_RING_FULL. The names are public and must not change. Two names
 * say less than they count: UNARMED_STACK and DROP_STACK count ordinary stacks without enough room
 * as well as alternate signal stacks.
 */
// clang-format off
#define SP_FOR_EACH_COUNTER(X) \
	X(SPANS_STARTED, "spans_started", 0) \
	X(SPANS_ENDED, "spans_ended", 0) \
	X(SPANS_AGED, "spans_aged", 1) \
	X(SAMPLES_INTERLEAVED, "samples_of_interleaved_spans", 2) \
	X(SIGNALS, "signals", 0) \
	X(SAMPLES_PUT, "samples_put", 0) \
	X(UNSAMPLED, "residual_records", 0) \
	X(UNSAMPLED_DRAINED, "residual_records_drained", 0) \
	X(SAMPLES_DRAINED, "samples_drained", 0) \
	X(SAMPLES_SENT, "samples_sent", 0) \
	X(WAITS, "waits", 0) \
	X(WAITS_SENT, "waits_sent", 0) \
	X(SNAPSHOTS, "stack_snapshots", 0) \
	X(SPAN_VALUES, "span_values", 0) \
	X(SPAN_VALUES_DRAINED, "span_values_drained", 0) \
	X(ROOT_ENDS, "root_ends", 0) \
	X(ROOT_ENDS_DRAINED, "root_ends_drained", 0) \
	X(SLOW_ROOTS, "slow_roots", 0) \
	X(SLOW_ROOTS_DRAINED, "slow_roots_drained", 0) \
	X(SLOW_ROOTS_SENT, "slow_roots_written", 0) \
	X(SLOW_ROOTS_FASTER, "slow_roots_left_for_slower", 0) \
	X(BRIEF_CHILDREN, "brief_children_us", 0) \
	X(BRIEF_CHILDREN_DRAINED, "brief_children_us_drained", 0) \
	X(FREED, "blocks_freed", 0) \
	X(FREED_DRAINED, "blocks_freed_drained", 0) \
	X(UPLOADS, "uploads", 0) \
	X(FILES_WRITTEN, "files_written", 0) \
	X(FILES_DELETED, "files_deleted", 0) \
	X(DROP_RING_FULL, "dropped_ring_full", 1) \
	X(DROP_UNTOLD, "dropped_ring_full_for_object", 1) \
	X(DROP_ALLOCATIONS, "dropped_ring_full_for_allocations", 1) \
	X(DROP_SPAN_VALUES, "dropped_ring_full_for_span_values", 1) \
	X(DROP_ROOT_ENDS, "dropped_ring_full_for_root_ends", 1) \
	X(DROP_SLOW_ROOTS, "dropped_ring_full_for_slow_roots", 1) \
	X(DROP_SPAN_ENDS, "dropped_ring_full_for_span_ends", 1) \
	X(DROP_FREED, "dropped_ring_full_for_freed_blocks", 1) \
	X(DROP_REENTERED, "dropped_handler_reentered", 1) \
	X(DROP_STACK, "dropped_small_signal_stack", 1) \
	X(RING_DAMAGED, "ring_records_damaged", 1) \
	X(RING_UNFINISHED, "ring_records_unfinished", 1) \
	X(SNAPSHOTS_FULL, "stack_snapshots_ring_full", 2) \
	X(UNWIND_FAILED, "unwind_failed", 2) \
	X(UNWIND_TRUNCATED, "unwind_truncated", 2) \
	X(OFF_STACK, "off_stack", 2) \
	X(SPAN_STACK_FULL, "span_stack_overflowed", 1) \
	X(SAMPLES_TOO_DEEP, "samples_deeper_than_span_stack", 2) \
	X(SPAN_TABLE_FULL, "span_table_full", 1) \
	X(SPAN_NO_THREAD, "span_without_thread_block", 1) \
	X(NAMES_OTHER, "span_names_over_limit", 1) \
	X(THREAD_NAMES_OTHER, "thread_names_over_limit", 1) \
	X(WAIT_NAMES_OTHER, "wait_names_over_limit", 1) \
	X(SPAN_VALUES_OTHER, "span_values_over_limit", 1) \
	X(SERIES_OTHER, "series_over_limit", 1) \
	X(SPAN_VALUES_NO_ROOM, "span_values_without_room", 1) \
	X(SLOW_ROOTS_OTHER, "slow_roots_over_limit", 1) \
	X(SLOW_ROOTS_UNSENT, "slow_roots_unwritten", 1) \
	X(SLOW_ROOTS_CUT, "slow_roots_without_all_times", 1) \
	X(TIMES_OVER, "sample_times_over_limit", 2) \
	X(BLOCKS_NO_ROOM, "blocks_without_room", 1) \
	X(UNARMED_LIMIT, "threads_unarmed_limit", 1) \
	X(UNARMED_REFUSED, "threads_unarmed_refused", 1) \
	X(UNARMED_STACK, "threads_unarmed_small_signal_stack", 1) \
	X(UNARMED_SHARED, "threads_unarmed_shared_signal_stack", 1) \
	X(THREADS_NO_BLOCK, "threads_without_block", 1) \
	X(SIGNAL_MOVED, "signal_moved", 0) \
	X(SIGNAL_TAKEN, "signal_taken_by_host", 1) \
	X(SECCOMP_STOPPED, "stopped_by_seccomp", 1) \
	X(STACKS_OTHER, "stacks_over_limit", 1) \
	X(SPANS_OTHER, "span_labels_over_limit", 1) \
	X(BATCH_QUEUE_FULL, "batches_dropped_queue_full", 1) \
	X(BATCH_TOO_OLD, "batches_dropped_too_old", 1) \
	X(BATCH_REJECTED, "batches_rejected_by_server", 1) \
	X(BATCH_UNANSWERED, "batches_unanswered", 1) \
	X(BATCH_UNSENT, "batches_unsent_at_exit", 1) \
	X(SAMPLES_UNSENT, "samples_in_lost_batches", 1) \
	X(WAITS_UNSENT, "waits_in_lost_batches", 1) \
	X(WAITS_UNWATCHED, "waits_unwatched_ms", 1) \
	X(SYMBOLS_CHANGED, "symbol_files_changed", 2) \
	X(LINES_OVER_LIMIT, "debug_info_over_limit", 2) \
	X(LINES_UNREADABLE, "debug_info_unreadable", 2) \
	X(LINES_LATE, "lines_not_in_time", 2) \
	X(PUSH_RETRIED, "push_retries", 0) \
	X(FILE_FAILED, "files_failed", 1) \
	X(EXPORT_NOMEM, "export_out_of_memory", 1)
// clang-format on

/* At most this many SDKs have a counter of spans of their own; numbers as in sdk_texts.h. */
#define SP_COUNTED_SDKS 8U

#define SP_COUNTER_ENUM_(id, name, loss) SP_COUNT_##id,
enum sp_counter { SP_FOR_EACH_COUNTER(SP_COUNTER_ENUM_) SP_COUNTER_N };

/*
 * No counter reaches this: at a hundred million a second it would take a month. A larger number was
 * written by another process that shares the memory.
 */
#define SP_COUNT_MOST (UINT64_C(1) << 48)

/* The counters in use, SP_COUNTER_N of them, except those of spans. */
extern _Atomic(_Atomic uint64_t *) sp_counters;

static inline SP_SIGSAFE void sp_count_add(enum sp_counter c, uint64_t n)
{
	/* pairs with the release in sp_counters_move(): the new memory is mapped */
	_Atomic uint64_t *all = atomic_load_explicit(&sp_counters, memory_order_acquire);

	atomic_fetch_add_explicit(&all[c], n, memory_order_relaxed);
}

static inline SP_SIGSAFE void sp_count(enum sp_counter c)
{
	sp_count_add(c, 1);
}

/*
 * A program may start and end millions of spans. A locked add takes as long as twenty other
 * instructions, and threads that count at one address contend for its cache line. So there are many
 * sets of span counters, each on a separate cache line. A thread whose block has a low number has a
 * set to itself and needs no locked add; the other threads share the rest.
 */
#define SP_SPAN_COUNTS 64U
#define SP_SPAN_COUNTS_OWN 48U
struct sp_span_counts {
	_Atomic uint64_t started[SP_COUNTED_SDKS];
	_Atomic uint64_t ended;
	char pad[56];
};
SP_HIDDEN _Atomic(struct sp_span_counts *) sp_span_counts; /* SP_SPAN_COUNTS of them */

/* The number of a thread that has no block. */
#define SP_SPAN_COUNTS_NO_THREAD UINT32_MAX

static inline struct sp_span_counts *sp_span_counts_of(uint32_t thread)
{
	uint32_t shared = SP_SPAN_COUNTS_OWN + thread % (SP_SPAN_COUNTS - SP_SPAN_COUNTS_OWN);

	/* pairs with sp_counters_move(), too */
	return &atomic_load_explicit(
		&sp_span_counts,
		memory_order_acquire)[thread < SP_SPAN_COUNTS_OWN ? thread : shared];
}

/*
 * One instruction loads, adds and stores, so no handler can interrupt the sum. Another processor
 * can change the counter meanwhile only when a thread there collects the counters of a former
 * region, after an exporter has died. In these few cycles an add may be lost, or a collected count
 * may be counted twice.
 */
static inline void sp_span_count_in(_Atomic uint64_t *n, uint32_t thread)
{
#if defined(__x86_64__)
	if (thread < SP_SPAN_COUNTS_OWN)
		__asm__("addq $1, %0" : "+m"(*n) : : "cc");
	else
		atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
#else
	(void)thread;
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
#endif
}

/* APP. thread: the number of the calling thread's block (thread.h). */
static inline void sp_count_span_started(uint32_t thread, unsigned sdk)
{
	struct sp_span_counts *c = sp_span_counts_of(thread);

	sp_span_count_in(&c->started[sdk < SP_COUNTED_SDKS ? sdk : 0], thread);
}

static inline void sp_count_span_ended(uint32_t thread)
{
	sp_span_count_in(&sp_span_counts_of(thread)->ended, thread);
}

/* The value of a counter, with the counts of all SDKs' spans. APP. */
uint64_t sp_count_read(enum sp_counter c);

/* SP_COUNT_SPANS_STARTED of one SDK, by the number in struct sp_span_start. APP. */
uint64_t sp_count_spans_of(unsigned sdk);

/*
 * APP, one thread at a time. From now on these counters are used; the counts from the time without
 * a region are added to them. sp_counters_collect() collects the counters of former regions again
 * and again, because a thread may still be adding to them.
 */
void sp_counters_move(_Atomic uint64_t *to, struct sp_span_counts *spans);
/*
 * APP. Moves the values of former counters to the current ones. Returns how many samples put into
 * the ring are among them.
 */
uint64_t sp_counters_collect(_Atomic uint64_t *from, struct sp_span_counts *spans);
/* Forked child: sets every counter to 0, in memory of the process's own. */
void sp_counters_reset(void);

#endif
