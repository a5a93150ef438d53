/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact CPU time of local roots: what the clocks of the threads that worked for one say, from
 * start, attach, detach to end. Off unless SPANPROF_SPAN_CPU_TIME asks for it: each change of a
 * thread's active span then takes a system call. APP context, calling thread; errno untouched.
 */
#ifndef SP_SPAN_CPU_H
#define SP_SPAN_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/open_spans/span_table.h"

struct sp_thread;

/* APP, at activation. Idempotent. 0 or -ENOMEM. */
int sp_span_cpu_init(void);

/* It was asked for; until then the functions below do nothing. */
extern _Atomic bool sp_span_cpu_on;

/* The time of the calling thread up to now goes to the root of its active span. */
void sp_span_cpu_add(struct sp_thread *t);

/* The active span of the calling thread, which may have no block, is about to change. */
static inline void sp_span_cpu_change(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_span_cpu_on, memory_order_relaxed))
		sp_span_cpu_add(t);
}

/* A root was entered into the table. */
void sp_span_cpu_begin(const struct sp_span_record *r);

/* Nanoseconds of that open root so far; those of other threads up to their last change. */
uint64_t sp_span_cpu_of(const struct sp_span_record *r);

#endif
