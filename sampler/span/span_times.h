/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a local root can say about itself: the CPU time of the threads that worked for it, and with
 * SPANPROF_SPAN_TIMES what else they did meanwhile. Off unless one of the options asks for it.
 *
 * A part is the time from when a root, or a span below it, becomes active on a thread until it is so no
 * more. At its two edges the thread reads its own clocks: CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, and
 * getrusage(2) for switches and faults, which are two system calls. Changes of the active span within the
 * root read nothing. What a root has is the sum of its parts, whichever thread they are on:
 *
 * - CPU time, major page faults, and context switches are exact.
 * - The time that its threads were not on a processor, which is that of the parts less their CPU time, is exact.
 *   Runnable and blocked add up to it.
 * - How it divides into runnable and blocked, and what it was blocked for, only the exporter can see, which
 *   looks 50 times a second (thread_labels.h). It is exact where the thread never gave up its processor by
 *   itself: then it was never blocked. Else what came after the exporter's last look at a part is taken for more
 *   of what it saw then; if that is more than a quarter of the time, the numbers count as unknown. Those
 *   of spans shorter than 30 ms mostly are, of some up to 80 ms too, and all if the exporter does not look.
 *
 * Nothing but the CPU time is known of a root that ends while it is active on another thread, that a
 * forked child has from its parent, or that was never active.
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

/* They were asked for; until then the functions below do nothing. */
SP_HIDDEN _Atomic bool sp_span_times_on;

/* For sp_span_times_change(). */
void sp_span_times_changed(struct sp_thread *t);

/* The active span of the calling thread has changed, or may have. */
static inline void sp_span_times_change(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_span_times_on, memory_order_relaxed))
		sp_span_times_changed(t);
}

/* A root was entered into the table. */
void sp_span_times_begin(const struct sp_span_record *r);

/* Nanoseconds, but for counts. */
struct sp_span_times {
	uint64_t cpu_ns;
	bool has_counts; /* these are known: */
	uint64_t major_faults;
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	bool has_waits; /* these are: */
	uint64_t runnable_ns;
	uint64_t blocked_ns;
	bool has_kinds; /* these are; both are part of the time blocked: */
	uint64_t lock_ns;
	uint64_t io_ns;
};

/*
 * Of that open root, which is about to be ended on the calling thread: the thread's part of it ends now.
 * CPU time of other threads counts up to the end of their parts.
 */
void sp_span_times_of(const struct sp_span_record *r, struct sp_span_times *out);

/* Forked child, only thread: its times begin anew, and those of roots that were open are unknown. */
void sp_span_times_forked(void);

#endif
