/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles requests at a steady pace for a while and prints how many, how many of them took longer
 * than they should, and how much memory the process had at most. Usage: requests <milliseconds> [<at most>]
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define REQUEST_CPU_MS 5
#define PAUSE_MS 10
/* Far beyond what a busy machine adds to 5 ms, far below any timeout of a network. */
#define SLOW_MS 150

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
	int most = argc > 2 ? atoi(argv[2]) : INT32_MAX;
	struct timespec pause = {0, PAUSE_MS * 1000000};
	void *tracer;
	int handled = 0;
	int slow = 0;

	otelc_init_tracer_provider("requests", "1.0", "test", "");
	tracer = otelc_get_tracer();
	while (handled < most && host_wall_ms() < end) {
		int64_t began = host_wall_ms();
		void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);

		host_burn_ms(REQUEST_CPU_MS);
		otelc_end_span(span);
		slow += host_wall_ms() - began > SLOW_MS;
		handled++;
		nanosleep(&pause, NULL);
	}
	printf("handled %d\nslow %d\npeak_kib %ld\n", handled, slow, peak_kib());
	fflush(stdout);
	return 19;
}
