/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends spans in a tight loop and prints the thread CPU time per start+end pair in
 * nanoseconds, the median over rounds. Knows nothing of the profiler: run.sh runs it with and
 * without.
 *
 *	pairs [rounds [pairs per round]]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/sdk/opentelemetry_c.h"

static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double round_of(void *tracer, long pairs)
{
	double begin = thread_ns();

	for (long i = 0; i < pairs; i++)
		otelc_end_span(otelc_start_span(tracer, "pair", OTELC_SPAN_KIND_INTERNAL, ""));
	return (thread_ns() - begin) / (double)pairs;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 21;
	long pairs = argc > 2 ? atol(argv[2]) : 2000;
	double *ns = calloc((size_t)rounds, sizeof(*ns));
	void *tracer;

	if (ns == NULL || rounds < 1 || pairs < 1)
		return 2;
	otelc_init_tracer_provider("bench", "1", "", "1");
	tracer = otelc_get_tracer();
	(void)round_of(tracer, pairs);
	for (int i = 0; i < rounds; i++)
		ns[i] = round_of(tracer, pairs);
	qsort(ns, (size_t)rounds, sizeof(*ns), by_value);
	printf("%.0f\n", ns[rounds / 2]);
	free(ns);
	return 0;
}
