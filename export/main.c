/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's loop: drain, aggregate, and at every upload interval encode and send. All state hangs
 * on one object made by sp_export_run().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/clock.h"
#include "export/encode.h"
#include "export/export.h"
#include "export/losses.h"
#include "export/modules.h"
#include "export/stack_map.h"
#include "export/status.h"
#include "export/symbols.h"
#include "export/thread_names.h"
#include "export/unwind_snapshot.h"
#include "export/upload.h"

#define SP_DRAIN_MAX 4096U /* samples per call */
#define SP_DRAIN_ROUNDS 16U
#define SP_SNAPSHOTS_MAX 1024U /* per drain; 3 us a frame, so 0.1 ms each as a rule */
#define SP_WAIT_ACTIVE_MS 250U
#define SP_WAIT_IDLE_MS 1000U
/* What the rings can hold at most is far less; a program that fills them for ever is not waited for. */
#define SP_FLUSH_DRAINS 64U

/* Where a profile ends, and the next one begins. */
struct moment {
	uint64_t mono_ns;
	int64_t real_ns;
};

struct exporter {
	const struct sp_core_ops *ops;
	struct sp_modules *modules;
	struct sp_symbols *symbols;
	struct sp_unwinder *unwinder;
	struct sp_stack_map *map;
	struct sp_thread_names *threads; /* NULL = no thread_name labels */
	struct sp_upload *upload;
	struct sp_status *status; /* NULL = none is wanted */
	uint64_t sampled[2];      /* outside of spans, in spans */
	uint64_t flushed_samples; /* of both, at the last flush */
	bool flushed;
	unsigned asked;  /* SP_WAIT_ bits that wait() returned and nobody has served yet */
	bool active;     /* the last drain found samples */
	bool report_due; /* of what the last tick has led to */
	uint64_t tick_ns;
	struct moment begun; /* the profile that is being collected */
	uint32_t batch_epoch;
	struct sp_losses losses;
};

struct put_arg {
	struct exporter *x;
	uint32_t epoch;
	bool looked; /* what is mapped was looked at for the snapshots of this drain */
};

static void put_object(const struct sp_sample *s, struct put_arg *p)
{
	struct sp_sighting sighting;

	if (s->depth * sizeof(s->pc[0]) < sizeof(sighting))
		return;
	memcpy(&sighting, s->pc, sizeof(sighting));
	sp_modules_sight(p->x->modules, &sighting);
	p->epoch = sp_modules_epoch(p->x->modules);
}

static uint32_t thread_of(const struct exporter *x, const struct sp_sample *s)
{
	char name[SP_THREAD_NAME_BYTES];
	bool over = false;
	uint32_t id;

	if (x->threads == NULL)
		return 0;
	/* what is put down for another thread has not been asked for its name */
	memcpy(name, s->thread_name, sizeof(name));
	if (name[0] == '\0' && s->tid != 0 && (s->flags & SP_SAMPLE_RESIDUAL) != 0)
		x->ops->thread_name(s->tid, name);
	id = sp_thread_names_put(x->threads, name, &over);
	if (over)
		x->ops->counter_add(SP_COUNT_THREAD_NAMES_OTHER, 1);
	return id;
}

static void put_sample(const struct sp_sample *s, void *arg)
{
	const struct put_arg *p = arg;
	const struct sp_core_ops *ops = p->x->ops;
	unsigned loss;

	if ((s->flags & SP_SAMPLE_OBJECT) != 0) {
		put_object(s, arg);
		return;
	}
	loss = sp_stack_map_put(p->x->map, s, p->epoch, thread_of(p->x, s));
	if ((s->flags & SP_SAMPLE_RESIDUAL) == 0)
		p->x->sampled[s->span_id != 0]++;
	if ((loss & SP_STACK_LOST) != 0)
		ops->counter_add(SP_COUNT_STACKS_OTHER, 1);
	if ((loss & SP_LABELS_LOST) != 0)
		ops->counter_add(SP_COUNT_SPANS_OTHER, 1);
	if ((loss & SP_STACK_NOMEM) != 0)
		ops->counter_add(SP_COUNT_EXPORT_NOMEM, 1);
}

/*
 * Only now that the ring is drained: it tells of the objects in the order in which they came and
 * went, the mappings of the present alone, which is what snapshots are walked in. And only if there
 * are any, as looking takes the host's mmap lock.
 */
static void look_once(struct put_arg *p)
{
	if (!p->looked && sp_host_objects_due(sp_modules_host(p->x->modules)))
		(void)sp_modules_refresh(p->x->modules);
	p->looked = true;
	p->epoch = sp_modules_epoch(p->x->modules);
}

