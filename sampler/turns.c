/* SPDX-License-Identifier: Apache-2.0 */
/* Noting the changes of a thread's active span, and sharing CPU time out by them. APP context. */
#include "sampler/turns.h"

#include <stddef.h>
#include <time.h>

#include "sampler/cpu_clock.h"
#include "sampler/handler.h"
#include "sampler/thread.h"
#include "sampler/timer.h"

void sp_turns_change(struct sp_thread *t)
{
	struct sp_turn *turn;
	uint32_t n;

	if (t == NULL)
		return;
	n = atomic_load_explicit(&t->turns.n, memory_order_relaxed);
	if (n > SP_TURNS_MAX || sp_timer_period_ns() == 0)
		return;
	if (n < SP_TURNS_MAX) {
		turn = &t->turns.turn[n];
		/* Without a time nobody can tell any more whose what is. */
		if (!sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &turn->until_ns)) {
			sp_residual_gap(&t->residual);
			return;
		}
		(void)sp_handler_label(t, &turn->label);
		/* whoever looks at the number next may be our handler */
		atomic_signal_fence(memory_order_release);
	}
	/* A sample meanwhile has started over, and this turn has only begun for it. */
	(void)atomic_compare_exchange_strong_explicit(&t->turns.n, &n, n + 1, memory_order_relaxed,
						      memory_order_relaxed);
}

void sp_turns_share(const struct sp_thread *t, uint64_t now, uint64_t ns,
		    void (*give)(void *arg, const struct sp_turn_label *label, uint64_t ns),
		    void *arg)
{
	static const struct sp_turn_label nobody;
	uint32_t n = atomic_load_explicit(&t->turns.n, memory_order_relaxed);
	struct sp_turn_label last = nobody;
	const struct sp_turn_label *label = &last;

	if (n > SP_TURNS_MAX)
		n = SP_TURNS_MAX;
	else
		(void)sp_handler_label(t, &last);
	/* From the last turn back; the first one takes what is left, as it began before its sample. */
	while (ns != 0) {
		uint64_t from = n > 0 ? t->turns.turn[n - 1].until_ns : 0;
		uint64_t part = now > from ? now - from : 0;

		if (n == 0 || part > ns)
			part = ns;
		if (part != 0)
			give(arg, label, part);
		ns -= part;
		if (n == 0)
			break;
		now = from;
		label = &t->turns.turn[--n].label;
	}
}
