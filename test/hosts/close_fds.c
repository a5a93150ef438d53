/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a daemon: after its first span it closes every possible descriptor and opens its own files as 0, 1 and
 * 2. It writes to them while spans go on, and checks that these numbers were free. Usage: close_fds <folder for the
 * three files>
 */
#include <fcntl.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define ROUNDS 30

static void *tracer;

static void span(int cpu_ms)
{
	void *s = otelc_start_span(tracer, "daemon", OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(cpu_ms);
	otelc_end_span(s);
}

static void open_own(const char *folder, int expected)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/own%d", folder, expected);
	/* POSIX: the lowest free number, so this fails if somebody else holds it. */
	HOST_CHECK(open(path, O_RDWR | O_CREAT | O_TRUNC, 0644) == expected);
}

static void write_own(int fd, int round)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "file %d line %d\n", fd, round);

	if (write(fd, line, (size_t)len) != len)
		_exit(98);
}

int main(int argc, char **argv)
{
	HOST_CHECK(argc > 1);
	otelc_init_tracer_provider("close_fds", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span(150);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	for (int fd = 0; fd < 3; fd++)
		open_own(argv[1], fd);
	for (int round = 0; round < ROUNDS; round++) {
		for (int fd = 0; fd < 3; fd++)
			write_own(fd, round);
		span(40);
	}
	return 11;
}
