/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while another thread is inside dl_iterate_phdr(), as programs do whose threads throw or look
 * at their own stacks. The child works in a span that was open at the fork, and leaves by _exit.
 * Usage: fork_list <number of children>
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

enum { OUTSIDE, WANTED, INSIDE, OVER };
static _Atomic int place;

static int linger(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	atomic_store(&place, INSIDE);
	while (atomic_load(&place) == INSIDE)
		sched_yield();
	return 1;
}

static void *reader(void *arg)
{
	struct timespec step = {0, 1000000};

	while (atomic_load(&place) != OVER) {
		if (atomic_load(&place) == WANTED)
			dl_iterate_phdr(linger, NULL);
		nanosleep(&step, NULL);
	}
	return arg;
}

/* Registered before the first span: whoever came later has prepared for the fork already. */
static void let_in(void)
{
	atomic_store(&place, WANTED);
	while (atomic_load(&place) != INSIDE)
		sched_yield();
}

static void let_out(void)
{
	atomic_store(&place, OUTSIDE);
}

static void child(void)
{
	host_burn_ms(30);
	_exit(31);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *span;

	HOST_CHECK(argc > 1);
	HOST_CHECK(pthread_atfork(let_in, let_out, NULL) == 0);
	HOST_CHECK(pthread_create(&thread, NULL, reader, NULL) == 0);
	otelc_init_tracer_provider("fork_list", "1.0", "test", "");
	span = otelc_start_span(otelc_get_tracer(), "parent", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(100);
	for (int i = atoi(argv[1]); i > 0; i--) {
		int status = 0;
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			child();
		HOST_CHECK(waitpid(pid, &status, 0) == pid);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 31);
		printf("%d\n", (int)pid);
	}
	atomic_store(&place, OVER);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
	otelc_end_span(span);
	return 32;
}