static void put_snapshot(const struct sp_snapshot *snap, void *arg)
{
	struct put_arg *p = arg;
	const struct sp_core_ops *ops = p->x->ops;
	struct sp_sample s;

	look_once(p);
	if (!sp_unwinder_walk(p->x->unwinder, snap, ops->config->stack_depth, &s))
		ops->counter_add(SP_COUNT_UNWIND_FAILED, 1);
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		ops->counter_add(SP_COUNT_UNWIND_TRUNCATED, 1);
	put_sample(&s, arg);
}

/* True if there may be more. */
static bool drain(struct exporter *x)
{
	struct put_arg arg = {.x = x, .epoch = sp_modules_epoch(x->modules)};
	bool more = true;
	unsigned walked;

	x->active = false;
	/* Bounded, because the threads that fill the ring may be faster than we are. */
	for (unsigned round = 0; round < SP_DRAIN_ROUNDS; round++) {
		unsigned n = x->ops->drain(put_sample, &arg, SP_DRAIN_MAX);

		x->active = x->active || n != 0;
		more = n == SP_DRAIN_MAX;
		if (!more)
			break;
	}
	walked = x->ops->drain_snapshots(put_snapshot, &arg, SP_SNAPSHOTS_MAX);
	if (walked != 0)
		x->active = true;
	return more || walked == SP_SNAPSHOTS_MAX;
}

/* While a flush waits for the server. Its wait() returns at once; libcurl has slept. */
static void while_flushing(void *arg)
{
	struct exporter *x = arg;

	x->asked |= x->ops->wait(0);
	(void)drain(x);
}

static void put_profile(void *arg, const struct sp_bytes *profile, uint64_t samples)
{
	struct exporter *x = arg;

	sp_upload_put(x->upload, profile, x->begun.real_ns, samples);
}

static struct moment now(void)
{
	return (struct moment){sp_clock_mono_ns(), sp_clock_real_ns()};
}

static void begin_batch(struct exporter *x, struct moment at)
{
	/* What was gone before the batch that was just encoded is of no use to anyone. */
	sp_modules_forget(x->modules, x->batch_epoch);
	x->ops->sight_again();
	x->batch_epoch = sp_modules_epoch(x->modules);
	x->begun = at;
	sp_stack_map_clear(x->map);
}

/* Between two slices of symbolization. What was asked for is served after it. */
static bool pause_symbols(void *arg, uint32_t ms)
{
	struct exporter *x = arg;

	x->asked |= x->ops->wait(ms);
	(void)drain(x);
	sp_upload_run(x->upload);
	return x->asked == 0 && !x->ops->flush_pending();
}

static void encode_batch(struct exporter *x)
{
	const struct sp_config *c = x->ops->config;
	uint32_t hz = c->sample_rate_hz != 0 ? c->sample_rate_hz : 1;
	struct sp_encoder e = {
		.ops = x->ops,
		.symbolizer = sp_symbols_symbolizer(x->symbols),
		.threads = x->threads,
		.limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES},
		.times =
			{
				.period_ns = (int64_t)(SP_NS_PER_S / hz),
				.time_ns = x->begun.real_ns,
			},
	};
	struct moment end;

	if (sp_stack_map_samples(x->map) != 0) {
		/* For addresses in objects that the handler never met, as of a thread's start. */
		(void)sp_modules_refresh(x->modules);
		sp_symbols_prepare(x->symbols, x->map);
	}
	/* What is taken while this one is encoded belongs to the next. */
	end = now();
	e.times.duration_ns = (int64_t)(end.mono_ns - x->begun.mono_ns);
	if (sp_stack_map_samples(x->map) != 0)
		sp_encode(&e, x->map, put_profile, x);
	begin_batch(x, end);
}

/* After a flush the process is on its way out until it proves the contrary by new samples. */
static void write_status(struct exporter *x)
{
	bool ending = x->flushed && x->flushed_samples == x->sampled[0] + x->sampled[1];
	const struct sp_status_input in = {
		.state = ending ? "ending" : "active",
		.address = sp_upload_address(x->upload),
		.news = sp_upload_news(x->upload),
		.with_span = x->sampled[1],
		.without_span = x->sampled[0],
	};

	(void)sp_status_write(x->status, &in);
}

/* Once in an upload interval. */
static void report(struct exporter *x)
{
	x->report_due = false;
	sp_losses_tell(&x->losses, x->ops);
	write_status(x);
}

