/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads make local roots of three names, most of which take about a millisecond, and some much longer, by
 * sleeping or computing. Each root has a child. How long each of them took, the SDK writes.
 * Usage: slow [roots of each thread]
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS 2
#define USUAL_NS 500000
/* Every 61st root of a thread is slow, and lasts 5 ms longer than the slow root before. */
#define SLOW_EACH 61
#define SLOW_MS 20
#define MORE_MS 5

static const char *const names[] = {"checkout", "GET /orders/{id}", "refund"};
static void *tracer;
static int roots = 600;

static void work(int number, int slow)
{
	struct timespec ts = {0, USUAL_NS};
	void *child = otelc_start_span(tracer, "child", OTELC_SPAN_KIND_INTERNAL, NULL);

	if (slow != 0)
		ts.tv_nsec = (SLOW_MS + MORE_MS * slow) * 1000000L;
	if (slow != 0 && number % 2 == 0)
		host_burn_ms(SLOW_MS + MORE_MS * slow);
	else
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	otelc_end_span(child);
}

static void *go(void *arg)
{
	int thread = *(const int *)arg;

	for (int i = 0; i < roots; i++) {
		void *span = otelc_start_span(tracer, names[i % 3], OTELC_SPAN_KIND_SERVER, NULL);

		work(i, i % SLOW_EACH == 17 * (thread + 1) ? i / SLOW_EACH + thread + 1 : 0);
		otelc_end_span(span);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	int number[THREADS];

	roots = argc > 1 ? atoi(argv[1]) : roots;
	otelc_init_tracer_provider("slow", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		HOST_CHECK(pthread_create(&thread[i], NULL, go, &number[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	otelc_destroy_tracer_provider();
	return 0;
}
