/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefork server whose master records no span. Usage: family WORKERS. Each worker handles a request and then waits.
 * When all have, the server prints "ready"; when standard input ends, all workers end. Prints "worker <process id>"
 * for each.
 */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WORKERS_MAX 1000

static void *tracer;
static int done[2]; /* one byte from each worker that has handled its request */
static int go[2];   /* the master closes it, and then all end */

static _Noreturn void work(void)
{
	void *span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);
	char byte = 'w';

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	host_burn_ms(50);
	otelc_end_span(span);
	(void)close(go[1]);
	HOST_CHECK(write(done[1], &byte, 1) == 1);
	while (read(go[0], &byte, 1) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	int workers = argc > 1 ? atoi(argv[1]) : 4;
	char byte;

	HOST_CHECK(workers > 0 && workers <= WORKERS_MAX);
	HOST_CHECK(pipe(done) == 0 && pipe(go) == 0);
	otelc_init_tracer_provider("family", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < workers; i++) {
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			work();
		printf("worker %d\n", (int)pid);
	}
	for (int i = 0; i < workers; i++)
		HOST_CHECK(read(done[0], &byte, 1) == 1);
	printf("ready\n");
	HOST_CHECK(fflush(stdout) == 0);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	(void)close(go[1]);
	for (int i = 0; i < workers; i++) {
		int status = 0;

		HOST_CHECK(wait(&status) > 0);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	return 12;
}
