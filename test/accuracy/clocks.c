/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that use a known amount of CPU time, in spans, and say what their own clocks showed.
 * Usage: clocks threads <number> <milliseconds each>: a span per thread
 *        clocks mix <milliseconds>: one thread, slices of three spans in an order by chance
 * Prints "cpu <span> <ns>".
 */
#include <pthread.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS_MAX 64

struct account {
	char name[16];
	int64_t ns;
	int ms;
	pthread_t thread;
};

static void *tracer;

static void spend(struct account *a, int us)
{
	int64_t began = host_cpu_ns();
	void *span = otelc_start_span(tracer, a->name, OTELC_SPAN_KIND_INTERNAL, NULL);
	volatile unsigned sum = 0;

	while (host_cpu_ns() < began + us * INT64_C(1000))
		for (unsigned i = 0; i < 2000; i++)
			sum += i;
	otelc_end_span(span);
	a->ns += host_cpu_ns() - began;
}

static void *run(void *arg)
{
	struct account *a = arg;

	spend(a, a->ms * 1000);
	return NULL;
}

static void show(const struct account *a)
{
	printf("cpu %s %lld\n", a->name, (long long)a->ns);
}

static void threads(int n, int ms)
{
	static struct account account[THREADS_MAX];

	HOST_CHECK(n > 0 && n <= THREADS_MAX);
	for (int i = 0; i < n; i++) {
		snprintf(account[i].name, sizeof(account[i].name), "thread%d", i);
		account[i].ms = ms;
		HOST_CHECK(pthread_create(&account[i].thread, NULL, run, &account[i]) == 0);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(account[i].thread, NULL);
		show(&account[i]);
	}
}

/* Shares of 60, 30 and 10 percent; slices of 0.3 to 1.3 ms, in step with no timer. */
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
		      300 + (int)(chance >> 32) % 1000 * ((chance >> 32) % 1000 < 500));
	}
	for (int i = 0; i < 3; i++)
		show(&account[i]);
}

int main(int argc, char **argv)
{
	HOST_CHECK(argc > 2);
	otelc_init_tracer_provider("clocks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(argv[1], "mix") == 0)
		mix(atoi(argv[2]));
	else
		threads(atoi(argv[2]), atoi(argv[3]));
	return 24;
}
