/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that inherits the orphans of its descendants, like pid 1 of a container or a supervisor, and a process
 * that it starts. Usage:
 *
 *	inheritor SUBREAPER N END	starts "inheritor END" N times, one after the other, waits for each,
 *		and then for every process that wait() returns; SUBREAPER is "subreaper" or "plain". LD_PRELOAD of
 *		the children is the variable PRELOAD, its own stays. Prints how often wait() has returned,
 *		how many signals SIGCHLD have come, and whether all children ended as expected.
 *	inheritor END	records a span, and ends by END: exit, _exit, quick (at once), threads (two threads call
 *		_exit()), last (by pthread_exit of the only thread), exec (of /bin/true), failing (an exec of
 *		a missing program, another span, then exit), daemon (a forked child goes on with spans and
 *		the parent ends), worker (a child records the first span and ends, then its parent one).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static volatile sig_atomic_t signals;

static void count(int signo)
{
	(void)signo;
	signals++;
}

static void span(int ms)
{
	void *s = otelc_start_span(otelc_get_tracer(), "work", OTELC_SPAN_KIND_SERVER, NULL);

	host_burn_ms(ms);
	otelc_end_span(s);
}

static void *end_at_once(void *status)
{
	_exit((int)(intptr_t)status);
}

static int wait_for(pid_t pid)
{
	int status = -1;

	HOST_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int end(const char *how)
{
	pthread_t thread;
	pid_t pid;

	otelc_init_tracer_provider("inheritor", "1.0", "test", "");
	if (strcmp(how, "worker") == 0) {
		pid = fork();
		HOST_CHECK(pid >= 0);
		if (pid == 0) {
			span(20);
			_exit(3);
		}
		HOST_CHECK(wait_for(pid) == 3 && wait(NULL) == -1);
	}
	span(strcmp(how, "quick") == 0 ? 0 : 20);
	if (strcmp(how, "_exit") == 0) {
		_exit(7);
	} else if (strcmp(how, "threads") == 0) {
		HOST_CHECK(pthread_create(&thread, NULL, end_at_once, (void *)7) == 0);
		_exit(7);
	} else if (strcmp(how, "last") == 0) {
		pthread_exit(NULL);
	} else if (strcmp(how, "exec") == 0) {
		execl("/bin/sh", "sh", "-c", "exit 7", NULL);
	} else if (strcmp(how, "failing") == 0) {
		execl("/nonexistent", "x", NULL);
		span(20);
		HOST_CHECK(wait(NULL) == -1);
	} else if (strcmp(how, "daemon") == 0) {
		pid = fork();
		HOST_CHECK(pid >= 0);
		if (pid == 0)
			for (int i = 0; i < 5; i++)
				span(20);
	}
	return 7;
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = count, .sa_flags = SA_RESTART};
	const char *preload = getenv("PRELOAD");
	int wrong = 0;
	int waits = 0;
	int status;

	if (argc == 2)
		return end(argv[1]);
	HOST_CHECK(argc == 4 && preload != NULL);
	if (strcmp(argv[1], "subreaper") == 0)
		HOST_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	HOST_CHECK(sigaction(SIGCHLD, &act, NULL) == 0);
	for (int i = 0; i < atoi(argv[2]); i++) {
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0) {
			(void)setenv("LD_PRELOAD", preload, 1);
			(void)execl("/proc/self/exe", argv[0], argv[3], NULL);
			_exit(127);
		}
		status = wait_for(pid);
		wrong += status != 7 && !(strcmp(argv[3], "last") == 0 && status == 0);
		waits++;
	}
	while (wait(NULL) > 0)
		waits++;
	printf("waits %d signals %d wrong %d\n", waits, (int)signals, wrong);
	return 0;
}
