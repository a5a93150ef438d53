/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's life on the background thread: drain, aggregate, and at every upload interval
 * encode and send. All state hangs on one object made by sp_export_run(): a forked child runs it
 * again in the same image and must find nothing of its parent's. Context: BG. Caller: the core,
 * through dlsym.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "export/clock.h"
#include "export/encode.h"
#include "export/export.h"
#include "export/losses.h"
#include "export/modules.h"
#include "export/openssl.h"
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
#define SP_WAIT_SENDING_MS 10
/* For an answer that is about to come: cut off, a profile is sent again and may be there twice. */
#define SP_LEAVE_GRACE_MS 500

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
	unsigned asked; /* SP_WAIT_ bits that wait() returned and nobody has served yet */
	bool active;    /* the last drain found samples */
	bool flushing;
	uint64_t leave_ns; /* when a leave was first seen; 0 = none is asked for */
	uint64_t tick_ns;
	uint64_t batch_mono_ns;
	int64_t batch_real_ns;
	uint32_t batch_epoch;
	struct sp_losses losses;
};

struct put_arg {
	struct exporter *x;
	uint32_t epoch;
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
	bool over = false;
	uint32_t id = 0;

	if (x->threads != NULL)
		id = sp_thread_names_put(x->threads, s->thread_name, &over);
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

static void put_snapshot(const struct sp_snapshot *snap, void *arg)
{
	const struct put_arg *p = arg;
	const struct sp_core_ops *ops = p->x->ops;
	struct sp_sample s;

	if (!sp_unwinder_walk(p->x->unwinder, snap, ops->config->stack_depth, &s))
		ops->counter_add(SP_COUNT_UNWIND_FAILED, 1);
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		ops->counter_add(SP_COUNT_UNWIND_TRUNCATED, 1);
	put_sample(&s, arg);
}

static void drain(struct exporter *x)
{
	struct put_arg arg = {.x = x, .epoch = sp_modules_epoch(x->modules)};

	x->active = false;
	/* Bounded, because the threads that fill the ring may be faster than we are. */
	for (unsigned round = 0; round < SP_DRAIN_ROUNDS; round++) {
		unsigned n = x->ops->drain(put_sample, &arg, SP_DRAIN_MAX);

		x->active = x->active || n != 0;
		if (n < SP_DRAIN_MAX)
			break;
	}
	/* Only now: the ring tells of the objects in the order in which they came and went, the
	 * loader's list knows the present alone, which is what snapshots are walked in. */
	(void)sp_modules_refresh(x->modules);
	arg.epoch = sp_modules_epoch(x->modules);
	if (x->ops->drain_snapshots(put_snapshot, &arg, SP_SNAPSHOTS_MAX) == 0)
		return;
	x->active = true;
	sp_unwinder_forget(x->unwinder);
}

static bool grace_is_over(struct exporter *x)
{
	uint64_t now = sp_clock_mono_ns();

	if (x->leave_ns == 0)
		x->leave_ns = now;
	return now - x->leave_ns >= SP_LEAVE_GRACE_MS * SP_NS_PER_MS;
}

/*
 * While a request is on its way: keep draining, and notice that the process wants to end, or that
 * this thread has to. The core lets a host fork only while we are in wait(), so the time is spent
 * there and not in libcurl; when wait() returns at once, libcurl sleeps.
 */
static int while_sending(void *arg)
{
	struct exporter *x = arg;
	bool ending = x->ops->flush_pending() != 0;
	uint32_t left;

	if ((x->asked & SP_WAIT_LEAVE) != 0)
		ending = true;
	x->asked |= x->ops->wait(ending ? 0 : SP_WAIT_SENDING_MS);
	drain(x);
	if (!x->ops->flush_pending() && (x->asked & SP_WAIT_LEAVE) != 0)
		return grace_is_over(x) ? -1 : SP_WAIT_SENDING_MS;
	if (!x->ops->flush_pending())
		return 0;
	/* A flush has newer samples to send as well: an upload that was under way when it began
	 * gets half of its time. */
	left = x->ops->flush_left_ms();
	if (left == 0 || (!x->flushing && left < x->ops->config->flush_timeout_ms / 2))
		return -1;
	return SP_WAIT_SENDING_MS;
}

static void put_profile(void *arg, const struct sp_bytes *profile, uint64_t samples)
{
	struct exporter *x = arg;

	sp_upload_put(x->upload, profile, x->batch_real_ns, samples);
}

static void begin_batch(struct exporter *x)
{
	/* What was gone before the batch that was just encoded is of no use to anyone. */
	sp_modules_forget(x->modules, x->batch_epoch);
	x->ops->sight_again();
	x->batch_epoch = sp_modules_epoch(x->modules);
	x->batch_mono_ns = sp_clock_mono_ns();
	x->batch_real_ns = sp_clock_real_ns();
	sp_stack_map_clear(x->map);
}

/* Between two slices of symbolization. What was asked for is served after it. */
static bool pause_symbols(void *arg, uint32_t ms)
{
	struct exporter *x = arg;

	x->asked |= x->ops->wait(ms);
	drain(x);
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
				.time_ns = x->batch_real_ns,
			},
	};

	if (sp_stack_map_samples(x->map) != 0) {
		sp_symbols_prepare(x->symbols, x->map);
		e.times.duration_ns = (int64_t)(sp_clock_mono_ns() - x->batch_mono_ns);
		sp_encode(&e, x->map, put_profile, x);
	}
	begin_batch(x);
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

