/* SPDX-License-Identifier: Apache-2.0 */
/* Starts other programs in every way, between pieces of work inside a span, and prints how each ended. */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

extern char **environ;

static char *const say_three[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
				  (char *)(uintptr_t) "echo three; exit 3", NULL};

static void show(const char *what, pid_t child)
{
	int status = 0;
	pid_t got = waitpid(child, &status, 0);

	printf("%s: %s, exit %d, signal %d\n", what, got == child ? "ended" : "lost",
	       WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fflush(stdout);
	host_burn_ms(30);
}

static void by_vfork(void)
{
	pid_t child = vfork();

	if (child == 0) {
		execv("/bin/sh", say_three);
		_exit(99);
	}
	show("vfork and exec", child);
	child = vfork();
	if (child == 0)
		_exit(4);
	show("vfork and _exit", child);
	child = vfork();
	if (child == 0) {
		execv("/nonexistent", say_three);
		_exit(5);
	}
	show("vfork and failed exec", child);
}

static void by_fork(void)
{
	pid_t child = fork();

	if (child == 0) {
		execv("/bin/sh", say_three);
		_exit(99);
	}
	show("fork and exec", child);
	child = fork();
	if (child == 0) {
		/* No handler or timer of a profiler may survive the exec. */
		execl("/bin/sh", "sh", "-c",
		      "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 6", (char *)NULL);
		_exit(99);
	}
	show("fork and a busy program", child);
}

static void by_library(void)
{
	char line[64] = "";
	pid_t child;
	FILE *pipe;

	HOST_CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, say_three, environ) == 0);
	show("posix_spawn", child);
	printf("posix_spawn of nothing: %d\n",
	       posix_spawn(&child, "/nonexistent", NULL, NULL, say_three, environ));
	fflush(stdout);
	printf("system: %d\n", WEXITSTATUS(system("echo from system; exit 7")));
	fflush(stdout);
	pipe = popen("echo from a pipe; exit 8", "r");
	HOST_CHECK(pipe != NULL && fgets(line, sizeof(line), pipe) != NULL);
	printf("popen: %s", line);
	printf("pclose: %d\n", WEXITSTATUS(pclose(pipe)));
	fflush(stdout);
}

int main(void)
{
	void *span;

	otelc_init_tracer_provider("spawn", "1.0", "test", "");
	span = otelc_start_span(otelc_get_tracer(), "spawn", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(100);
	by_vfork();
	by_fork();
	by_library();
	host_burn_ms(100);
	otelc_end_span(span);
	return 18;
}
