/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for spanprof-exporter: writes its initial state to the file SEEN, reports that it works, and stays until the
 * host asks for a flush, closes the pipe that the exporter must not have, or is gone.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/region/region.h"

extern char **environ;

static void show_descriptors(FILE *out)
{
	int own = fileno(out);
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *e;

	while (folder != NULL && (e = readdir(folder)) != NULL) {
		char file[256] = "";
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd == own || fd == dirfd(folder))
			continue;
		if (readlinkat(dirfd(folder), e->d_name, file, sizeof(file) - 1) < 0)
			strcpy(file, "?");
		fprintf(out, "fd %d %s\n", fd, strncmp(file, "/memfd:", 7) == 0 ? "region" : file);
	}
	if (folder != NULL)
		closedir(folder);
}

static void show_signals(FILE *out)
{
	sigset_t mask;
	int blocked = 0;
	int handled = 0;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int signo = 1; signo < NSIG; signo++) {
		unsigned long now[4] = {0};

		blocked += sigismember(&mask, signo) == 1;
		if (syscall(SYS_rt_sigaction, signo, NULL, now, 8) == 0)
			handled += now[0] != (unsigned long)SIG_DFL;
	}
	fprintf(out, "blocked %d\nnot default %d\n", blocked, handled);
}

static void show(FILE *out, const struct sp_region *region)
{
	char folder[4096];
	int parent_death = -1;

	show_descriptors(out);
	show_signals(out);
	prctl(PR_GET_PDEATHSIG, &parent_death);
	fprintf(out, "death of parent %d\nname %s\n", parent_death, program_invocation_name);
	fprintf(out, "own session %d\nown pid %d\n", getsid(0) == getpid(),
		atomic_load(&region->exporter_pid) == getpid());
	if (getcwd(folder, sizeof(folder)) != NULL)
		fprintf(out, "folder %s\n", folder);
	for (char **e = environ; *e != NULL; e++)
		fprintf(out, "environment %s\n", strncmp(*e, "SEEN=", 5) == 0 ? "SEEN" : *e);
	fclose(out);
}

int main(void)
{
	struct sp_region *region =
		mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, SP_REGION_FD, 0);
	const char *seen = getenv("SEEN");
	FILE *out = fopen(seen != NULL ? seen : "/dev/null", "we");
	const struct timespec tick = {.tv_nsec = 20000000};

	if (region == MAP_FAILED)
		return 1;
	if (out != NULL)
		show(out, region);
	else if (errno != EMFILE)
		return 1;
	atomic_store(&region->exporter, SP_EXPORTER_WORKING);
	syscall(SYS_futex, &region->exporter, FUTEX_WAKE, 100, NULL, NULL, 0);

	/* A limit for all tests, so that it never stays behind. */
	for (int n = 0;
	     n < 1000 && atomic_load(&region->flush_asked) == 0 && kill((pid_t)region->pid, 0) == 0;
	     n++)
		syscall(SYS_futex, &region->flush_asked, FUTEX_WAIT, 0, &tick, NULL, 0);
	return 0;
}
