/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks without running fork handlers, inside of a span. Usage: raw_fork HOW, with HOW one of
 *   fork    fork(2) of the C library, for comparison
 *   _Fork   the C library's function for signal handlers
 *   clone   the system call, with no flag except SIGCHLD
 *   shared  the same, with CLONE_VM: the child has our memory
 * The child starts a span, computes and waits in it. At its end it waits for the parent, which waits in its own span
 * all the time. Prints the ids of both.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static _Alignas(16) char stack[1 << 18];

static int end_at_once(void *unused)
{
	(void)unused;
	otelc_end_span(otelc_start_span(otelc_get_tracer(), "child", OTELC_SPAN_KIND_SERVER, NULL));
	_exit(7);
}

static long fork_by(const char *how)
{
	if (strcmp(how, "fork") == 0)
		return fork();
	if (strcmp(how, "_Fork") == 0)
		return _Fork();
	if (strcmp(how, "shared") == 0)
		return clone(end_at_once, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			     NULL);
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	void *tracer, *span, *child;
	int status = -1;
	long pid;

	HOST_CHECK(argc == 2);
	otelc_init_tracer_provider("raw_fork", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, "parent", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(100);
	pid = fork_by(argv[1]);
	if (pid == 0) {
		child = otelc_start_span(tracer, "child", OTELC_SPAN_KIND_SERVER, NULL);
		host_burn_ms(300);
		(void)usleep(500000);
		otelc_end_span(child);
		exit(7);
	}
	HOST_CHECK(pid > 0);
	HOST_CHECK(waitpid((pid_t)pid, &status, 0) == pid && WIFEXITED(status));
	HOST_CHECK(WEXITSTATUS(status) == 7);
	(void)usleep(1000000);
	dprintf(STDOUT_FILENO, "parent %d\nchild %ld\n", (int)getpid(), pid);
	otelc_end_span(span);
	return 23;
}
