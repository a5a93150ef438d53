/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a local root can say about itself: the CPU time of the threads that worked for it, and with
 * SPANPROF_SPAN_TIMES what else they did meanwhile, by their own clocks. Off unless one of the options asks for it.
 *
 * A part is the time from when a root, or a span below it, becomes active on a thread until it is so no
 * more. At its two edges the thread reads its own clocks: CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, and
 * getrusage(2) for switches and faults, which are two system calls. Changes of the active span within the
 * root read nothing. What a root has is the sum of its parts, whichever thread they are on:
 *
 * - CPU time, major page faults, context switches, and what was allocated are exact.
 * - The time that its threads were not on a processor, which is that of the parts less their CPU time, is exact.
 * - A thread that never gave up its processor by itself was never blocked: what it was off the processor in such a
 *   part, it was runnable. What others of that time were runnable, only the kernel knows, and to ask it takes three
 *   system calls at each edge.
 *
 * Nothing is known of a root on whose thread another one was open, where no scope tells which of them it works for.
 *
 * Nothing but the CPU time is known of a root that ends while it is active on another thread: of that one by the
 * thread's clock of the moment, and not even that where the thread is not found. Nor is more known of one that a
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

/* How many bytes the calling thread has allocated since it began; at activation. NULL = nobody counts them. */
SP_HIDDEN uint64_t (*_Atomic sp_span_times_allocated)(void);

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
	bool has_cpu; /* it shared no thread, and each part that has not ended was found: cpu_ns lacks none */
	uint64_t cpu_ns;
	bool is_known; /* all of the threads' parts have ended: cpu_ns is exact, and so is what follows */
	uint64_t off_cpu_ns;
	uint64_t major_faults;
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	bool has_runnable; /* this is known, to a tenth; it is part of off_cpu_ns */
	uint64_t runnable_ns;
	bool has_allocated;
	uint64_t allocated; /* bytes */
};

/*
 * Of that open root, which is about to be ended on the calling thread: the thread's part of it ends now, and what
 * others do in it from now on is not its.
 */
void sp_span_times_of(const struct sp_span_record *r, struct sp_span_times *out);

/* Forked child, only thread: its times begin anew, and those of roots that were open are unknown. */
void sp_span_times_forked(void);

#endif
