/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that gives up rights, step by step as its arguments say. Prints for each of its processes its new state,
 * and the CPU time that the kernel counted.
 *
 *   fork       forks; the child goes on, the parent waits for it and ends
 *   daemon     forks; the child goes on in a session of its own, the parent ends at once
 *   master     forks; the parent goes on, the child waits for it to end, and uses as much CPU time as burn=300
 *   exec       forks; the child goes on, the parent executes this program, which waits for the child
 *   burn=MS    uses CPU time
 *   label      everything from here on has a manual label
 *   chroot=DIR
 *   user=ID    user and group, by setuid(); reuser=ID by setreuid(), resuser=ID by setresuid()
 *   nproc=N    RLIMIT_NPROC, by setrlimit(); pnproc=N by prlimit()
 */
#define _GNU_SOURCE
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/spanprof.h"
#include "test/hosts/host.h"

static void tell(void)
{
	struct rlimit limit;
	struct timespec used;

	HOST_CHECK(getrlimit(RLIMIT_NPROC, &limit) == 0);
	HOST_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
	printf("%d user %d group %d fork %d\n", getpid(), (int)getuid(), (int)getgid(),
	       limit.rlim_cur == 0);
	printf("cpu %lld\n", used.tv_sec * 1000000000LL + used.tv_nsec);
	HOST_CHECK(fflush(stdout) == 0);
}

static int wait_for(pid_t child)
{
	int status;

	HOST_CHECK(waitpid(child, &status, 0) == child);
	/* Nobody else has made a child. */
	HOST_CHECK(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void divide(const char *how, char *program)
{
	int ends[2];
	pid_t child;
	char number[16];

	HOST_CHECK(pipe(ends) == 0);
	child = fork();
	HOST_CHECK(child >= 0);
	if ((child == 0) == (strcmp(how, "master") == 0)) {
		if (strcmp(how, "master") == 0) {
			close(ends[1]);
			host_burn_ms(300);
			HOST_CHECK(read(ends[0], number, 1) == 0);
			tell();
			exit(0);
		}
		tell();
		snprintf(number, sizeof(number), "%d", child);
		if (strcmp(how, "exec") == 0)
			execl("/proc/self/exe", program, "wait", number, NULL);
		exit(strcmp(how, "fork") == 0 ? wait_for(child) : 0);
	}
	if (strcmp(how, "daemon") == 0)
		HOST_CHECK(setsid() >= 0);
}

static void limit_forks(const char *number, int by_prlimit)
{
	struct rlimit limit = {(rlim_t)atoi(number), (rlim_t)atoi(number)};

	if (by_prlimit)
		HOST_CHECK(prlimit(0, RLIMIT_NPROC, &limit, NULL) == 0);
	else
		HOST_CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
}

static void become(const char *number, char how)
{
	uid_t id = (uid_t)atoi(number);

	HOST_CHECK(setgroups(0, NULL) == 0);
	HOST_CHECK(setresgid(id, id, id) == 0);
	if (how == 'u')
		HOST_CHECK(setuid(id) == 0);
	else if (how == 'e')
		HOST_CHECK(setreuid(id, id) == 0);
	else
		HOST_CHECK(setresuid(id, id, id) == 0);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "wait") == 0)
		return wait_for(atoi(argv[2]));
	for (int i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		value = value != NULL ? value + 1 : NULL;
		if (strncmp(argv[i], "burn=", 5) == 0)
			host_burn_ms(atoi(value));
		else if (strcmp(argv[i], "label") == 0)
			(void)spanprof_label_push("00000000000000d1", "daemon");
		else if (strncmp(argv[i], "chroot=", 7) == 0)
			HOST_CHECK(chroot(value) == 0 && chdir("/") == 0);
		else if (strncmp(argv[i], "nproc=", 6) == 0)
			limit_forks(value, 0);
		else if (strncmp(argv[i], "pnproc=", 7) == 0)
			limit_forks(value, 1);
		else if (strncmp(argv[i], "user=", 5) == 0)
			become(value, 'u');
		else if (strncmp(argv[i], "reuser=", 7) == 0)
			become(value, 'e');
		else if (strncmp(argv[i], "resuser=", 8) == 0)
			become(value, 's');
		else
			divide(argv[i], argv[0]);
	}
	tell();
	return 0;
}
