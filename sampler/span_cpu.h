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

#include "sampler/span_table.h"

struct sp_thread;

/* APP, at activation. Idempotent. 0 or -ENOMEM. */
int sp_span_cpu_init(void);

/* It was asked for; until then the functions below do nothing. */
extern _Atomic bool sp_span_cpu_on;

/* The calling thread's active span is about to change: the time up to now goes to its root. */
void sp_span_cpu_change(struct sp_thread *t);

/* A root was entered into the table. */
void sp_span_cpu_begin(const struct sp_span_record *r);

/* Nanoseconds of that open root so far; those of other threads up to their last change. */
uint64_t sp_span_cpu_of(const struct sp_span_record *r);

#endif
