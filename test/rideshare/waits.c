/* SPDX-License-Identifier: Apache-2.0 */
/* See waits.h. */
#include "test/rideshare/waits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/rideshare/input.h"

/* So much of its time has a span computed that hardly computes. */
#define CPU_PERCENT 25.0
#define STACKS_SHOWN 4
#define STACK_NS 20e6

static double ms_of(const json_t *span, const char *key)
{
	return input_nested(span, "attributes", key) / 1e6;
}

static int has(const json_t *span, const char *key)
{
	return json_object_get(json_object_get(span, "attributes"), key) != NULL;
}

static double duration_ms(const json_t *span)
{
	return (input_number(span, "end_ns") - input_number(span, "start_ns")) / 1e6;
}

/* The load generator's spans have no truth. */
static int knows(const json_t *span)
{
	return has(span, "ride.ledger_ns") && has(span, "spanprof.off_cpu_time_ns");
}

const json_t *waits_slowest(json_t *spans)
{
	const json_t *slowest = NULL;
	json_t *span;
	const char *id;

	json_object_foreach(spans, id, span)
	{
		if (!knows(span) ||
		    ms_of(span, "spanprof.cpu_time_ns") * 100 > CPU_PERCENT * duration_ms(span))
			continue;
		if (slowest == NULL || duration_ms(span) > duration_ms(slowest))
			slowest = span;
	}
	return slowest;
}

static void print_row(const char *what, double said, double truth)
{
	printf("  %-28s %9.1f ms %9.1f ms\n", what, said, truth);
}

static void print_stacks(const json_t *report)
{
	const json_t *stacks =
		json_object_get(json_array_get(json_object_get(report, "span_times"), 0), "stacks");
	const json_t *stack;
	size_t i;

	json_array_foreach(stacks, i, stack)
	{
		if (i == STACKS_SHOWN || input_number(stack, "ns") < STACK_NS)
			break;
		printf("  %9.1f ms %-9s %s\n", input_number(stack, "ns") / 1e6,
		       input_text(stack, "state"), input_text(stack, "stack"));
	}
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

void waits_print(const json_t *span, const json_t *report, struct waits_errors *off)
{
	double cpu = ms_of(span, "spanprof.cpu_time_ns");
	double off_cpu = ms_of(span, "spanprof.off_cpu_time_ns");
	double ledger = ms_of(span, "ride.ledger_ns");
	double bank = ms_of(span, "ride.bank_ns");
	double whole = duration_ms(span);

	printf("\nSlow, and hardly on a CPU: %s (%s, %s), %.1f ms\n", input_text(span, "span_id"),
	       input_text(span, "name"), input_text(json_object_get(span, "attributes"), "region"),
	       whole);
	printf("  %-28s %12s %12s\n", "where the time went", "span says", "truth");
	print_row("on a CPU", cpu, ms_of(span, "ride.cpu_ns"));
	print_row("off a CPU", off_cpu, ledger + bank);
	printf("  the server waited %.1f ms for the ledger's lock and %.1f ms for the bank; the "
	       "profile says\n",
	       ledger, bank);
	print_stacks(report);
	*off = (struct waits_errors){
		.duration_percent = percent(fabs(cpu + off_cpu - whole), whole),
		.off_cpu_ms = fabs(off_cpu - ledger - bank),
	};
}
