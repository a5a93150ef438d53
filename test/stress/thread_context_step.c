/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends spans one instruction at a time. A profiler could stop the thread after any instruction. So after
 * each instruction a valid record has all ids of one span: the span that was active before the operation, or the span
 * that is active after it. The same steps must find the fault of a writer that writes "valid" too early. Then another
 * thread stops the publishing after each instruction: no record is valid then.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/process.h"
#include "sampler/config/config.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/common/span_end.h"
#include "test/stress/race_step.h"

static const struct sp_config config = {.service_name = "step", .thread_context = true};
static unsigned stops;
static unsigned valid;
static unsigned bad;
static unsigned before; /* the former active span, 0 = none */
static unsigned after;

/* Each byte of the id of span n is n, and of its trace n + 100; all have span 1 as their root. */
static bool is_of(const struct sp_context_record *r, unsigned n)
{
	uint8_t bytes[16];

	memset(bytes, (int)n + 100, sizeof(bytes));
	if (memcmp(r->trace_id, bytes, sizeof(r->trace_id)) != 0)
		return false;
	memset(bytes, (int)n, sizeof(bytes));
	return memcmp(r->span_id, bytes, sizeof(r->span_id)) == 0;
}

static void at_stop(int signo)
{
	const struct sp_context_record *r = atomic_load(sp_context_slot());

	(void)signo;
	stops++;
	if (r == NULL || atomic_load(&r->valid) != 1)
		return;
	valid++;
	if (!(before != 0 && is_of(r, before)) && !(after != 0 && is_of(r, after)))
		bad++;
}

static struct sp_span_start start_of(unsigned n)
{
	struct sp_span_start s;

	memset(&s, 0, sizeof(s));
	s.handle = (const void *)(uintptr_t)(0x1000 + n * 64);
	memset(s.span_id, (int)n, sizeof(s.span_id));
	memset(s.trace_id, (int)n + 100, sizeof(s.trace_id));
	s.name = "span";
	s.name_len = 4;
	return s;
}

static void start(unsigned n, unsigned was)
{
	struct sp_span_start s = start_of(n);

	before = was;
	after = n;
	trap_step_on();
	(void)sp_span_started(&s);
	trap_step_off();
}

static void end(unsigned n, unsigned then)
{
	before = n;
	after = then;
	trap_step_on();
	(void)span_ended((const void *)(uintptr_t)(0x1000 + n * 64));
	trap_step_off();
}

static void write_too_early(struct sp_context_record *r, unsigned n)
{
	trap_step_on();
	atomic_store_explicit(&r->valid, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	memset(r->trace_id, (int)n + 100, sizeof(r->trace_id));
	memset(r->span_id, (int)n, sizeof(r->span_id));
	atomic_signal_fence(memory_order_seq_cst);
	trap_step_off();
}

static int fail(const char *what)
{
	fprintf(stderr, "%s: %u stops, %u of a valid record, %u bad\n", what, stops, valid, bad);
	return 1;
}

static void publish(void)
{
	(void)span_ended((const void *)(uintptr_t)0x1040);
	sp_thread_context_init(&config, false);
}

static void start_first(void)
{
	struct sp_span_start s = start_of(1);

	(void)sp_span_started(&s);
}

static bool is_invalid(void)
{
	const struct sp_context_record *r = atomic_load(sp_context_slot());

	return r == NULL || atomic_load(&r->valid) != 1;
}

static const struct race end_of_publishing = {
	.what = "a record that is written when publishing ends",
	.prepare = publish,
	.operation = start_first,
	.meanwhile = sp_thread_unpublish,
	.is_right = is_invalid,
	.fewest = 100,
};

int main(void)
{
	if (!TRAP_STEP_POSSIBLE) {
		puts("no single steps here");
		return TRAP_STEP_SKIPPED;
	}
	sp_process_set();
	if (sp_names_init(10) != 0 || sp_thread_init() != 0 || sp_span_table_init() != 0 ||
	    trap_step_init(at_stop) != 0)
		return fail("set-up");
	sp_thread_context_init(&config, false);
	/* The first span of a process makes system calls, which are not stepped. */
	for (unsigned round = 0; round < 3; round++) {
		start(1, 0);
		start(2, 1);
		start(3, 2);
		end(3, 2);
		end(1, 2);
		end(2, 0);
	}
	printf("%u stops, %u of a valid record\n", stops, valid);
	if (bad != 0 || valid < 100 || stops < 1000)
		return fail("a record that is not of one span");
	start(1, 0);
	before = 1;
	after = 2;
	write_too_early(atomic_load(sp_context_slot()), 2);
	if (bad == 0)
		return fail("a wrong writer was not noticed");
	return race_init() == 0 && race_run(&end_of_publishing) == 0 ? 0 : 1;
}