static void tick(struct exporter *x)
{
	uint64_t interval = x->ops->config->upload_interval_ms * SP_NS_PER_MS;
	uint64_t now = sp_clock_mono_ns();

	encode_batch(x);
	sp_upload_run(x->upload);
	sp_losses_tell(&x->losses, x->ops);
	write_status(x);
	/* In step with the first tick, whatever the upload took, but never two at once. */
	x->tick_ns += interval;
	if (x->tick_ns <= now)
		x->tick_ns = now + interval;
}

static void flush(struct exporter *x)
{
	x->flushing = true;
	drain(x);
	encode_batch(x);
	sp_upload_flush(x->upload);
	sp_losses_tell(&x->losses, x->ops);
	x->flushed = true;
	x->flushed_samples = x->sampled[0] + x->sampled[1];
	write_status(x);
	x->flushing = false;
	/* The request may have been seen a second time while sending. */
	x->asked &= ~SP_WAIT_FLUSH;
	x->ops->flushed();
}

/* Stopped without a flush: what is left is lost, but not in silence. */
static void abandon(struct exporter *x)
{
	sp_upload_abandon(x->upload);
	x->ops->counter_add(SP_COUNT_SAMPLES_UNSENT, sp_stack_map_samples(x->map));
	sp_losses_tell(&x->losses, x->ops);
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

/* True if it is to go on in another thread. */
static bool loop(struct exporter *x)
{
	for (;;) {
		unsigned bits = x->asked | x->ops->wait(x->asked != 0 ? 0 : wait_ms(x));

		x->asked = 0;
		drain(x);
		if ((bits & SP_WAIT_FLUSH) != 0)
			flush(x);
		if ((bits & SP_WAIT_STOP) != 0) {
			abandon(x);
			return false;
		}
		if ((bits & SP_WAIT_LEAVE) != 0) {
			x->leave_ns = 0;
			return true;
		}
		if (sp_clock_mono_ns() >= x->tick_ns)
			tick(x);
		else if (sp_upload_due_ms(x->upload) == 0)
			sp_upload_run(x->upload);
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
	x->modules = sp_modules_new(dl_iterate_phdr);
	x->map = sp_stack_map_new(&sp_stack_limits_default);
	x->unwinder = sp_unwinder_new(dl_iterate_phdr);
	if (ops->config->thread_name)
		x->threads = sp_thread_names_new();
	if (x->modules == NULL || x->map == NULL || x->unwinder == NULL ||
	    (ops->config->thread_name && x->threads == NULL))
		return -ENOMEM;
	x->symbols = sp_symbols_new(ops, x->modules, pause_symbols, x);
	if (x->symbols == NULL)
		return -ENOMEM;
	err = sp_upload_new(ops, &x->losses, while_sending, x, &x->upload);
	if (err != 0)
		return err;
	x->status = sp_status_new(ops);
	(void)sp_modules_refresh(x->modules);
	begin_batch(x);
	interval = ops->config->upload_interval_ms * SP_NS_PER_MS;
	x->tick_ns = x->batch_mono_ns + sp_clock_first_wait(interval, sp_clock_seed(ops->pid));
	return 0;
}

SP_EXPORT int sp_export_run(const struct sp_core_ops *ops, void (*ready)(void))
{
	struct exporter *x;
	int err = 0;

	if (ops->abi != SP_EXPORT_ABI)
		return -ENOTSUP;
	x = *ops->kept;
	*ops->kept = NULL;
	if (x == NULL) {
		/* An exit between OpenSSL's handler and ours would free what is being set up. */
		if (ops->config->server_address != NULL) {
			sp_openssl_settle();
			ready();
		}
		err = create(ops, &x);
		if (err == 0) {
			ready();
			write_status(x);
		}
	}
	if (err == 0 && loop(x))
		*ops->kept = x;
	else if (x != NULL)
		destroy(x);
	return err;
}
