/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefork server: a master and four workers, each of which handles a request of its own name.
 * Usage: prefork before|after|never: whether the master has a span open while it forks, only after
 * it, or none at all. Prints "<name> <process id>" per process with spans; the master's line last.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WORKERS 4

static void *tracer;

static void request(const char *name)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);

	host_burn_ms(400);
	otelc_end_span(span);
	dprintf(STDOUT_FILENO, "%s %d\n", name, (int)getpid());
}

static void work(int i)
{
	char name[32];

	snprintf(name, sizeof(name), "worker-%d", i);
	request(name);
	/* Servers know both ways out. */
	if (i % 2 == 0)
		_exit(20 + i);
	exit(20 + i);
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "before";
	void *open_span = NULL;
	pid_t worker[WORKERS];

	otelc_init_tracer_provider("prefork", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(when, "before") == 0) {
		open_span = otelc_start_span(tracer, "master", OTELC_SPAN_KIND_INTERNAL, NULL);
		host_burn_ms(400);
	}
	for (int i = 0; i < WORKERS; i++) {
		worker[i] = fork();
		HOST_CHECK(worker[i] >= 0);
		if (worker[i] == 0)
			work(i);
	}
	for (int i = 0; i < WORKERS; i++) {
		int status = 0;

		HOST_CHECK(waitpid(worker[i], &status, 0) == worker[i]);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 20 + i);
	}
	if (strcmp(when, "after") == 0)
		request("master");
	if (open_span != NULL) {
		otelc_end_span(open_span);
		printf("master %d\n", (int)getpid());
	}
	return 12;
}
