/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works for a while and then executes another program. Usage: replaced HOW, where HOW is a function of the exec
 * family, "vfork" for an exec in a child, or "missing" for a program that does not exist, after which it goes on. The
 * new program prints its arguments and the variable REPLACED.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"

#define SH "/bin/sh"
#define SCRIPT "echo \"$0 $1 $2 $3 $4 $5 $6 $7 $REPLACED\""

extern char **environ;

static void become(const char *how, char *const argv[], char *const envp[])
{
	if (strcmp(how, "execve") == 0)
		execve(SH, argv, envp);
	else if (strcmp(how, "execv") == 0)
		execv(SH, argv);
	else if (strcmp(how, "execvp") == 0)
		execvp("sh", argv);
	else if (strcmp(how, "execvpe") == 0)
		execvpe("sh", argv, envp);
	else if (strcmp(how, "execl") == 0)
		execl(SH, "sh", "-c", SCRIPT, "0", "1", "2", "3", "4", "5", "6", "7", NULL);
	else if (strcmp(how, "execlp") == 0)
		execlp("sh", "sh", "-c", SCRIPT, "0", "1", "2", "3", "4", "5", "6", "7", NULL);
	else if (strcmp(how, "execle") == 0)
		execle(SH, "sh", "-c", SCRIPT, "0", "1", "2", "3", "4", "5", "6", "7", NULL, envp);
	else if (strcmp(how, "fexecve") == 0)
		fexecve(open(SH, O_RDONLY | O_CLOEXEC), argv, envp);
	else if (strcmp(how, "execveat") == 0)
		execveat(AT_FDCWD, SH, argv, envp, 0);
}

__attribute__((noinline)) static void work_on(void)
{
	host_burn_ms(150);
	__asm__ volatile(""); /* no tail call */
}

int main(int argc, char **argv)
{
	char *const to[] = {"sh", "-c", SCRIPT, "0", "1", "2", "3", "4", "5", "6", "7", NULL};
	char *const with[] = {"REPLACED=by a variable", "PATH=/usr/bin:/bin", NULL};
	const char *how = argc > 1 ? argv[1] : "";

	host_burn_ms(150);
	if (strcmp(how, "missing") == 0) {
		int rc = execl("/nonexistent/program", "program", NULL);

		printf("%d %d\n", rc, errno == ENOENT);
		work_on();
		return 0;
	}
	if (strcmp(how, "vfork") == 0) {
		pid_t child = vfork();

		if (child == 0) {
			execv(SH, to);
			_exit(99);
		}
		HOST_CHECK(waitpid(child, NULL, 0) == child);
		return 0;
	}
	become(how, to, with);
	return 98;
}
