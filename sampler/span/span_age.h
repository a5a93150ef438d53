/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans whose end never comes, because the host forgot it or ended the span in a way that no hook
 * sees. Such a span would label its thread for ever and keep its place in the span table. So spans
 * are given up when they are older than a limit, or earlier when the table is full.
 */
#ifndef SP_SPAN_AGE_H
#define SP_SPAN_AGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"

/*
 * A full table gives up spans that are at least this old by the wall clock. Requests often take
 * seconds; hardly any program has thousands of requests at once that take minutes.
 */
#define SP_SPAN_AGE_CROWDED_NS (UINT64_C(60) * 1000000000)

/*
 * APP, every few seconds. Gives up each open span that an earlier call saw at least max_age_ns ago.
 * now_ns is of a monotonic clock; with the wall clock, a leap would age all spans.
 */
void sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns);

/*
 * APP. The table has no place for that span: gives up the oldest span that is in its way, if it is
 * old enough. True if one was given up.
 */
bool sp_span_age_make_room(const struct sp_span_record *r, bool by_handle);

/*
 * The wall clock as of the last deferred work, for the time at which a span starts; 0 = ask the
 * clock. A span's age needs no better one, and to read a clock for each span takes as long as a
 * locked operation. Only the URL of a profile contains the time itself.
 */
SP_HIDDEN _Atomic uint64_t sp_span_age_now_ns;

/* APP, at deferred work: as late as the spans' ages are then. exact: each span asks the clock. */
void sp_span_age_tick(bool exact);

/* The wall clock. The coarse one takes a fifth of the time, and is late by some milliseconds. */
uint64_t sp_span_age_clock_ns(void);

static inline uint64_t sp_span_age_start_ns(void)
{
	uint64_t now = atomic_load_explicit(&sp_span_age_now_ns, memory_order_relaxed);

	return now != 0 ? now : sp_span_age_clock_ns();
}

#endif
