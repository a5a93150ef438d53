/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with short requests, for links.sh: it has one span after the other. The CPU time of a span is random,
 * between 0.5 and 1.5 of the mean, so that requests are not in step with samples.
 *
 *   links MICROSECONDS REQUESTS
 */
#include <stdint.h>
#include <stdlib.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void work(int64_t ns)
{
	int64_t end = host_cpu_ns() + ns;
	volatile unsigned sum = 0;

	while (host_cpu_ns() < end)
		for (unsigned i = 0; i < 100; i++)
			sum += i;
}

int main(int argc, char **argv)
{
	int64_t mean_ns = argc > 1 ? atoi(argv[1]) * INT64_C(1000) : 0;
	int requests = argc > 2 ? atoi(argv[2]) : 0;
	unsigned state = 1;
	void *tracer;

	HOST_CHECK(mean_ns > 0 && requests > 0);
	otelc_init_tracer_provider("links", "1.0", "bench", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < requests; i++) {
		void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);

		work(mean_ns / 2 + rand_r(&state) % mean_ns);
		otelc_end_span(span);
	}
	return 0;
}
