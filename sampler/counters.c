/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage and the names of the process-wide counters. The adds are inline in counters.h and
 * run in every context, SIG included; what is here runs in INIT (reset) and BG (the rest).
 */
#include "sampler/counters.h"

#include <stddef.h>

#include "sampler/thread.h"

_Atomic uint64_t sp_counters[SP_COUNTER_N];

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

static _Atomic uint64_t *own_counter(struct sp_thread *t, enum sp_counter c)
{
	if (c == SP_COUNT_SPANS_STARTED)
		return &t->counts.spans_started;
	return c == SP_COUNT_SPANS_ENDED ? &t->counts.spans_ended : NULL;
}

uint64_t sp_count_read(enum sp_counter c)
{
	uint64_t sum = atomic_load_explicit(&sp_counters[c], memory_order_relaxed);
	struct sp_thread *t;

	for (uint32_t i = 0; (t = sp_thread_at(i)) != NULL; i++) {
		_Atomic uint64_t *own = own_counter(t, c);

		if (own == NULL)
			break;
		sum += atomic_load_explicit(own, memory_order_relaxed);
	}
	return sum;
}

void sp_counters_reset(void)
{
	struct sp_thread *t;

	for (uint32_t i = 0; (t = sp_thread_at(i)) != NULL; i++) {
		atomic_store_explicit(&t->counts.spans_started, 0, memory_order_relaxed);
		atomic_store_explicit(&t->counts.spans_ended, 0, memory_order_relaxed);
	}
	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		atomic_store_explicit(&sp_counters[c], 0, memory_order_relaxed);
}
