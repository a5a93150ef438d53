/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefork server that renews its workers. The master records no span.
 * Usage: renewed COUNT AT_ONCE MS HOW
 * The master forks COUNT workers, of which AT_ONCE live at a time. Each worker handles one request
 * of MS ms of CPU time and ends. HOW is one of
 *   same   the workers have the master's user
 *   other  each worker becomes another user before its request
 *   stay   as same; at the end the master prints "ready" and waits until its standard input ends
 *
 * The master is a subreaper: as pid 1 of a container, it becomes the parent of processes below it
 * that lose theirs. It waits for any child and accepts only its workers. For each worker it prints
 * "<us> <us> <process id>": the time from the fork, and from the end of the request, until wait()
 * returned. Exit status 12.
 */
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define AT_ONCE_MAX 64
#define OTHER 65534

static void *tracer;
static volatile sig_atomic_t children_ended;

/* Shared with the workers. */
static struct worker {
	pid_t pid;
	int status; /* that it ends with */
	int64_t forked_ns;
	int64_t done_ns; /* written by the worker */
} * worker;

static void on_child(int signo)
{
	(void)signo;
	children_ended++;
}

static _Noreturn void work(struct worker *w, int ms, const char *how)
{
	int status = w->status;
	void *span;

	if (strcmp(how, "other") == 0)
		HOST_CHECK(setgroups(0, NULL) == 0 && setgid(OTHER) == 0 && setuid(OTHER) == 0);
	span = otelc_start_span(tracer, "request", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(ms);
	otelc_end_span(span);
	w->done_ns = host_clock_ns(CLOCK_MONOTONIC);
	/* Servers use both functions. */
	if (status % 2 == 0)
		_exit(status);
	exit(status);
}

static void begin(struct worker *w, int number, int ms, const char *how)
{
	pid_t pid;

	w->status = 20 + number % 10;
	w->forked_ns = host_clock_ns(CLOCK_MONOTONIC);
	pid = fork();
	HOST_CHECK(pid >= 0);
	if (pid == 0)
		work(w, ms, how);
	w->pid = pid;
}

/* Waits for any child, which has to be a worker. */
static struct worker *next_that_ends(int at_once)
{
	int status = 0;
	pid_t pid = wait(&status);
	int64_t now_ns = host_clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; pid > 0 && i < at_once; i++) {
		if (worker[i].pid != pid)
			continue;
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == worker[i].status);
		printf("%lld %lld %d\n", (long long)(now_ns - worker[i].forked_ns) / 1000,
		       (long long)(now_ns - worker[i].done_ns) / 1000, (int)pid);
		return &worker[i];
	}
	fprintf(stderr, "wait() returned %d\n", (int)pid);
	exit(98);
}

int main(int argc, char **argv)
{
	const struct sigaction on = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	int count = argc == 5 ? atoi(argv[1]) : 0;
	int at_once = argc == 5 ? atoi(argv[2]) : 0;
	int begun = 0;
	char byte;

	HOST_CHECK(at_once > 0 && at_once <= AT_ONCE_MAX && count >= at_once);
	HOST_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && sigaction(SIGCHLD, &on, NULL) == 0);
	HOST_CHECK(setvbuf(stdout, NULL, _IOLBF, 0) == 0);
	worker = mmap(NULL, AT_ONCE_MAX * sizeof(*worker), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	HOST_CHECK(worker != MAP_FAILED);
	otelc_init_tracer_provider("renewed", "1.0", "test", "");
	tracer = otelc_get_tracer();
	while (begun < at_once) {
		begin(&worker[begun], begun, atoi(argv[3]), argv[4]);
		begun++;
	}
	for (int ended = 0; ended < count; ended++) {
		struct worker *w = next_that_ends(at_once);

		w->pid = 0;
		if (begun < count)
			begin(w, begun++, atoi(argv[3]), argv[4]);
	}
	HOST_CHECK(wait(NULL) == -1 && errno == ECHILD);
	/* One signal may stand for several workers that ended. */
	HOST_CHECK(at_once == 1 ? children_ended == count
				: children_ended > 0 && children_ended <= count);
	if (strcmp(argv[4], "stay") == 0) {
		printf("ready\n");
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
	}
	return 12;
}
