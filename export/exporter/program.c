/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loop (export.h) works with, made of a region and a process. All of it hangs on one object,
 * because the functions of struct sp_core_ops have none to be called with.
 */
#include "export/exporter/program.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "export/export.h"
#include "export/exporter/host.h"
#include "export/exporter/messages.h"
#include "export/exporter/names.h"
#include "export/exporter/threads.h"
#include "export/exporter/view.h"
#include "export/exporter/wait.h"
#include "sampler/sdk_texts.h"

/* A ring full of unfinished records; each step passes one. */
#define PASSES_MAX 4096U

static struct {
	struct sp_view view;
	struct sp_host host;
	struct sp_messages messages;
	struct sp_waiter waiter;
	struct sp_names *names;
	bool working;
	uint64_t counter[SP_COUNTER_N];      /* our own */
	uint64_t host_counter[SP_COUNTER_N]; /* the largest that the host ever told */
} self;

static void counter_add(enum sp_counter c, uint64_t n)
{
	self.counter[c] += n;
}

static uint64_t spans_started(const struct sp_region *r, unsigned sdk)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&r->spans[i].started[sdk], memory_order_relaxed);
	return sum;
}

static uint64_t host_counter(enum sp_counter c)
{
	const struct sp_region *r = self.view.region;
	uint64_t sum = atomic_load_explicit(&r->counter[c], memory_order_relaxed);

	for (unsigned sdk = 0; c == SP_COUNT_SPANS_STARTED && sdk < SP_COUNTED_SDKS; sdk++)
		sum += spans_started(r, sdk);
	for (unsigned i = 0; c == SP_COUNT_SPANS_ENDED && i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&r->spans[i].ended, memory_order_relaxed);
	return sum;
}

/* Counters never go back, or what was lost since the last time would be without end. */
static uint64_t counter_read(enum sp_counter c)
{
	uint64_t now = host_counter(c);

	if (now > self.host_counter[c])
		self.host_counter[c] = now;
	return self.host_counter[c] + self.counter[c];
}

struct receiver {
	void (*put)(const struct sp_sample *s, void *arg);
	void *arg;
	unsigned samples;
};

/* What is told of objects was not counted when it was put, and is not when it is drained. */
static void count_and_put(const struct sp_sample *s, void *arg)
{
	struct receiver *r = arg;

	r->samples += (s->flags & SP_SAMPLE_OBJECT) == 0;
	r->put(s, r->arg);
}

static void count_damage(struct sp_ring *r)
{
	counter_add(SP_COUNT_RING_DAMAGED, r->damaged);
	counter_add(SP_COUNT_RING_UNFINISHED, r->unfinished);
	r->damaged = 0;
	r->unfinished = 0;
}

static unsigned drain(void (*put)(const struct sp_sample *s, void *arg), void *arg, unsigned max)
{
	struct receiver r = {.put = put, .arg = arg};
	unsigned n = sp_ring_drain(&self.view.ring, count_and_put, &r, max);

	/* Nobody lives any more who could finish what he has begun. */
	for (unsigned i = 0; self.waiter.gone && n < max && i < PASSES_MAX; i++) {
		if (!sp_ring_pass(&self.view.ring))
			break;
		n += sp_ring_drain(&self.view.ring, count_and_put, &r, max - n);
	}
	counter_add(SP_COUNT_SAMPLES_DRAINED, r.samples);
	count_damage(&self.view.ring);
	return n;
}

static unsigned drain_snapshots(void (*put)(const struct sp_snapshot *s, void *arg), void *arg,
				unsigned max)
{
	unsigned n = sp_snapshot_drain(&self.view.snapshots, put, arg, max);

	for (unsigned i = 0; self.waiter.gone && n < max && i < PASSES_MAX; i++) {
		if (!sp_ring_pass(&self.view.snapshots))
			break;
		n += sp_snapshot_drain(&self.view.snapshots, put, arg, max - n);
	}
	counter_add(SP_COUNT_SAMPLES_DRAINED, n);
	count_damage(&self.view.snapshots);
	return n;
}

static void sight_again(void)
{
	atomic_fetch_add_explicit(&self.view.region->generation, 1, memory_order_relaxed);
}

static const char *label_text(uint32_t id, size_t *len)
{
	return sp_names_text(self.names, id, len);
}

static void list_unknowns(struct sp_core_facts *out, uint32_t facts)
{
	for (unsigned i = 0; i < SP_SDK_FACT_N; i++) {
		if ((facts & UINT32_C(1) << i) == 0)
			continue;
		unsigned n = out->sdk[out->sdks].unknowns++;

		out->sdk[out->sdks].unknown[n].fact = sp_sdk_fact_texts[i].name;
		out->sdk[out->sdks].unknown[n].instead = sp_sdk_fact_texts[i].instead;
	}
}

