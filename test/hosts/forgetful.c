/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a span that it never ends. Works, waits until the file named by its argument shows that the span's age was
 * noticed, and works again. Prints the milliseconds of CPU time in the first AGE milliseconds, and after the notice.
 * Usage: forgetful FILE AGE
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WAIT_MS 60000
#define WORK_MS 200
#define PIECE_MS 10

static int tells(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[2048];
	int found = 0;

	HOST_CHECK(file != NULL);
	while (!found && fgets(line, sizeof(line), file) != NULL)
		found = strstr(line, word) != NULL;
	fclose(file);
	return found;
}

/* Works in pieces; returns the milliseconds of CPU time that it used before that time. */
static int work_until(int64_t wall_ms)
{
	int before = 0;

	for (int done = PIECE_MS; done <= WORK_MS; done += PIECE_MS) {
		host_burn_ms(PIECE_MS);
		if (host_wall_ms() < wall_ms)
			before = done;
	}
	return before;
}

static void *be_born(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	const struct timespec pause = {0, 50000000};
	int64_t begin = host_wall_ms();
	int64_t end = begin + WAIT_MS;
	int young;

	HOST_CHECK(argc == 3);
	otelc_init_tracer_provider("forgetful", "1.0", "test", "");
	otelc_start_span(otelc_get_tracer(), "forgotten", OTELC_SPAN_KIND_INTERNAL, NULL);
	young = work_until(begin + atoi(argv[2]));
	while (!tells(argv[1], "span was open for longer than SPANPROF_MAX_SPAN_AGE")) {
		pthread_t thread;

		/* each new thread makes the profiler check old spans */
		HOST_CHECK(host_wall_ms() < end);
		HOST_CHECK(pthread_create(&thread, NULL, be_born, NULL) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
		nanosleep(&pause, NULL);
	}
	host_burn_ms(WORK_MS);
	printf("%d %d\n", young, WORK_MS);
	return 21;
}
