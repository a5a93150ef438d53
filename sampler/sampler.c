/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up the sampler at the first recorded span, and again in a forked child. Contexts: APP
 * (activation), INIT (forked child).
 */
#include "sampler/sampler.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/arena.h"
#include "sampler/base/counters.h"
#include "sampler/base/process.h"
#include "sampler/base/syscall.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/region.h"
#include "sampler/region/root_durations.h"
#include "sampler/region/thread_labels.h"
#include "sampler/sampling/allocation.h"
#include "sampler/sampling/handler.h"
#include "sampler/sampling/region_swap.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/root_cpu.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "sampler/unwind/unwind_sig.h"

#define RING_MIN (UINT64_C(1) << 20)
#define RING_MAX (UINT64_C(1) << 24)
/*
 * One busy CPU at 100 Hz writes about 40 KiB a second; the exporter reads at least once a second.
 */
#define RING_PER_CPU (UINT64_C(1) << 17)
/* A busy CPU may allocate more than a gigabyte a second, which gives 2,000 samples. */
#define RING_MIN_ALLOC (UINT64_C(1) << 22)
/* A snapshot of a deep stack takes 16 KiB, a sample usually less than one. */
#define SNAPSHOT_RING_MIN (UINT64_C(1) << 21)
#define SNAPSHOT_RING_MAX (UINT64_C(1) << 24)
#define SNAPSHOT_RING_PER_CPU (UINT64_C(1) << 20)

static uint64_t ring_size(uint64_t per_cpu, uint64_t size, uint64_t max)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t want = per_cpu * (uint64_t)(cpus > 0 ? cpus : 1);

	if (want > max)
		want = max;
	want = sp_arena_share(want);
	while (size < want)
		size *= 2;
	return size;
}

/*
 * One new name in every other sample of twenty busy CPUs; the exporter reads at least once a
 * second.
 */
#define NAMES_RING (UINT64_C(1) << 17)

static uint64_t bytes[SP_REGION_PARTS]; /* a forked child inherits them */

/*
 * Decides how stacks are walked and how large the parts of the region are. Pages for snapshots take
 * memory only if snapshots are taken.
 */
static int plan(const struct sp_config *cfg, void *(*lookup)(const char *name))
{
	int err = sp_unwind_init(lookup);

	bytes[SP_REGION_RING] = SP_RING_BYTES(
		ring_size(RING_PER_CPU, cfg->alloc ? RING_MIN_ALLOC : RING_MIN, RING_MAX));
	bytes[SP_REGION_SNAPSHOTS] = 0;
	bytes[SP_REGION_NAMES] = SP_RING_BYTES(NAMES_RING);
	bytes[SP_REGION_LABELS] =
		sp_config_wants_waits(cfg) ? SP_THREAD_LABELS_BYTES(SP_THREADS_MAX) : 0;
	bytes[SP_REGION_ROOTS] = cfg->slow != NULL || sp_config_measures_roots(cfg)
					 ? sizeof(struct sp_root_durations)
					 : 0;
	if (cfg->unwind == SP_UNWIND_CFI)
		return err;
	sp_handler_setup.always_snapshot = err != 0 || cfg->unwind == SP_UNWIND_SNAPSHOT;
	bytes[SP_REGION_SNAPSHOTS] = SP_RING_BYTES(
		ring_size(SNAPSHOT_RING_PER_CPU, SNAPSHOT_RING_MIN, SNAPSHOT_RING_MAX));
	return 0;
}

/*
 * Creates the region and uses it. If there is no room for all parts, the region has no durations of
 * roots; if it is still too large, it has no labels of waiting threads; and if it is still too
 * large and the handler can walk stacks itself, it has no snapshots either.
 */
static int make_region(void)
{
	static const enum sp_region_parts spared[] = {SP_REGION_ROOTS, SP_REGION_LABELS,
						      SP_REGION_SNAPSHOTS};
	uint64_t whole[SP_REGION_PARTS];
	int fd = sp_region_create(bytes);

	memcpy(whole, bytes, sizeof(whole));
	for (unsigned i = 0; (fd == -ENOMEM || fd == -EFBIG) && i < SP_ARRAY_LEN(spared); i++) {
		if (bytes[spared[i]] == 0 ||
		    (spared[i] == SP_REGION_SNAPSHOTS && sp_handler_setup.always_snapshot))
			continue;
		bytes[spared[i]] = 0;
		fd = sp_region_create(bytes);
	}
	if (fd < 0) {
		/* A later attempt may have room for all parts. */
		memcpy(bytes, whole, sizeof(whole));
		return fd;
	}
	sp_region_swap_first(sp_region_now());
	/*
	 * A forked child continues the spans of the thread that forked. Only the exporter gets
	 * these labels: for other profilers outside, a child has no span before its own first one.
	 */
	if (sp_thread_labels_now() != NULL && sp_thread_own != NULL)
		sp_shown_label_put(sp_thread_own);
	return fd;
}

