/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each task of two milliseconds: every other one is in a span, and half of its time in a child span.
 * Usage: tasks <number>. Prints the CPU time in spans and the process's.
 */
#include <pthread.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;
static int64_t in_span_ns;

static void *task(void *arg)
{
	int64_t began = host_cpu_ns();
	void *child;
	void *span;

	(void)arg;
	span = otelc_start_span(tracer, "task", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(1);
	child = otelc_start_span(tracer, "part", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(1);
	otelc_end_span(child);
	otelc_end_span(span);
	in_span_ns += host_cpu_ns() - began;
	return NULL;
}

static void *other(void *arg)
{
	host_burn_ms(2);
	return arg;
}

int main(int argc, char **argv)
{
	otelc_init_tracer_provider("tasks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 10); i++) {
		pthread_t thread;

		HOST_CHECK(pthread_create(&thread, NULL, i % 2 == 0 ? task : other, NULL) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
	}
	printf("spans %lld\n", (long long)in_span_ns);
	printf("cpu %lld\n", (long long)host_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
