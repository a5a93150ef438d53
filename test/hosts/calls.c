/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span that makes as many system calls by syscall(3) as its argument says, also on a second thread. A forked child
 * makes a tenth of them in its own span. Usage: calls <number>. Prints "done".
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;

static void *work(void *number)
{
	void *span = otelc_start_span(tracer, "calls", OTELC_SPAN_KIND_INTERNAL, NULL);

	for (long i = 0; i < (long)number; i++)
		HOST_CHECK(syscall(SYS_getppid) > 0);
	otelc_end_span(span);
	return NULL;
}

int main(int argc, char **argv)
{
	long number = argc > 1 ? atol(argv[1]) : 1;
	pthread_t thread;
	int status = 1;
	pid_t child;

	otelc_init_tracer_provider("calls", "1.0", "test", "");
	tracer = otelc_get_tracer();
	work((void *)number);
	HOST_CHECK(pthread_create(&thread, NULL, work, (void *)number) == 0);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		work((void *)(number / 10));
		exit(0);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child && status == 0);
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();
	printf("done\n");
	return 7;
}
