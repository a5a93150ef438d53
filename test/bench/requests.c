/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duration of a request, for rounds.c: a span around a fixed piece of work, several in a row. Prints nanoseconds
 * of wall time, the mean of a round, so that a single delayed request shows. Time in which the thread was runnable
 * but had no processor is left out: the machine causes it, while a lock of ours would show.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "test/sdk/opentelemetry_c.h"

#define REQUESTS 10
#define WORK 2000000U

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds on the run queue: the second number of schedstat (Linux: sched-stats.rst). */
static double queued_ns(int fd)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *second;

	if (n <= 0)
		exit(2);
	text[n] = '\0';
	(void)strtod(text, &second);
	return strtod(second, NULL);
}

static void request(void *tracer)
{
	void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);
	volatile unsigned sum = 0;

	for (unsigned i = 0; i < WORK; i++)
		sum += i;
	otelc_end_span(span);
}

int main(void)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	char line[16];
	void *tracer;

	otelc_init_tracer_provider("requests", "1.0", "bench", "");
	tracer = otelc_get_tracer();
	while (fgets(line, sizeof(line), stdin) != NULL) {
		double from = now_ns() - queued_ns(fd);

		for (int i = 0; i < REQUESTS; i++)
			request(tracer);
		printf("%.1f\n", (now_ns() - queued_ns(fd) - from) / REQUESTS);
		fflush(stdout);
	}
	return 0;
}
