/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overflow of a thread's span stack. Spans that are deeper than its last frame do not fit, and
 * their samples must not go to the last frame's span. So their number is kept, and their local root
 * as long as all of them have the same. The owning thread (APP) adds; any thread may remove one
 * whose span it ends. The owner's signal handler reads.
 */
#ifndef SP_SPAN_OVERFLOW_H
#define SP_SPAN_OVERFLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

struct sp_span_entry;

/*
 * The slot number of such a span contains a generation. A detach further down, or the end of the
 * thread, may remove all of them at once; the end of one of these must then not count for a later
 * one.
 */
#define SP_SPAN_OVERFLOW_GENERATIONS 128U
#define SP_SPAN_OVERFLOW_COUNT_BITS 24U
#define SP_SPAN_OVERFLOW_COUNT_MASK ((UINT32_C(1) << SP_SPAN_OVERFLOW_COUNT_BITS) - 1)

struct sp_span_overflow {
	_Atomic uint32_t open; /* how many, and above these bits the generation */
	uint32_t again;        /* of them, scopes under a token that a frame has too; owner only */
	_Atomic bool alike;    /* all have the root below */
	bool yields;           /* as frames that yield, span_stack.h */
	uint32_t storages;     /* a bit for each that has attached one of them */
	uint32_t root_name_id;
	uint32_t root_ref;
	uint64_t root_id;
	uint8_t trace_id[16];
};

/* Owner or its handler. How many there are. */
static inline SP_SIGSAFE uint32_t sp_span_overflow_count(const struct sp_span_overflow *r)
{
	return atomic_load_explicit(&r->open, memory_order_acquire) & SP_SPAN_OVERFLOW_COUNT_MASK;
}

/* Any thread. The number of the generation. */
static inline uint32_t sp_span_overflow_generation(const struct sp_span_overflow *r)
{
	return atomic_load_explicit(&r->open, memory_order_relaxed) >> SP_SPAN_OVERFLOW_COUNT_BITS;
}

/* Owner only. */
void sp_span_overflow_add(struct sp_span_overflow *r, const struct sp_span_entry *e);

/* Any thread. Removes one of that generation. */
void sp_span_overflow_leave(struct sp_span_overflow *r, uint32_t generation);

/* Owner only. Removes all of them. */
void sp_span_overflow_clear(struct sp_span_overflow *r);

#endif
