/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a span and never ends it; waits until that was noticed, which the file named by its argument
 * tells, and only then works. Usage: forgetful FILE
 */
#include <stdio.h>
#include <time.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WAIT_MS 60000
#define WORK_MS 200

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

int main(int argc, char **argv)
{
	const struct timespec pause = {0, 50000000};
	int64_t end = host_wall_ms() + WAIT_MS;

	HOST_CHECK(argc == 2);
	otelc_init_tracer_provider("forgetful", "1.0", "test", "");
	otelc_start_span(otelc_get_tracer(), "forgotten", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(WORK_MS);
	while (!tells(argv[1], "spans_aged")) {
		HOST_CHECK(host_wall_ms() < end);
		nanosleep(&pause, NULL);
	}
	host_burn_ms(WORK_MS);
	return 21;
}
