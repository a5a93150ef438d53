/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own part of a span's start and end, without any SDK and without the hooks around it: names,
 * roots, table, stack. Prints nanoseconds of CPU per pair, like the hosts; for loop_main().
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/bench/loop.h"
#include "test/common/own_memory.h"

/* Ids are as good as random, handles come back soon, as from malloc(). */
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
		(void)sp_span_ended((const void *)(uintptr_t)handle);
	}
}

static void open_spans(long n)
{
	while (n-- > 0)
		begin((uint64_t)n + 1, ((uint64_t)n + 1) * 256);
}

int main(int argc, char **argv)
{
	static const struct loop loop = {.pairs = pairs, .open = open_spans};

	if (names_init(1000) != 0 || sp_thread_init() != 0 || sp_span_table_init() != 0)
		return 2;
	return loop_main(argc, argv, &loop);
}
