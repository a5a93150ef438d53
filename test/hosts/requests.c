/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles requests at a steady pace for a while. Prints the number and the duration of the requests, how long they
 * waited for something other than a processor, their additional CPU time, and the peak memory of the process. Usage:
 * requests <milliseconds> [<at most> [<file>]]; with a file it runs until the file exists, and at most half a minute
 * longer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define REQUEST_CPU_MS 5
#define PAUSE_MS 10

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

/* The time for which this thread has been runnable but not on a processor; 0 if the kernel does not count it. */
static int64_t queued_ns(int file)
{
	char line[128];
	ssize_t got = pread(file, line, sizeof(line) - 1, 0);
	long long queued;

	line[got > 0 ? got : 0] = '\0';
	return sscanf(line, "%*s %lld", &queued) == 1 ? queued : 0;
}

int main(int argc, char **argv)
{
	int64_t start = host_wall_ms();
	int64_t end = start + (argc > 1 ? atoi(argv[1]) : 1000);
	int most = argc > 2 ? atoi(argv[2]) : INT32_MAX;
	struct timespec pause = {0, PAUSE_MS * 1000000};
	void *tracer;
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	int handled = 0;
	int64_t waited = 0;
	int64_t extra = 0;

	otelc_init_tracer_provider("requests", "1.0", "test", "");
	tracer = otelc_get_tracer();
	while (handled < most && (host_wall_ms() < end || (argc > 3 && access(argv[3], F_OK) != 0 &&
							   host_wall_ms() < end + 30000))) {
		int64_t queued = queued_ns(schedstat);
		int64_t used = host_cpu_ns();
		int64_t began = host_clock_ns(CLOCK_MONOTONIC);
		void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);

		host_burn_ms(REQUEST_CPU_MS);
		otelc_end_span(span);
		used = host_cpu_ns() - used;
		waited += host_clock_ns(CLOCK_MONOTONIC) - began - used -
			  (queued_ns(schedstat) - queued);
		extra += used - REQUEST_CPU_MS * 1000000;
		handled++;
		nanosleep(&pause, NULL);
	}
	printf("handled %d\nworked_ms %lld\nwaited_ms %lld\nextra_ms %lld\npeak_kib %ld\n", handled,
	       (long long)(host_wall_ms() - start), (long long)waited / 1000000,
	       (long long)extra / 1000000, peak_kib());
	fflush(stdout);
	return 19;
}
