/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's side of export/export.h, as far as it is not the background thread's own waits: samples,
 * counters and facts. BG context. Caller: background.c.
 */
#include "preload/core_ops.h"

#include <stddef.h>
#include <unistd.h>

#include "preload/life.h"
#include "preload/sdk.h"
#include "preload/upkeep.h"
#include "sampler/counters.h"
#include "sampler/handler.h"
#include "sampler/label.h"
#include "sampler/log.h"
#include "sampler/sighting.h"
#include "sampler/signals.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

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

static unsigned ops_drain(void (*put)(const struct sp_sample *s, void *arg), void *arg,
			  unsigned max)
{
	struct receiver r = {.put = put, .arg = arg};
	unsigned n = sp_ring_drain(&sp_handler_setup.ring, count_and_put, &r, max);

	sp_count_add(SP_COUNT_SAMPLES_DRAINED, r.samples);
	return n;
}

static unsigned ops_drain_snapshots(void (*put)(const struct sp_snapshot *s, void *arg), void *arg,
				    unsigned max)
{
	unsigned n = sp_snapshot_drain(&sp_handler_setup.snapshots, put, arg, max);

	sp_count_add(SP_COUNT_SAMPLES_DRAINED, n);
	return n;
}

static void ops_log(enum sp_log_level level, const char *message)
{
	sp_log(level, "%s", message);
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

	for (unsigned sdk = 0; sdk < SP_SDK_N && out->sdks < SP_CORE_SDKS_MAX; sdk++) {
		uint64_t spans = sp_count_spans_of(sdk);
		uint32_t facts = sp_sdk_disproved_facts((enum sp_sdk)sdk);

		if ((spans == 0 && facts == 0) || sp_sdk_texts[sdk].name == NULL)
			continue;
		out->sdk[out->sdks].name = sp_sdk_texts[sdk].name;
		out->sdk[out->sdks].method = sp_sdk_texts[sdk].method;
		out->sdk[out->sdks].spans_started = spans;
		list_unknowns(out, facts);
		out->sdks++;
	}
}

static void ops_facts(struct sp_core_facts *out)
{
	uint32_t by[SP_UNARMED_N];

	sp_thread_unarmed(by);
	*out = (struct sp_core_facts){
		.sampling = sp_life_active(),
		.signal_number = sp_signals_number(),
		.threads_armed = sp_thread_armed(),
		.threads_unarmed = sp_upkeep_unarmed(),
		.threads_blocking = by[SP_UNARMED_BLOCKED],
		.threads_limit = by[SP_UNARMED_LIMIT],
		.threads_refused = by[SP_UNARMED_REFUSED],
		.spans_open = sp_span_table_count(),
	};
	list_sdks(out);
}

void sp_core_ops_init(struct sp_core_ops *ops, const struct sp_config *config)
{
	*ops = (struct sp_core_ops){
		.abi = SP_EXPORT_ABI,
		.config = config,
		.pid = (uint32_t)getpid(),
		.version = SP_VERSION,
		.drain = ops_drain,
		.drain_snapshots = ops_drain_snapshots,
		.sight_again = sp_sighting_again,
		.label_text = sp_label_text,
		.counter_read = sp_count_read,
		.counter_add = sp_count_add,
		.facts = ops_facts,
		.log = ops_log,
	};
}
