/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks children, two at a time, that use some milliseconds of CPU time. Prints the CPU time of the program and of its
 * children, in nanoseconds. Usage: brief_children CHILDREN MILLISECONDS HOW, with
 *   exit, _exit  a child ends so
 *   exec         a child executes a program that does not exist, then one that exists
 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"

static void child(int ms, const char *how)
{
	host_burn_ms(ms);
	if (strcmp(how, "exit") == 0)
		exit(0);
	if (strcmp(how, "_exit") == 0)
		_exit(0);
	execl("/does/not/exist", "none", (char *)NULL);
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

static void wait_for_one(void)
{
	int status;

	HOST_CHECK(wait(&status) > 0 && status == 0);
}

static long long used_ns(int who)
{
	struct rusage usage;

	HOST_CHECK(getrusage(who, &usage) == 0);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

int main(int argc, char **argv)
{
	int children = argc == 4 ? atoi(argv[1]) : 0;

	HOST_CHECK(children > 0);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			child(atoi(argv[2]), argv[3]);
		if (i > 0)
			wait_for_one();
	}
	wait_for_one();
	printf("cpu %lld\n", used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN));
	return 0;
}