/* No secret: it only distinguishes signals of our timers from signals that a host sends itself. */
static uint32_t make_cookie(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	/*
	 * The top bit is set: no pointer of user space has it, and a host's si_value is often a
	 * pointer.
	 */
	return ((uint32_t)ts.tv_nsec * 2654435761U ^ (uint32_t)sp_syscall_always(SYS_getpid)) |
	       UINT32_C(1) << 31;
}

static int prepare(const struct sp_config *cfg)
{
	struct sp_handler_setup *h = &sp_handler_setup;
	bool joins_roots = sp_config_joins_roots(cfg);
	int err;

	if (sp_names_init(cfg->max_span_names) != 0 || sp_thread_init() != 0 ||
	    sp_span_table_init() != 0 ||
	    ((cfg->span_cpu_time || cfg->span_times) && sp_span_times_init(cfg->span_times) != 0) ||
	    sp_span_values_init(cfg->span_labels, joins_roots) != 0 ||
	    (cfg->slow != NULL && sp_slow_roots_init(sp_config_wants_latency(cfg)) != 0) ||
	    (sp_config_measures_roots(cfg) && sp_root_cpu_init() != 0))
		return -ENOMEM;
	/* Without the cache every rule is decoded anew, which is correct and slow. */
	(void)sp_rule_cache_init();
	sp_active_span_set_source(cfg->active_span);
	h->depth = cfg->stack_depth;
	h->period_ns = SP_NS_PER_S / cfg->sample_rate_hz;
	sp_active_span_label_scopes = (struct sp_active_span_label_scopes){
		.id = cfg->span_id_scope,
		.name = cfg->span_name_scope,
		.trace_id = cfg->trace_id,
		.root = joins_roots,
	};
	sp_shown_label_notes_waits = (cfg->attributes != SP_ATTRIBUTES_NEVER || joins_roots) &&
				     sp_config_wants_waits(cfg);
	h->thread_name = cfg->thread_name;
	sp_thread_account_init(cfg->thread_name);
	sp_allocation_init(cfg->stack_depth);
	/* Marks of spans with samples decide whether a span has a profile, and of which type. */
	h->note_samples = cfg->attributes == SP_ATTRIBUTES_WITH_SAMPLES ||
			  (cfg->alloc && cfg->attributes != SP_ATTRIBUTES_NEVER) ||
			  sp_shown_label_notes_waits || joins_roots;
	err = sp_signals_install(cfg->signal_number, sp_handler);
	if (err != 0)
		return err;
	/* A forked child has its parent's cookie, because its timers have it. */
	if (h->cookie == 0)
		h->cookie = make_cookie();
	sp_thread_timer_set(sp_signals_number(), h->period_ns, h->cookie);
	return 0;
}

int sp_sampler_prepare(const struct sp_config *cfg, void *(*lookup)(const char *name))
{
	int fd;
	int err;

	sp_alternate_stack_init();
	err = plan(cfg, lookup);
	if (err != 0)
		return err;
	fd = make_region();
	if (fd < 0)
		return fd;
	err = prepare(cfg);
	if (err == 0)
		return fd;
	(void)sp_syscall_always(SYS_close, fd);
	return err;
}

int sp_sampler_begin(void)
{
	return make_region();
}

bool sp_sampler_forked(void)
{
	struct sp_span_record active;

	sp_process_forked();
	sp_counters_reset();
	/* the sampler was never set up */
	if (sp_handler_setup.cookie == 0)
		return false;
	sp_region_swap_forked();
	sp_region_forked();
	sp_span_forked(sp_thread_forked());
	return sp_thread_own != NULL &&
	       sp_span_stack_peek(&sp_thread_own->spans, &active) != SP_SPAN_NONE;
}
