/* SPDX-License-Identifier: Apache-2.0 */
/* The slow orders of waits.h. */
#include "test/rideshare/waits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/rideshare/input.h"

/* A span with less CPU time than this share of its duration hardly computes. */
#define CPU_PERCENT 25.0
/* Shorter waits get no row. */
#define PAIR_NS 100e6

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

/* Whether the server measured it: the load generator's spans have no truth. */
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

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

void waits_print(const json_t *span, struct waits_errors *off)
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
	printf("  the server waited %.1f ms for the ledger's lock and %.1f ms for the bank\n",
	       ledger, bank);
	*off = (struct waits_errors){
		.duration_percent = percent(fabs(cpu + off_cpu - whole), whole),
		.off_cpu_ms = fabs(off_cpu - ledger - bank),
	};
}

/*
 * The time of all orders that waited behind another one: "OrderVehicle /car: OrderVehicle /scooter" -> nanoseconds.
 */
static json_t *truth_of(json_t *spans)
{
	json_t *truth = json_object();
	json_t *span;
	const char *id;

	json_object_foreach(spans, id, span)
	{
		const char *holder =
			input_text(json_object_get(span, "attributes"), "ride.ledger_holder");
		char pair[256];

		if (holder[0] == '\0')
			continue;
		(void)snprintf(pair, sizeof(pair), "%.100s: %.100s", input_text(span, "name"),
			       holder);
		json_object_set_new(truth, pair,
				    json_real(input_number(truth, pair) +
					      input_nested(span, "attributes", "ride.ledger_ns")));
	}
	return truth;
}

/*
 * The profile's time and samples of that pair. Returns its largest row, which may name the function that held the
 * lock; or NULL.
 */
static const json_t *add_rows(const json_t *report, const char *pair, double *ns, double *samples)
{
	const json_t *largest = NULL;
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(report, "waited_for"), i, row)
	{
		char text[256];
		size_t len = strlen(pair);

		(void)snprintf(text, sizeof(text), "%.100s: %.100s", input_text(row, "span_name"),
			       input_text(row, "held_by"));
		if (strncmp(text, pair, len) != 0 || (text[len] != '\0' && text[len] != ' '))
			continue;
		*ns += input_number(row, "ns");
		*samples += input_number(row, "samples");
		largest = largest != NULL ? largest : row;
	}
	return largest;
}

void waits_print_holders(json_t *spans, const json_t *report, struct waits_holders *out)
{
	json_t *truth = truth_of(spans);
	const json_t *row;
	const json_t *value;
	const char *pair;
	size_t i;

	*out = (struct waits_holders){0, 0, 0, 0};
	printf("\nWho waited for the ledger, and whose order had it\n  %-64s %12s %12s\n", "",
	       "profile says", "truth");
	json_object_foreach(truth, pair, value)
	{
		double ns = 0;
		const json_t *largest = add_rows(report, pair, &ns, &out->samples);
		char text[256];

		(void)snprintf(text, sizeof(text), "%.*s %.100s", (int)strcspn(pair, ":") + 1, pair,
			       largest != NULL ? input_text(largest, "held_by")
					       : strchr(pair, ':') + 2);
		out->truth_ns += json_number_value(value);
		out->profile_ns += ns;
		if (json_number_value(value) >= PAIR_NS || ns >= PAIR_NS)
			printf("  %-64s %9.1f ms %9.1f ms\n", text, ns / 1e6,
			       json_number_value(value) / 1e6);
	}
	/* The rest are pairs that never existed. */
	out->wrong_ns = -out->profile_ns;
	json_array_foreach(json_object_get(report, "waited_for"), i, row)
	{
		out->wrong_ns += input_number(row, "ns");
	}
	json_decref(truth);
}