static void tick(struct exporter *x)
{
	uint64_t interval = x->ops->config->upload_interval_ms * SP_NS_PER_MS;
	uint64_t now_ns = sp_clock_mono_ns();

	if (x->report_due)
		report(x);
	encode_batch(x);
	sp_upload_run(x->upload);
	/* When it is known what became of it, at the latest before the next one. */
	x->report_due = true;
	/* In step with the first tick, whatever encoding took, but never two at once. */
	x->tick_ns += interval;
	if (x->tick_ns <= now_ns)
		x->tick_ns = now_ns + interval;
}

static void flush(struct exporter *x)
{
	/* A killed host leaves all that was in its rings, and nobody comes again to take it. */
	for (unsigned i = 0; i < SP_FLUSH_DRAINS && drain(x); i++)
		;
	encode_batch(x);
	sp_upload_flush(x->upload);
	x->flushed = true;
	x->flushed_samples = x->sampled[0] + x->sampled[1];
	report(x);
	/* The request may have been seen a second time while sending. */
	x->asked &= ~SP_WAIT_FLUSH;
	x->ops->flushed();
}

/* Whatever is left is lost, but not in silence: what was being sent, or all if there was no flush. */
static void abandon(struct exporter *x)
{
	uint64_t samples = 0;

	sp_upload_abandon(x->upload);
	for (uint32_t i = 0; i < sp_stack_map_entries(x->map); i++)
		samples += sp_stack_map_entry(x->map, i)->count;
	x->ops->counter_add(SP_COUNT_SAMPLES_UNSENT, samples);
	report(x);
}

static uint32_t wait_ms(const struct exporter *x)
{
	uint64_t now = sp_clock_mono_ns();
	uint64_t ms = x->tick_ns > now ? (x->tick_ns - now) / SP_NS_PER_MS + 1 : 0;
	uint32_t most = x->active ? SP_WAIT_ACTIVE_MS : SP_WAIT_IDLE_MS;
	uint32_t due = sp_upload_due_ms(x->upload);

	if (ms > most)
		ms = most;
	return due < ms ? due : (uint32_t)ms;
}

static void loop(struct exporter *x)
{
	for (;;) {
		unsigned bits = x->asked | x->ops->wait(x->asked != 0 ? 0 : wait_ms(x));

		x->asked = 0;
		(void)drain(x);
		if ((bits & SP_WAIT_FLUSH) != 0)
			flush(x);
		if ((bits & SP_WAIT_STOP) != 0) {
			abandon(x);
			return;
		}
		if (sp_clock_mono_ns() >= x->tick_ns)
			tick(x);
		else
			sp_upload_run(x->upload);
		if (x->report_due && !sp_upload_under_way(x->upload))
			report(x);
	}
}

static void destroy(struct exporter *x)
{
	sp_status_free(x->status);
	sp_upload_free(x->upload);
	sp_symbols_free(x->symbols);
	sp_unwinder_free(x->unwinder);
	sp_modules_free(x->modules);
	sp_stack_map_free(x->map);
	sp_thread_names_free(x->threads);
	free(x);
}

static int create(const struct sp_core_ops *ops, struct exporter **out)
{
	struct exporter *x = calloc(1, sizeof(*x));
	uint64_t interval;
	int err;

	if (x == NULL)
		return -ENOMEM;
	*out = x;
	x->ops = ops;
	x->modules = sp_modules_new(ops->proc, ops->maps);
	x->map = sp_stack_map_new(&sp_stack_limits_default);
	if (x->modules != NULL)
		x->unwinder = sp_unwinder_new(sp_modules_host(x->modules));
	if (ops->config->thread_name)
		x->threads = sp_thread_names_new();
	if (x->modules == NULL || x->map == NULL || x->unwinder == NULL ||
	    (ops->config->thread_name && x->threads == NULL))
		return -ENOMEM;
	x->symbols = sp_symbols_new(ops, x->modules, pause_symbols, x);
	if (x->symbols == NULL)
		return -ENOMEM;
	err = sp_upload_new(ops, &x->losses, while_flushing, x, &x->upload);
	if (err != 0)
		return err;
	x->status = sp_status_new(ops);
	(void)sp_modules_refresh(x->modules);
	begin_batch(x, now());
	interval = ops->config->upload_interval_ms * SP_NS_PER_MS;
	x->tick_ns = x->begun.mono_ns + sp_clock_first_wait(interval, sp_clock_seed(ops->pid));
	return 0;
}

int sp_export_run(const struct sp_core_ops *ops)
{
	struct exporter *x = NULL;
	int err = create(ops, &x);

	if (err == 0) {
		write_status(x);
		loop(x);
	}
	if (x != NULL)
		destroy(x);
	return err;
}
