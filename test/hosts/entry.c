/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that a container starts: prints its arguments and environment, and can wait for a signal. Usage: entry
 * [wait] [argument]... Exit status 42, with "wait" after SIGTERM.
 */
#include <signal.h>
#include <unistd.h>

#include "test/hosts/host.h"

int main(int argc, char **argv)
{
	const char *preload = getenv("LD_PRELOAD");
	sigset_t term;
	int got = 0;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	HOST_CHECK(sigprocmask(SIG_BLOCK, &term, NULL) == 0);
	printf("pid %d\npreload %s\n", (int)getpid(), preload != NULL ? preload : "-");
	for (int i = 1; i < argc; i++)
		printf("[%s]\n", argv[i]);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "wait") == 0) {
		HOST_CHECK(sigwait(&term, &got) == 0);
		printf("signal %d\n", got);
	}
	return 42;
}
