/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks inside of a span. Usage: forks CHILDREN MS HOW, with HOW one of
 *   end      a child uses MS ms of CPU time and calls _exit()
 *   raw      the same, but it ends by the system call, which no hook sees
 *   limited  as end, with limits: no file of more than 1 MiB, and no more descriptors
 *   exec     it executes /bin/true at once
 * Prints "ready" when a span was recorded. Forks the children, one after the other, when a byte comes
 * on standard input. Prints "child <process id> <ns>" for each child that
 * works, with its whole CPU time, and "took <ms>" for all children.
 */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void work(int ms, const char *how)
{
	const struct rlimit small_file = {1 << 20, 1 << 20};
	const struct rlimit few = {3, 3};

	if (strcmp(how, "exec") == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	if (strcmp(how, "limited") == 0)
		HOST_CHECK(setrlimit(RLIMIT_FSIZE, &small_file) == 0 &&
			   setrlimit(RLIMIT_NOFILE, &few) == 0);
	host_burn_ms(ms);
	if (ms > 0)
		dprintf(STDOUT_FILENO, "child %d %lld\n", (int)getpid(), (long long)host_cpu_ns());
	if (strcmp(how, "raw") == 0)
		syscall(SYS_exit_group, 0);
	_exit(0);
}

int main(int argc, char **argv)
{
	void *tracer, *span;
	int64_t start;
	char line[16];

	HOST_CHECK(argc == 4);
	otelc_init_tracer_provider("forks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, "before", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(20);
	otelc_end_span(span);
	dprintf(STDOUT_FILENO, "ready\n");
	HOST_CHECK(read(STDIN_FILENO, line, sizeof(line)) > 0);
	span = otelc_start_span(tracer, "forking", OTELC_SPAN_KIND_SERVER, NULL);
	start = host_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < atoi(argv[1]); i++) {
		int status = -1;
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			work(atoi(argv[2]), argv[3]);
		HOST_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	dprintf(STDOUT_FILENO, "took %lld\n",
		(long long)(host_clock_ns(CLOCK_MONOTONIC) - start) / 1000000);
	otelc_end_span(span);
	return 12;
}
