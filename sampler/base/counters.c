/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of the process-wide counters. The adds are inline in counters.h and run in every
 * context, SIG included. The functions of this file run in INIT (reset) and APP (the others).
 */
#include "sampler/base/counters.h"

#include <string.h>

static _Atomic uint64_t own[SP_COUNTER_N]; /* until there is a region */
_Atomic(_Atomic uint64_t *) sp_counters = own;
static struct sp_span_counts own_spans[SP_SPAN_COUNTS];
_Atomic(struct sp_span_counts *) sp_span_counts = own_spans;

_Static_assert(sizeof(own[0]) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
	       "a signal handler adds to these, so no lock may hide behind them");

uint64_t sp_count_spans_of(unsigned sdk)
{
	struct sp_span_counts *all = atomic_load_explicit(&sp_span_counts, memory_order_acquire);
	uint64_t sum = 0;

	for (unsigned i = 0; sdk < SP_COUNTED_SDKS && i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&all[i].started[sdk], memory_order_relaxed);
	return sum;
}

static uint64_t spans_started(void)
{
	uint64_t sum = 0;

	for (unsigned sdk = 0; sdk < SP_COUNTED_SDKS; sdk++)
		sum += sp_count_spans_of(sdk);
	return sum;
}

static uint64_t spans_ended(void)
{
	struct sp_span_counts *all = atomic_load_explicit(&sp_span_counts, memory_order_acquire);
	uint64_t sum = 0;

	for (unsigned i = 0; i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&all[i].ended, memory_order_relaxed);
	return sum;
}

uint64_t sp_count_read(enum sp_counter c)
{
	_Atomic uint64_t *all = atomic_load_explicit(&sp_counters, memory_order_acquire);
	uint64_t sum = atomic_load_explicit(&all[c], memory_order_relaxed);

	if (c == SP_COUNT_SPANS_STARTED)
		sum += spans_started();
	else if (c == SP_COUNT_SPANS_ENDED)
		sum += spans_ended();
	return sum;
}

/* Most counters are 0, so no page of a former region is written without need. */
static uint64_t move(_Atomic uint64_t *to, _Atomic uint64_t *from)
{
	uint64_t n = 0;

	if (atomic_load_explicit(from, memory_order_relaxed) != 0)
		n = atomic_exchange_explicit(from, 0, memory_order_relaxed);
	if (n != 0)
		atomic_fetch_add_explicit(to, n, memory_order_relaxed);
	return n;
}

uint64_t sp_counters_collect(_Atomic uint64_t *from, struct sp_span_counts *spans)
{
	_Atomic uint64_t *to = atomic_load_explicit(&sp_counters, memory_order_acquire);
	struct sp_span_counts *to_spans =
		atomic_load_explicit(&sp_span_counts, memory_order_acquire);
	uint64_t put = 0;

	for (unsigned c = 0; c < SP_COUNTER_N; c++) {
		uint64_t n = move(&to[c], &from[c]);

		put += c == SP_COUNT_SAMPLES_PUT ? n : 0;
	}
	for (unsigned i = 0; i < SP_SPAN_COUNTS; i++) {
		for (unsigned sdk = 0; sdk < SP_COUNTED_SDKS; sdk++)
			(void)move(&to_spans[i].started[sdk], &spans[i].started[sdk]);
		(void)move(&to_spans[i].ended, &spans[i].ended);
	}
	return put;
}

void sp_counters_move(_Atomic uint64_t *to, struct sp_span_counts *spans)
{
	/* pairs with the acquire of a thread that counts */
	atomic_store_explicit(&sp_counters, to, memory_order_release);
	atomic_store_explicit(&sp_span_counts, spans, memory_order_release);
	(void)sp_counters_collect(own, own_spans);
}

void sp_counters_reset(void)
{
	/*
	 * A process with a region counts there. So its own counters are not written: the fork would
	 * have to copy each written page.
	 */
	if (atomic_load_explicit(&sp_counters, memory_order_relaxed) == own) {
		for (unsigned c = 0; c < SP_COUNTER_N; c++)
			atomic_store_explicit(&own[c], 0, memory_order_relaxed);
		memset(own_spans, 0, sizeof(own_spans));
	}
	atomic_store_explicit(&sp_counters, own, memory_order_relaxed);
	atomic_store_explicit(&sp_span_counts, own_spans, memory_order_relaxed);
}
