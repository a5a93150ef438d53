/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that use a known amount of CPU time, in spans, and print their own clocks. Usage: clocks threads <number>
 * <milliseconds each>: a span per thread
 *        clocks mix <milliseconds>: one thread, slices of three spans in random order
 * Prints "cpu <span> <ns>": from the return of the span's start to the call of its end, the time for which
 * its label must be there; "all <ns>": the CPU time of all threads from beginning to end, in spans or
 * not; and "tick <ns>", the interval at which the kernel checks CPU timers.
 */
#include <pthread.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS_MAX 64

struct account {
	char name[16];
	int64_t ns;
	int64_t all_ns;
	int ms;
	pthread_t thread;
};

static void *tracer;

static void spend(struct account *a, int us)
{
	void *span = otelc_start_span(tracer, a->name, OTELC_SPAN_KIND_INTERNAL, NULL);
	int64_t began = host_cpu_ns();
	int64_t look = 0;
	volatile unsigned sum = 0;

	while (host_is_before(began + us * INT64_C(1000), &look))
		for (unsigned i = 0; i < 2000; i++)
			sum += i;
	a->ns += host_cpu_ns() - began;
	otelc_end_span(span);
}

static void *run(void *arg)
{
	struct account *a = arg;

	spend(a, a->ms * 1000);
	a->all_ns = host_cpu_ns();
	return NULL;
}

static void show(const struct account *a)
{
	printf("cpu %s %lld\n", a->name, (long long)a->ns);
}

static int64_t threads(int n, int ms)
{
	static struct account account[THREADS_MAX];
	int64_t all = 0;

	HOST_CHECK(n > 0 && n <= THREADS_MAX);
	for (int i = 0; i < n; i++) {
		snprintf(account[i].name, sizeof(account[i].name), "thread%d", i);
		account[i].ms = ms;
		HOST_CHECK(pthread_create(&account[i].thread, NULL, run, &account[i]) == 0);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(account[i].thread, NULL);
		show(&account[i]);
		all += account[i].all_ns;
	}
	return all;
}

/*
 * Shares of 60, 30 and 10 percent. Slices have 3 to 13 ms, in step with no timer. The label changes during the calls
 * that start and end spans; these calls take a thousandth of a slice.
 */
static void mix(int ms)
{
	struct account account[3] = {{.name = "sixty"}, {.name = "thirty"}, {.name = "ten"}};
	int64_t end = host_cpu_ns() + ms * INT64_C(1000000);
	uint64_t chance = 88172645463325252U;

	while (host_cpu_ns() < end) {
		chance ^= chance << 13;
		chance ^= chance >> 7;
		chance ^= chance << 17;
		spend(&account[chance % 10 < 6   ? 0
			       : chance % 10 < 9 ? 1
						 : 2],
		      3000 + (int)((chance >> 32) % 10000));
	}
	for (int i = 0; i < 3; i++)
		show(&account[i]);
}

int main(int argc, char **argv)
{
	struct timespec tick = {0, 0};
	int64_t before = host_cpu_ns();
	int64_t all = 0;

	HOST_CHECK(argc > 2);
	otelc_init_tracer_provider("clocks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(argv[1], "mix") == 0)
		mix(atoi(argv[2]));
	else
		all = threads(atoi(argv[2]), atoi(argv[3]));
	/* the coarse clocks advance with every tick */
	HOST_CHECK(clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0);
	printf("all %lld\n", (long long)(all + host_cpu_ns() - before));
	printf("tick %ld\n", tick.tv_nsec);
	return 24;
}
