/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefork server: a master and workers, each of which handles a request of its own name.
 * Usage: prefork before|after|never [WORKERS [MS]]: whether the master has a span open while it forks, only after
 * it, or none at all; four workers by default, and requests of 400 ms. Prints "<name> <process id>" per process with
 * spans; the master's line last.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WORKERS_MAX 1000

static void *tracer;
static int request_ms = 400;

static void request(const char *name)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);

	host_burn_ms(request_ms);
	otelc_end_span(span);
	dprintf(STDOUT_FILENO, "%s %d\n", name, (int)getpid());
}

static void work(int i)
{
	char name[32];

	snprintf(name, sizeof(name), "worker-%d", i);
	request(name);
	/* Servers use both ways to end. */
	if (i % 2 == 0)
		_exit(20 + i % 100);
	exit(20 + i % 100);
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "before";
	void *open_span = NULL;
	const int workers = argc > 2 ? atoi(argv[2]) : 4;
	pid_t worker[WORKERS_MAX];

	HOST_CHECK(workers > 0 && workers <= WORKERS_MAX);
	if (argc > 3)
		request_ms = atoi(argv[3]);
	otelc_init_tracer_provider("prefork", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(when, "before") == 0) {
		open_span = otelc_start_span(tracer, "master", OTELC_SPAN_KIND_INTERNAL, NULL);
		host_burn_ms(400);
	}
	for (int i = 0; i < workers; i++) {
		worker[i] = fork();
		HOST_CHECK(worker[i] >= 0);
		if (worker[i] == 0)
			work(i);
	}
	for (int i = 0; i < workers; i++) {
		int status = 0;

		HOST_CHECK(waitpid(worker[i], &status, 0) == worker[i]);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 20 + i % 100);
	}
	if (strcmp(when, "after") == 0)
		request("master");
	if (open_span != NULL) {
		otelc_end_span(open_span);
		printf("master %d\n", (int)getpid());
	}
	return 12;
}
