/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends while a profiler may still be starting. Its destructor reports on stderr that the C library has begun to end
 * the process, and then waits a moment. Usage:
 *
 *	leaves FILE	a span, and leaves main() as soon as FILE, its stderr, has content
 *	leaves late	the first span comes after main(), in a function registered with atexit
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define DESTRUCTION_NS 200000000L

__attribute__((destructor)) static void taken_apart(void)
{
	struct timespec wait = {0, DESTRUCTION_NS};

	if (write(STDERR_FILENO, "destructors\n", 12) < 0)
		_exit(99);
	(void)nanosleep(&wait, NULL);
}

static void one_span(void)
{
	otelc_end_span(
		otelc_start_span(otelc_get_tracer(), "leaves", OTELC_SPAN_KIND_INTERNAL, NULL));
}

static int written_to(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && st.st_size != 0;
}

int main(int argc, char **argv)
{
	int64_t end = host_wall_ms() + 3000;

	HOST_CHECK(argc == 2);
	otelc_init_tracer_provider("leaves", "1.0", "test", "");
	if (strcmp(argv[1], "late") == 0) {
		HOST_CHECK(atexit(one_span) == 0);
		return 0;
	}
	one_span();
	while (host_wall_ms() < end && !written_to(argv[1]))
		host_burn_ms(1);
	return 0;
}
