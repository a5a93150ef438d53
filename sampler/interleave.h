/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans that interleave. Where start and end stand in for scopes, the span started last is taken for
 * the active one. An event loop keeps many spans open on one thread, and there that is wrong. The
 * first local root that ends while a root started later on the same thread is still open proves it;
 * from then on that SDK's starts do not label that thread, because a wrong label is worse than none.
 * APP context, bounded, lock-free.
 */
#ifndef SP_INTERLEAVE_H
#define SP_INTERLEAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/scope.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

#define SP_INTERLEAVE_SDKS 32U

/* In struct sp_span_record.stand_in: the SDK's number + 1, and whether it has scopes. */
#define SP_INTERLEAVE_SCOPES 0x80U
_Static_assert(SP_INTERLEAVE_SDKS <= 32 && SP_INTERLEAVE_SDKS < SP_INTERLEAVE_SCOPES,
	       "a bit for each");

/* What goes into the record of a span of that SDK; 0 where its spans prove nothing. */
static inline uint8_t sp_interleave_stand_in(enum sp_activation how, uint8_t sdk)
{
	if (how == SP_ACTIVATION_START || sdk >= SP_INTERLEAVE_SDKS)
		return 0;
	return (uint8_t)((sdk + 1U) | (how == SP_ACTIVATION_SCOPE ? SP_INTERLEAVE_SCOPES : 0));
}

static inline uint32_t sp_interleave_bit(uint8_t stand_in)
{
	return UINT32_C(1) << ((stand_in & ~SP_INTERLEAVE_SCOPES) - 1);
}

/* For the one below. */
void sp_interleave_look(const struct sp_span_record *gone);

/*
 * That span, no longer in the table, has just been ended by the host, its frame is still where it
 * was: looks for the proof, and acts on it.
 */
static inline void sp_interleave_ended(const struct sp_span_record *gone)
{
	if (gone->stand_in != 0 && gone->root_id == gone->span_id &&
	    gone->thread != SP_SPAN_NO_THREAD)
		sp_interleave_look(gone);
}

/* Starts of that kind no longer label that thread. */
static inline bool sp_interleave_proven(const struct sp_thread *t, uint8_t stand_in)
{
	return stand_in != 0 && t != NULL &&
	       (atomic_load_explicit(&t->interleaved, memory_order_relaxed) &
		sp_interleave_bit(stand_in)) != 0;
}

#endif
