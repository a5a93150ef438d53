/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of a local root: the CPU time of the threads that worked for it, and with
 * SPANPROF_SPAN_TIMES also their waits and other counts, by their own clocks. Off unless one of the
 * options asks for it.
 *
 * A part begins when a root, or a span below it, becomes active on a thread, and ends when that is
 * no longer so. At its two edges the thread reads its own clocks: CLOCK_MONOTONIC,
 * CLOCK_THREAD_CPUTIME_ID, and getrusage(2) for switches and faults, which are two system calls.
 * Changes of the active span within the root read nothing. The times of a root are the sums of its
 * parts, on whichever threads:
 *
 * - CPU time, major page faults, context switches, and allocated bytes are exact.
 * - The time off the processor is the length of the parts without their CPU time, and is exact,
 *   too.
 * - A thread that never gave up its processor by itself was never blocked: in such a part it was
 *   runnable for all its time off the processor. For parts with a voluntary switch the runnable
 *   share is unknown; asking the kernel would cost three system calls at each edge.
 *
 * Nothing is known of a root if another root was open on its thread and no scope told for which of
 * them the thread worked.
 *
 * Only the CPU time is known of a root that ends while it is active on another thread: the clock of
 * that thread is read at that moment, and if the thread is not found, not even the CPU time is
 * known. The same holds for a root that a forked child has inherited from its parent, and for one
 * that was never active.
 *
 * APP context, calling thread; errno untouched, no lock, and no memory after sp_span_times_init().
 */
#ifndef SP_SPAN_TIMES_H
#define SP_SPAN_TIMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/thread/thread.h"

/* APP, at activation. all: more than the CPU time. Idempotent. 0 or -ENOMEM. */
int sp_span_times_init(bool all);

/* An option asks for times. Before that, the functions below do nothing. */
SP_HIDDEN _Atomic bool sp_span_times_on;

/*
 * Returns the bytes that the calling thread has allocated since it began. Set at activation; NULL =
 * allocations are not counted.
 */
SP_HIDDEN uint64_t (*_Atomic sp_span_times_allocated)(void);

/* The slow part of sp_span_times_change(). */
void sp_span_times_changed(struct sp_thread *t);

/* The active span of the calling thread has changed, or may have. */
static inline void sp_span_times_change(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_times_changed(t);
}

/* A root was entered into the table. */
void sp_span_times_begin(const struct sp_span_record *r);

/* In nanoseconds, except for counts. */
struct sp_span_times {
	/* cpu_ns is complete: the root shared no thread, and all open parts were found */
	bool has_cpu;
	uint64_t cpu_ns;
	bool is_known; /* all parts have ended: cpu_ns and the next fields are exact */
	uint64_t off_cpu_ns;
	uint64_t major_faults;
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	bool has_runnable; /* runnable_ns is known, to a tenth; it is a share of off_cpu_ns */
	uint64_t runnable_ns;
	bool has_allocated;
	uint64_t allocated; /* bytes */
};

/*
 * The times of an open root that is about to end on the calling thread. Ends the thread's part of
 * it: what other threads do in it from now on does not count.
 */
void sp_span_times_of(const struct sp_span_record *r, struct sp_span_times *out);

/*
 * To be called in a forked child, which has one thread. The times of this thread begin anew. The
 * times of roots that were open at the fork are unknown.
 */
void sp_span_times_forked(void);

#endif
