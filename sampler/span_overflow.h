/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overflow of a thread's stack of spans: deeper than its last frame only the number of
 * spans and scopes is kept, and the local root as long as all of them have the same one. The frame
 * below must not take their samples for its own. Written by the owning thread (APP), which adds;
 * any thread may take one away whose span it ends. Read by the owner's signal handler.
 */
#ifndef SP_SPAN_OVERFLOW_H
#define SP_SPAN_OVERFLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"

struct sp_span_entry;

/*
 * The place of such a span has the number of a generation in it. All of them may go at once, by a
 * detach from below or with the thread; the end of one that went is then none of the next ones'.
 */
#define SP_SPAN_OVERFLOW_GENERATIONS 128U
#define SP_SPAN_OVERFLOW_COUNT_BITS 24U
#define SP_SPAN_OVERFLOW_COUNT_MASK ((UINT32_C(1) << SP_SPAN_OVERFLOW_COUNT_BITS) - 1)

struct sp_span_overflow {
	_Atomic uint32_t open; /* how many, and above these bits the generation */
	uint32_t again;        /* of them, scopes under a token that a frame has too; owner only */
	_Atomic bool alike;    /* all have the root below */
	bool yields;           /* as frames that yield, span_stack.h */
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

/* Any thread. One of that generation goes. */
void sp_span_overflow_leave(struct sp_span_overflow *r, uint32_t generation);

/* Owner only. All of them go. */
void sp_span_overflow_clear(struct sp_span_overflow *r);

#endif
