/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the sampling signal while sampling goes on (signal_fallback.h). The thread that finds out
 * that the host uses the signal changes over at once; the timers of other threads still send the
 * former signal until sp_signal_fallback_follow() has replaced them. Context: APP.
 */
#include "sampler/thread/signal_fallback.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/thread/thread_mask.h"
#include "sampler/thread/thread_table.h"
#include "sampler/thread/thread_timer.h"
#include "sampler/thread/virtual_mask.h"

static _Atomic bool news; /* set by a fallback until sp_signal_fallback_follow() has run */

static bool sends_former(const struct sp_thread *t)
{
	return atomic_load_explicit(&t->timer, memory_order_acquire) != SP_THREAD_TIMER_NONE &&
	       atomic_load_explicit(&t->timer_signo, memory_order_relaxed) !=
		       sp_thread_timer_signal();
}

void sp_signal_fallback(void)
{
	int saved = errno;

	if (!sp_signals_may_fall_back())
		return;
	/*
	 * The calling thread is about to block the signal or to read it: what its timer has sent is
	 * delivered now.
	 */
	sp_thread_disarm_own();
	if (sp_signals_fall_back()) {
		sp_thread_timer_use(sp_signals_number());
		sp_count(SP_COUNT_SIGNAL_MOVED);
		atomic_store_explicit(&news, true, memory_order_release);
	}
	if (sp_thread_own != NULL)
		sp_thread_rearm();
	errno = saved;
}

void sp_signal_fallback_for(const sigset_t *set)
{
	int saved = errno;

	if (sp_signals_number() == 0)
		return;
	if (sigismember(set, sp_signals_number()) == 1 && !sp_virtual_mask_blanket(set))
		sp_signal_fallback();
	if (sp_thread_own != NULL && sends_former(sp_thread_own) &&
	    sigismember(set, sp_signals_former()) == 1) {
		sp_thread_disarm_own();
		sp_thread_rearm();
	}
	errno = saved;
}

void sp_signal_fallback_tell(void)
{
	if (sp_signals_number() == SIGURG)
		return;
	sp_count(SP_COUNT_SIGNAL_MOVED);
	sp_log(SP_LOG_INFO, "the program uses signal %d itself: sampling with signal %d", SIGURG,
	       sp_signals_number());
}

/*
 * A thread whose kernel mask lacks only the former signal, and so blocks the new one, keeps its
 * timer until it sets another mask.
 */
void sp_signal_fallback_follow(void)
{
	uint32_t n = atomic_load_explicit(&sp_thread_table.used, memory_order_acquire);

	if (sp_signals_former() == 0)
		return;
	if (atomic_exchange_explicit(&news, false, memory_order_acquire))
		sp_log(SP_LOG_INFO,
		       "the program uses signal %d itself: sampling goes on with signal %d",
		       sp_signals_former(), sp_signals_number());
	for (uint32_t i = 0; i < n; i++) {
		struct sp_thread *t = sp_thread_at(i);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		if (tid == 0 || !sends_former(t) || sp_thread_mask_blocks(tid, false))
			continue;
		sp_thread_disarm(t);
		sp_thread_enrol(tid);
	}
}
