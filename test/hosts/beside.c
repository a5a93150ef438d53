/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that others of their user may not read. It works until it is killed, and begins a step with each line on
 * stdin. Usage: beside MODE USER
 *
 *	hidden	becomes that user, so the kernel makes it non-dumpable; with user 0 it does so itself
 *	later	runs as that user; makes itself non-dumpable at the first line
 *	workers	forks a worker that becomes that user, and another one at each line
 *	first	runs in place of an exporter: writes into the file SPANPROF_STATUS_FILE whether it is dumpable
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long work;

static void become(uid_t user)
{
	if (user == 0 && prctl(PR_SET_DUMPABLE, 0) == 0)
		return;
	if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 ||
	    setresuid(user, user, user) != 0)
		_exit(2);
}

/* Works long enough for some samples. */
static void work_a_while(void)
{
	for (unsigned i = 0; i < 20000000; i++)
		work += i;
}

static _Noreturn void work_for_ever(void)
{
	(void)printf("%d\n", (int)getpid());
	(void)fflush(stdout);
	for (;;) {
		work_a_while();
		(void)poll(NULL, 0, 20);
	}
}

static int begin(void)
{
	int fd = open(getenv("SPANPROF_STATUS_FILE"), O_WRONLY | O_CREAT | O_APPEND, 0644);

	(void)dprintf(fd, "%d\n", prctl(PR_GET_DUMPABLE));
	(void)alarm(60);
	return pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "first";
	uid_t user = argc > 2 ? (uid_t)atoi(argv[2]) : 0;
	char line[8];

	if (strcmp(mode, "first") == 0)
		return begin();
	if (strcmp(mode, "workers") == 0) {
		do {
			if (fork() == 0) {
				become(user);
				work_for_ever();
			}
		} while (fgets(line, sizeof(line), stdin) != NULL);
		return pause();
	}
	if (strcmp(mode, "later") != 0) {
		become(user);
	} else {
		work_a_while();
		(void)printf("%d\n", (int)getpid());
		(void)fflush(stdout);
		(void)fgets(line, sizeof(line), stdin);
		(void)prctl(PR_SET_DUMPABLE, 0);
	}
	work_for_ever();
}
