/* SPDX-License-Identifier: Apache-2.0 */
/* Setting up the sampler. Contexts: APP (activation), INIT (forked child). */
#include "sampler/sampler.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "sampler/alternate_stack.h"
#include "sampler/counters.h"
#include "sampler/handler.h"
#include "sampler/label.h"
#include "sampler/process.h"
#include "sampler/row_cache.h"
#include "sampler/scope.h"
#include "sampler/sighting.h"
#include "sampler/signal_move.h"
#include "sampler/signals.h"
#include "sampler/span.h"
#include "sampler/span_cpu.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"
#include "sampler/timer.h"
#include "sampler/unwind_sig.h"

#define RING_MIN (UINT64_C(1) << 20)
#define RING_MAX (UINT64_C(1) << 24)
/* One busy CPU at 100 Hz writes about 40 KiB a second; the consumer comes at least once a second. */
#define RING_PER_CPU (UINT64_C(1) << 17)
/* A snapshot of a deep stack takes 16 KiB, a sample as a rule less than one. */
#define SNAPSHOT_RING_MIN (UINT64_C(1) << 21)
#define SNAPSHOT_RING_MAX (UINT64_C(1) << 24)
#define SNAPSHOT_RING_PER_CPU (UINT64_C(1) << 20)

static uint64_t ring_size(uint64_t per_cpu, uint64_t size, uint64_t max)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t want = per_cpu * (uint64_t)(cpus > 0 ? cpus : 1);

	while (size < want && size < max)
		size *= 2;
	return size;
}

static int make_ring(struct sp_ring *r, uint64_t size)
{
	return r->word != NULL ? 0 : sp_ring_init(r, size);
}

/*
 * How stacks will be walked. Snapshots need memory that is touched only when there are some; if
 * there is no room for it, the handler goes on without them where it can.
 */
static int choose_unwinder(enum sp_unwind_mode mode, void *(*lookup)(const char *name))
{
	struct sp_handler_setup *h = &sp_handler_setup;
	int err = sp_unwind_init(lookup);

	if (mode == SP_UNWIND_CFI)
		return err;
	h->always_snapshot = err != 0 || mode == SP_UNWIND_SNAPSHOT;
	if (make_ring(&h->snapshots,
		      ring_size(SNAPSHOT_RING_PER_CPU, SNAPSHOT_RING_MIN, SNAPSHOT_RING_MAX)) == 0)
		return 0;
	return h->always_snapshot ? -ENOMEM : 0;
}

/* Not a secret: it only tells our timers' signals from others that a host might send itself. */
static uint32_t make_cookie(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	/* no pointer of user space has the top bit, and a host's si_value is often a pointer */
	return ((uint32_t)ts.tv_nsec * 2654435761U ^ (uint32_t)getpid()) | UINT32_C(1) << 31;
}

int sp_sampler_prepare(const struct sp_config *cfg, void *(*lookup)(const char *name))
{
	struct sp_handler_setup *h = &sp_handler_setup;
	int err;

	sp_process_adopt();
	sp_alternate_stack_init();
	if (sp_label_init(cfg->max_span_names) != 0 || sp_thread_init() != 0 ||
	    sp_span_table_init() != 0 || (cfg->span_cpu_time && sp_span_cpu_init() != 0))
		return -ENOMEM;
	if (make_ring(&h->ring, ring_size(RING_PER_CPU, RING_MIN, RING_MAX)) != 0)
		return -ENOMEM;
	/* Without it every frame is decoded anew, which is right and slow. */
	(void)sp_row_cache_init();
	sp_sighting_init(&h->ring);
	err = choose_unwinder(cfg->unwind, lookup);
	if (err != 0)
		return err;
	if (h->cookie == 0)
		h->cookie = make_cookie();
	sp_scope_set_source(cfg->active_span);
	h->depth = cfg->stack_depth;
	h->period_ns = SP_NS_PER_S / cfg->sample_rate_hz;
	h->id_scope = cfg->span_id_scope;
	h->name_scope = cfg->span_name_scope;
	h->trace_id = cfg->trace_id;
	h->thread_name = cfg->thread_name;
	h->mark = cfg->attributes == SP_ATTRIBUTES_WITH_SAMPLES;
	err = sp_signals_install(cfg->signal_number, sp_handler);
	if (err != 0)
		return err;
	if (cfg->signal_number == 0)
		sp_signal_move_tell();
	sp_timer_set(sp_signals_number(), h->period_ns, h->cookie);
	return 0;
}

bool sp_sampler_forked(void)
{
	struct sp_span_entry e;

	sp_counters_reset();
	sp_process_adopt();
	if (sp_handler_setup.ring.word == NULL)
		return false;
	sp_ring_reset(&sp_handler_setup.ring);
	sp_ring_reset(&sp_handler_setup.snapshots);
	sp_sighting_again();
	sp_thread_forked();
	sp_span_forked();
	return sp_thread_own != NULL && sp_span_stack_peek(&sp_thread_own->spans, &e);
}