static void list_sdks(struct sp_core_facts *out)
{
	_Static_assert(SP_SDK_FACT_N <= SP_CORE_FACTS_MAX, "there is room for all");

	for (unsigned i = 0; i < SP_SDK_N && out->sdks < SP_CORE_SDKS_MAX; i++) {
		const struct sp_region_sdk *sdk = &self.view.region->sdk[i];
		uint64_t spans = spans_started(self.view.region, i);
		uint32_t facts = atomic_load_explicit(&sdk->disproved, memory_order_relaxed);

		if ((spans == 0 && facts == 0) || sp_sdk_texts[i].name == NULL)
			continue;
		out->sdk[out->sdks].name = sp_sdk_texts[i].name;
		out->sdk[out->sdks].method = sp_sdk_texts[i].method;
		out->sdk[out->sdks].spans_started = spans;
		list_unknowns(out, facts);
		out->sdks++;
	}
}

/* A number of one of the kernel's 64 signals, or none. */
static int signal_of(uint32_t number)
{
	return number <= 64 ? (int)number : 0;
}

static uint32_t word(const _Atomic uint32_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static void facts(struct sp_core_facts *out)
{
	const struct sp_region *r = self.view.region;
	uint32_t seen = self.waiter.threads.seen;

	*out = (struct sp_core_facts){
		.sampling = word(&r->state) != SP_REGION_STOPPED,
		.signal_number = signal_of(word(&r->signal_number)),
		.threads_armed = word(&r->threads_armed),
		.threads_blocking = word(&r->threads_blocking),
		.threads_limit = word(&r->threads_limit),
		.threads_refused = word(&r->threads_refused),
		.spans_open = word(&r->spans_open),
	};
	if (seen > out->threads_armed)
		out->threads_unarmed = seen - out->threads_armed;
	list_sdks(out);
}

static void thread_name(uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	sp_threads_name(&self.host, tid, name);
}

static void tell(enum sp_log_level level, const char *message)
{
	sp_messages_tell(&self.messages, level, message);
}

/* The loop waits as soon as all is set up. */
static unsigned wait_for_host(uint32_t timeout_ms)
{
	if (!self.working)
		sp_view_tell(&self.view, SP_EXPORTER_WORKING);
	self.working = true;
	return sp_waiter_wait(&self.waiter, timeout_ms);
}

static uint32_t flush_left_ms(void)
{
	return sp_waiter_left_ms(&self.waiter);
}

static int flush_pending(void)
{
	return sp_waiter_pending(&self.waiter);
}

static void flushed(void)
{
	sp_waiter_flushed(&self.waiter);
}

static const char *reason(int err)
{
	switch (err) {
	case -ENOMEM:
		return "out of memory";
	case -EINVAL:
		return "no usable server address";
	default:
		return "libcurl cannot be used";
	}
}

static int work(const struct sp_config *config)
{
	char proc[32];
	const struct sp_core_ops ops = {
		.config = config,
		.pid = self.host.pid,
		.proc = proc,
		.maps = self.host.maps,
		.version = SP_VERSION,
		.drain = drain,
		.drain_snapshots = drain_snapshots,
		.sight_again = sight_again,
		.label_text = label_text,
		.counter_read = counter_read,
		.counter_add = counter_add,
		.facts = facts,
		.thread_name = thread_name,
		.log = tell,
		.wait = wait_for_host,
		.flush_left_ms = flush_left_ms,
		.flush_pending = flush_pending,
		.flushed = flushed,
	};
	char text[128];
	int err;

	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", self.host.proc);
	err = sp_export_run(&ops);
	if (err == 0)
		return 0;
	(void)snprintf(text, sizeof(text),
		       "cannot start the exporter (%s): not profiling this process", reason(err));
	tell(SP_LOG_WARN, text);
	return err;
}

/* Whatever comes first opens files that the host named, so its rights are looked at before. */
static int begin(const struct sp_config *config)
{
	const struct sp_region_part *names = &self.view.part[SP_REGION_NAMES];
	int err = sp_host_open(&self.host, &self.view);

	if (err != 0)
		return err;
	sp_messages_init(&self.messages, &self.host, self.view.region, config->log_level);
	self.names = sp_names_new((char *)self.view.region + names->at, names->bytes);
	if (self.names == NULL) {
		sp_host_close(&self.host);
		return -ENOMEM;
	}
	sp_waiter_init(&self.waiter, &self.view, &self.host, config, &self.messages);
	(void)sp_waiter_wait(&self.waiter, 0);
	return 0;
}

int sp_program_run(int region_fd, sp_program_configure configure)
{
	const struct sp_config *config = NULL;
	int err = sp_view_open(&self.view, region_fd);

	if (err == 0) {
		config = configure();
		err = begin(config);
	}
	if (err == 0) {
		err = work(config);
		sp_waiter_fini(&self.waiter);
		sp_names_free(self.names);
		sp_host_close(&self.host);
	}
	if (err != 0)
		sp_view_fail(&self.view, -err);
	else
		sp_view_tell(&self.view, SP_EXPORTER_GONE);
	sp_view_close(&self.view);
	return err;
}
