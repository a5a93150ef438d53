/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of vfork() change their signal mask and reset all dispositions, as programs do before an exec. Prints the
 * number of the process's remaining timers, how often its own handlers were called for two signals each, and its CPU
 * time. The signals are given as numbers: vfork_mask SIGNAL...
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

/* The number of lines "ID: n" in /proc/self/timers; -1 if the kernel does not have the file. */
static int timers(void)
{
	FILE *file = fopen("/proc/self/timers", "re");
	char line[128];
	int n = 0;

	if (file == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL)
		n += strncmp(line, "ID:", 3) == 0;
	fclose(file);
	return n;
}

static void child_with_mask(const sigset_t *set)
{
	int status = 0;
	pid_t pid = vfork();

	HOST_CHECK(pid >= 0);
	if (pid == 0) {
		(void)sigprocmask(SIG_BLOCK, set, NULL);
		(void)sigprocmask(SIG_UNBLOCK, set, NULL);
		(void)sigprocmask(SIG_BLOCK, set, NULL);
		for (int signo = 1; signo < NSIG; signo++)
			(void)signal(signo, SIG_DFL);
		_exit(0);
	}
	HOST_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static volatile sig_atomic_t calls;

static void count(int signo)
{
	(void)signo;
	calls++;
}

int main(int argc, char **argv)
{
	void *span;
	sigset_t set;

	otelc_init_tracer_provider("vfork_mask", "1.0", "test", "");
	span = otelc_start_span(otelc_get_tracer(), "span", OTELC_SPAN_KIND_SERVER, NULL);
	host_burn_ms(20);
	sigemptyset(&set);
	for (int i = 1; i < argc; i++) {
		sigaddset(&set, atoi(argv[i]));
		HOST_CHECK(signal(atoi(argv[i]), count) != SIG_ERR);
	}
	for (int i = 0; i < 20; i++) {
		child_with_mask(&set);
		/* the parent's mask is unchanged, so this changes nothing */
		HOST_CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
	}
	printf("timers %d\n", timers());
	for (int i = 1; i < argc; i++) {
		kill(getpid(), atoi(argv[i]));
		kill(getpid(), atoi(argv[i]));
	}
	printf("calls %d\n", (int)calls);
	host_burn_ms(300);
	otelc_end_span(span);
	printf("cpu %lld\n", (long long)host_cpu_ns());
	return 8;
}
