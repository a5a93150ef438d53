/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles requests at a steady pace for a while and prints how many, how many of them took longer
 * than they should, how long half and 99 of 100 of them took at most, and how much memory the process
 * had at most. Usage: requests <milliseconds>
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define REQUEST_CPU_MS 5
#define PAUSE_MS 10
/* Far beyond what a busy machine adds to 5 ms, far below any timeout of a network. */
#define SLOW_MS 150
#define REQUESTS_MAX 65536

static uint32_t took_us[REQUESTS_MAX];

static int by_length(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t at_most_us(int requests, int percent)
{
	if (requests > REQUESTS_MAX)
		requests = REQUESTS_MAX;
	qsort(took_us, (size_t)requests, sizeof(took_us[0]), by_length);
	return took_us[(requests - 1) * percent / 100];
}

static long peak_kib(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");
	long kib = -1;

	HOST_CHECK(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

int main(int argc, char **argv)
{
	int64_t end = host_wall_ms() + (argc > 1 ? atoi(argv[1]) : 1000);
	struct timespec pause = {0, PAUSE_MS * 1000000};
	void *tracer;
	int handled = 0;
	int slow = 0;

	otelc_init_tracer_provider("requests", "1.0", "test", "");
	tracer = otelc_get_tracer();
	while (host_wall_ms() < end) {
		int64_t began = host_clock_ns(CLOCK_MONOTONIC);
		int64_t took;
		void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);

		host_burn_ms(REQUEST_CPU_MS);
		otelc_end_span(span);
		took = host_clock_ns(CLOCK_MONOTONIC) - began;
		slow += took > (int64_t)SLOW_MS * 1000000;
		took_us[handled++ % REQUESTS_MAX] = (uint32_t)(took / 1000);
		nanosleep(&pause, NULL);
	}
	printf("handled %d\nslow %d\npeak_kib %ld\n", handled, slow, peak_kib());
	printf("half_us %u\nmost_us %u\n", at_most_us(handled, 50), at_most_us(handled, 99));
	fflush(stdout);
	return 19;
}
