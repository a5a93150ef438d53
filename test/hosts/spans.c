/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads with spans whose CPU time is known. One thread has "checkout", and inside it "charge", which works in
 * libstdc++. The other one has "search", which works in libc, and works as long again outside of any span. Prints one
 * line "cpu <name> <nanoseconds>" per name, by the thread's own clock. Usage: spans [milliseconds per thread [name
 * instead of "checkout"]]
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

/* One turn of each thread takes 60 ms; slices are no multiples of a sampling period. */
#define CHECKOUT_MS 37
#define CHARGE_MS 23
#define SEARCH_MS 41
#define OUTSIDE_MS 19
#define TURN_MS 60

extern unsigned burn_tree(unsigned rounds);

static void *tracer;
static int turns;
static const char *checkout_name = "checkout";
static int64_t cpu_checkout;
static int64_t cpu_charge;
static int64_t cpu_search;
static int64_t cpu_outside;

static int64_t until(int ms)
{
	return host_cpu_ns() + (int64_t)ms * 1000000;
}

__attribute__((noinline)) void work_checkout(void);
__attribute__((noinline)) void work_charge(void);
__attribute__((noinline)) void work_search(void);
__attribute__((noinline)) void work_outside(void);

void work_checkout(void)
{
	int64_t end = until(CHECKOUT_MS);
	int64_t look = 0;
	volatile unsigned sum = 0;

	while (host_is_before(end, &look))
		for (unsigned i = 0; i < 20000; i++)
			sum += i;
}

void work_charge(void)
{
	int64_t end = until(CHARGE_MS);
	int64_t look = 0;
	volatile unsigned sum = 0;

	while (host_is_before(end, &look))
		sum += burn_tree(300);
}

static int ascending(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void work_search(void)
{
	int64_t end = until(SEARCH_MS);
	int64_t look = 0;
	int value[256];

	while (host_is_before(end, &look)) {
		for (int i = 0; i < 256; i++)
			value[i] = i * 2654435 % 9973;
		qsort(value, 256, sizeof(value[0]), ascending);
	}
}

void work_outside(void)
{
	host_burn_ms(OUTSIDE_MS);
}

static void *start(const char *name)
{
	return otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);
}

static void *run_checkouts(void *arg)
{
	for (int i = 0; i < turns; i++) {
		int64_t began = host_cpu_ns();
		void *checkout = start(checkout_name);

		work_checkout();
		int64_t middle = host_cpu_ns();
		void *charge = start("charge");

		work_charge();
		otelc_end_span(charge);
		cpu_charge += host_cpu_ns() - middle;
		otelc_end_span(checkout);
		cpu_checkout += middle - began;
	}
	return arg;
}

static void *run_searches(void *arg)
{
	for (int i = 0; i < turns; i++) {
		int64_t began = host_cpu_ns();
		void *search = start("search");

		work_search();
		otelc_end_span(search);
		int64_t middle = host_cpu_ns();

		work_outside();
		cpu_search += middle - began;
		cpu_outside += host_cpu_ns() - middle;
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread[2];

	turns = (argc > 1 ? atoi(argv[1]) : 1500) / TURN_MS;
	if (argc > 2)
		checkout_name = argv[2];
	otelc_init_tracer_provider("spans", "1.0", "test", "");
	tracer = otelc_get_tracer();
	/* The first two spans must not start at the same time: a tool that starts with one may miss the other. */
	otelc_end_span(start("first"));
	HOST_CHECK(pthread_create(&thread[0], NULL, run_checkouts, NULL) == 0);
	HOST_CHECK(pthread_create(&thread[1], NULL, run_searches, NULL) == 0);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();
	printf("cpu checkout %lld\ncpu charge %lld\ncpu search %lld\ncpu outside %lld\n",
	       (long long)cpu_checkout, (long long)cpu_charge, (long long)cpu_search,
	       (long long)cpu_outside);
	return 0;
}
