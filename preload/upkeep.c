/* SPDX-License-Identifier: Apache-2.0 */
/* Looking after the process. Context: BG; main_ended() APP, forked() INIT. Caller: background.c. */
#include "preload/upkeep.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/descriptors.h"
#include "preload/life.h"
#include "sampler/counters.h"
#include "sampler/log.h"
#include "sampler/monotonic.h"
#include "sampler/residual.h"
#include "sampler/signal_move.h"
#include "sampler/signals.h"
#include "sampler/span_age.h"
#include "sampler/tasks.h"
#include "sampler/thread.h"

#define SCAN_NS (1 * SP_NS_PER_S)
#define SWEEP_NS (30 * SP_NS_PER_S)
/* Once the initial thread has ended we must not keep a finished process alive: look often. */
#define SCAN_LAST_NS (20 * SP_NS_PER_MS)

static uint64_t next_ns;
static uint32_t unarmed;
static _Atomic bool main_ended;

static void check_signal(void)
{
	static bool told;

	if (told || sp_signals_owned())
		return;
	told = true;
	sp_count(SP_COUNT_SIGNAL_TAKEN);
	sp_log(SP_LOG_WARN,
	       "the program took signal %d, which sampling uses: profiling stops in this process "
	       "(set SPANPROF_SIGNAL to another one)",
	       sp_signals_number());
	sp_life_stop();
	sp_residual_stop();
}

/* Spans that never end, at least eight times in the longest age. */
static void sweep_spans(const struct sp_config *config)
{
	static uint64_t next;
	uint64_t max_age = config->max_span_age_ms * SP_NS_PER_MS;
	uint64_t now = sp_monotonic_ns();

	if (now < next)
		return;
	sp_span_age_sweep(now, max_age);
	next = now + (max_age / 8 < SWEEP_NS ? max_age / 8 : SWEEP_NS);
}

bool sp_upkeep_run(const struct sp_config *config)
{
	bool often = atomic_load_explicit(&main_ended, memory_order_relaxed);
	uint32_t armed;
	int others;

	if (sp_signal_move_has_news())
		sp_signal_move_follow();
	if (often && next_ns > sp_monotonic_ns() + SCAN_LAST_NS)
		next_ns = 0;
	if (sp_monotonic_ns() < next_ns)
		return false;
	if (sp_life_active()) {
		check_signal();
		sp_signal_move_follow();
	}
	sp_descriptors_check_stderr();
	sweep_spans(config);
	others = sp_tasks_scan((uint32_t)syscall(SYS_gettid));
	if (sp_life_active())
		sp_residual_look();
	armed = sp_thread_armed();
	unarmed = others > 0 && (uint32_t)others > armed ? (uint32_t)others - armed : 0;
	next_ns = sp_monotonic_ns() + (often ? SCAN_LAST_NS : SCAN_NS);
	return others == 0;
}

uint64_t sp_upkeep_due_ns(void)
{
	return next_ns;
}

uint32_t sp_upkeep_unarmed(void)
{
	return unarmed;
}

void sp_upkeep_main_ended(void)
{
	atomic_store_explicit(&main_ended, true, memory_order_relaxed);
}

void sp_upkeep_forked(void)
{
	next_ns = 0;
	unarmed = 0;
	/* whichever thread forked is the child's initial one, and has not ended */
	atomic_store_explicit(&main_ended, false, memory_order_relaxed);
}
