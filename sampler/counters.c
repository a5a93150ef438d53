/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage and the names of the process-wide counters. The adds are inline in counters.h and
 * run in every context, SIG included; what is here runs in INIT (reset) and BG (the rest).
 */
#include "sampler/counters.h"

#include <stddef.h>

#include "sampler/thread.h"

_Atomic uint64_t sp_counters[SP_COUNTER_N];
static _Atomic uint64_t blockless[SP_COUNTED_SDKS]; /* spans started, by SDK */

_Static_assert(sizeof(sp_counters[0]) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
	       "a signal handler adds to these, so no lock may hide behind them");

// clang-format off
#define COUNTER_NAME_(id, name, loss) [SP_COUNT_##id] = (name),
#define COUNTER_LOSS_(id, name, loss) [SP_COUNT_##id] = (loss),
// clang-format on

static const char *const names[SP_COUNTER_N] = {SP_FOR_EACH_COUNTER(COUNTER_NAME_)};
static const unsigned char losses[SP_COUNTER_N] = {SP_FOR_EACH_COUNTER(COUNTER_LOSS_)};

const char *sp_counter_name(enum sp_counter c)
{
	return (unsigned)c < SP_COUNTER_N ? names[c] : "";
}

int sp_counter_is_loss(enum sp_counter c)
{
	return (unsigned)c < SP_COUNTER_N ? losses[c] : 0;
}

uint64_t sp_count_spans_of(unsigned sdk)
{
	uint64_t sum = 0;
	struct sp_thread *t;

	if (sdk >= SP_COUNTED_SDKS)
		return 0;
	sum = atomic_load_explicit(&blockless[sdk], memory_order_relaxed);
	for (uint32_t i = 0; (t = sp_thread_at(i)) != NULL; i++)
		sum += atomic_load_explicit(&t->counts.spans_started[sdk], memory_order_relaxed);
	return sum;
}

void sp_count_span_of(unsigned sdk)
{
	atomic_fetch_add_explicit(&blockless[sdk < SP_COUNTED_SDKS ? sdk : 0], 1,
				  memory_order_relaxed);
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
	uint64_t sum = 0;
	struct sp_thread *t;

	for (uint32_t i = 0; (t = sp_thread_at(i)) != NULL; i++)
		sum += atomic_load_explicit(&t->counts.spans_ended, memory_order_relaxed);
	return sum;
}

uint64_t sp_count_read(enum sp_counter c)
{
	uint64_t sum = atomic_load_explicit(&sp_counters[c], memory_order_relaxed);

	if (c == SP_COUNT_SPANS_STARTED)
		sum += spans_started();
	else if (c == SP_COUNT_SPANS_ENDED)
		sum += spans_ended();
	return sum;
}

void sp_counters_reset(void)
{
	struct sp_thread *t;

	for (uint32_t i = 0; (t = sp_thread_at(i)) != NULL; i++) {
		for (unsigned sdk = 0; sdk < SP_COUNTED_SDKS; sdk++)
			atomic_store_explicit(&t->counts.spans_started[sdk], 0,
					      memory_order_relaxed);
		atomic_store_explicit(&t->counts.spans_ended, 0, memory_order_relaxed);
	}
	for (unsigned sdk = 0; sdk < SP_COUNTED_SDKS; sdk++)
		atomic_store_explicit(&blockless[sdk], 0, memory_order_relaxed);
	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		atomic_store_explicit(&sp_counters[c], 0, memory_order_relaxed);
}
