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

#include <stdbool.h>
#include <stdint.h>

#include "sampler/scope.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

#define SP_INTERLEAVE_SDKS 32U

/* What goes into the record of a span of that SDK; 0 where its spans prove nothing. */
uint8_t sp_interleave_stand_in(enum sp_activation how, uint8_t sdk);

/*
 * That span, no longer in the table, has just been ended by the host, its frame is still where it
 * was: looks for the proof, and acts on it.
 */
void sp_interleave_ended(const struct sp_span_record *gone);

/* Starts of that kind no longer label that thread. */
bool sp_interleave_proven(const struct sp_thread *t, uint8_t stand_in);

#endif
