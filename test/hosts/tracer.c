/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: tracer [busy]. A debugger: works for a moment, runs a child under ptrace() and waits, as strace does, until
 * it has no child of any kind left. With busy it works once more afterwards. Prints the number of children that have
 * ended.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"

int main(int argc, char **argv)
{
	int status = 0;
	int ended = 0;
	pid_t child;

	(void)argv;
	host_burn_ms(100);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		HOST_CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
		raise(SIGSTOP);
		_exit(7);
	}
	HOST_CHECK(waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
	HOST_CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
	while (waitpid(-1, &status, __WALL) > 0) {
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
		ended++;
	}
	HOST_CHECK(errno == ECHILD);
	if (argc > 1)
		host_burn_ms(100);
	printf("%d ended\n", ended);
	return 12;
}
