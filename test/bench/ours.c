/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own part of a span's start and end, without an SDK and without the hooks around it: names, roots, table, stack.
 * Prints nanoseconds of CPU time per pair, like the hosts; for loop_main(). BENCH_PUBLISH=1 also publishes the thread
 * context, which a start and an end change once each. BENCH_READ=1 has no spans, but reads another library's thread
 * context instead, as the handler does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/arch_sig.h"
#include "sampler/config/config.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/bench/loop.h"
#include "test/common/span_end.h"

/* Ids are nearly random; handles are reused soon, like addresses of malloc(). */
static void begin(uint64_t number, uint64_t handle)
{
	struct sp_span_start s;
	uint64_t id = number * UINT64_C(0x9e3779b97f4a7c15);

	memset(&s, 0, sizeof(s));
	id = (id ^ (id >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	memcpy(s.span_id, &id, sizeof(id));
	s.handle = (const void *)(uintptr_t)handle;
	s.trace_id[0] = 1;
	s.has_parent = true;
	s.name = "pair";
	s.name_len = 4;
	(void)sp_span_started(&s);
}

static void pairs(long n)
{
	static __thread uint64_t number;
	uint64_t base = (uint64_t)(uintptr_t)&number << 8;

	while (n-- > 0) {
		uint64_t handle = base + (number % 4) * 256;

		begin(base + ++number, handle);
		(void)span_ended((const void *)(uintptr_t)handle);
	}
}

static __thread struct sp_context_record published;

/* A record in the program's own thread-local storage, which can be read without a question to the kernel. */
static void publish_foreign(void)
{
	static const char root[sizeof(published.root_id)] = {"9a517183f26a089d"};

	memset(published.trace_id, 1, sizeof(published.trace_id));
	memset(published.span_id, 2, sizeof(published.span_id));
	published.attributes =
		sizeof(published) - (uint16_t)offsetof(struct sp_context_record, key);
	published.len = sizeof(published.root_id);
	memcpy(published.root_id, root, sizeof(root));
	atomic_store(&published.valid, 1);
	atomic_store(sp_context_slot(), &published);
}

static void reads(long n)
{
	struct sp_foreign_ids ids;

	publish_foreign();
	while (n-- > 0) {
		if (!sp_foreign_context_read(NULL, &ids) || ids.root_id == 0)
			_Exit(2);
	}
}

static void start_reading(void)
{
	struct sp_foreign_context_setup setup = {0};

	setup.tls_begin = (intptr_t)((uintptr_t)&published - sp_arch_thread_pointer());
	setup.tls_end = setup.tls_begin + (intptr_t)sizeof(published);
	sp_foreign_context_start(&setup);
	sp_foreign_context_set_root_key(0);
}

static void open_spans(long n)
{
	while (n-- > 0)
		begin((uint64_t)n + 1, ((uint64_t)n + 1) * 256);
}

int main(int argc, char **argv)
{
	static const struct sp_config config = {.thread_context = true};
	struct loop loop = {.pairs = pairs, .open = open_spans};

	if (sp_names_init(1000) != 0 || sp_thread_init() != 0 || sp_span_table_init() != 0)
		return 2;
	if (getenv("BENCH_PUBLISH") != NULL)
		sp_thread_context_init(&config, false);
	if (getenv("BENCH_READ") != NULL) {
		loop.pairs = reads;
		start_reading();
	}
	return loop_main(argc, argv, &loop);
}
