/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of known phases: each computes in parse_order(), waits in ask_bank(), and computes in render_page(). Every
 * eighth request is slow, and each of its phases takes 50 ms; in others each takes 1 ms. The program writes the times at
 * which the phases of slow requests began and ended, by CLOCK_REALTIME in nanoseconds, a request a line.
 * Usage: phases FILE [requests]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define SLOW_MS 50
#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned sink;

#define COMPUTE_MS(ms)                                                                             \
	do {                                                                                       \
		int64_t end = host_cpu_ns() + (ms)*INT64_C(1000000);                               \
                                                                                                   \
		while (host_cpu_ns() < end)                                                        \
			for (unsigned i = 0; i < 20000; i++)                                       \
				sink += i;                                                         \
	} while (0)

static NOINLINE void parse_order(int ms)
{
	COMPUTE_MS(ms);
	sink += 1;
}

static NOINLINE void ask_bank(int ms)
{
	struct timespec ts = {0, ms * 1000000L};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	sink += 2;
}

static NOINLINE void render_page(int ms)
{
	COMPUTE_MS(ms);
	sink += 3;
}

int main(int argc, char **argv)
{
	int requests = argc > 2 ? atoi(argv[2]) : 160;
	FILE *out = argc > 1 ? fopen(argv[1], "w") : NULL;
	void *tracer;

	HOST_CHECK(out != NULL);
	otelc_init_tracer_provider("phases", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < requests; i++) {
		int is_slow = i % 8 == 5;
		int ms = is_slow ? SLOW_MS : 1;
		void *span = otelc_start_span(tracer, "<img src=x onerror=alert(1)>checkout",
					      OTELC_SPAN_KIND_SERVER, NULL);
		int64_t at[4];

		at[0] = host_clock_ns(CLOCK_REALTIME);
		parse_order(ms);
		at[1] = host_clock_ns(CLOCK_REALTIME);
		ask_bank(ms);
		at[2] = host_clock_ns(CLOCK_REALTIME);
		render_page(ms);
		at[3] = host_clock_ns(CLOCK_REALTIME);
		otelc_end_span(span);
		if (is_slow)
			(void)fprintf(out, "%lld %lld %lld %lld\n", (long long)at[0],
				      (long long)at[1], (long long)at[2], (long long)at[3]);
	}
	otelc_destroy_tracer_provider();
	return fclose(out) == 0 ? 0 : 1;
}
