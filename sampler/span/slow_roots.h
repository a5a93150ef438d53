/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow local roots (SPANPROF_SLOW). The duration of each root goes into the histogram of its name
 * when the root ends (root_durations.h). A root that was slow for its name goes to the exporter as
 * a record. If the exporter needs the duration of each root that has samples
 * (SPANPROF_SPAN_LATENCY, SPANPROF_SPAN_ID_SCOPE=slow), such a root is another record
 * (struct sp_root_end).
 *
 * The duration is measured by CLOCK_MONOTONIC, which is read when the root starts and when it ends:
 * the wall clock may be set between the two. The record has the wall clock of the end, and its
 * reader subtracts the duration to get the start.
 *
 * Two kinds of roots are in no histogram and in no record: those that a forked child has inherited
 * from its parent, and those that are given up because their end never came.
 *
 * APP, calling thread; errno untouched, no lock, and no memory after sp_slow_roots_init(). Off
 * unless the option is set; then the cost is a load and a branch at each start and each end.
 */
#ifndef SP_SLOW_ROOTS_H
#define SP_SLOW_ROOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"

/*
 * APP, at activation, when there is a table of names, and sp_span_values_init() has noted which roots have samples if
 * ends are told. Idempotent. 0 or -ENOMEM.
 */
int sp_slow_roots_init(bool tells_ends);

/*
 * The start times of roots, by the number of their entry in the table, by CLOCK_MONOTONIC; 0 =
 * unknown; SP_SLOW_ROOT_TOLD = the root has ended and was slow. And the last root in the entry whose
 * status is an error; 0 = none. NULL = off.
 */
struct sp_slow_roots_begun {
	_Atomic uint64_t ns;
	_Atomic uint64_t failed_id;
};
#define SP_SLOW_ROOT_TOLD UINT64_MAX
SP_HIDDEN struct sp_slow_roots_begun *_Atomic sp_slow_roots_begun;

/* For sp_slow_roots_begin() and sp_slow_roots_end(). */
void sp_slow_roots_store(uint32_t ref);
bool sp_slow_roots_check(uint32_t ref);

/* A span that is its own local root was entered into the table. */
static inline void sp_slow_roots_begin(uint32_t ref)
{
	if (atomic_load_explicit(&sp_slow_roots_begun, memory_order_relaxed) != NULL)
		sp_slow_roots_store(ref);
}

/*
 * The program has ended a span, root or not. To be called after sp_span_close() and before the span
 * gets attributes, which takes time; its entry is not released yet. True: it is a root that was slow for
 * its name.
 */
static inline bool sp_slow_roots_end(uint32_t ref)
{
	return atomic_load_explicit(&sp_slow_roots_begun, memory_order_relaxed) != NULL &&
	       sp_slow_roots_check(ref);
}

/* Of an entry whose span is closed: what sp_slow_roots_end() has returned. */
bool sp_slow_roots_was_slow(uint32_t ref);

/* Whether anybody wants to know that a span's status is an error. */
static inline bool sp_slow_roots_on(void)
{
	return atomic_load_explicit(&sp_slow_roots_begun, memory_order_relaxed) != NULL;
}

/* The program has set the status of that open span. */
void sp_slow_roots_set_failed(const struct sp_span_record *r, bool is_error);

/* In a forked child, which has one thread: the start times of its roots are unknown. */
void sp_slow_roots_forked(void);

#endif
