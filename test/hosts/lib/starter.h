/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test/hosts/starter.c: the region of a host that starts the exporter's process, and the checks that the host
 * notices nothing. Included once, by that program.
 */
#ifndef SP_TEST_STARTER_H
#define SP_TEST_STARTER_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/exporter/exporter_process.h"

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			printf("line %d: not so: %s (errno %d)\n", __LINE__, #what, errno);        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct sp_region *region;
static struct sp_exporter_start start;
static char seen[4200] = "SEEN=/dev/null";
static char *environment[] = {seen, "SPANPROF_LOG=debug", NULL};
static volatile sig_atomic_t children_ended;
static bool emulated; /* memory is not shared, or /proc is the emulator's */

static void count(int signo)
{
	(void)signo;
	children_ended++;
}

static void nap(void)
{
	const struct timespec tick = {.tv_nsec = 2000000};

	nanosleep(&tick, NULL);
}

/* The condition must become true within ten seconds. */
#define SOON(what)                                                                                 \
	do {                                                                                       \
		bool so_ = what;                                                                   \
		for (int n_ = 0; n_ < 5000 && !so_; n_++) {                                        \
			nap();                                                                     \
			so_ = what;                                                                \
		}                                                                                  \
		MUST(so_ &&#what);                                                                 \
	} while (0)

static int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}

static void make_region(void)
{
	int fd = (int)syscall(SYS_memfd_create, "spanprof", 1U);

	MUST(fd >= 3 && ftruncate(fd, sizeof(*region)) == 0);
	region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(region != MAP_FAILED);
	region->pid = (uint32_t)getpid();
	start.region = region;
	start.region_fd = fd;
	start.folder_fd = -1;
	start.maps_fd = -1;
	start.family_fd = -1;
	start.environment = environment;
}

/* wait() must find no child, not even a living one. */
static void expect_no_child(bool keeper)
{
	siginfo_t info;

	errno = 0;
	MUST(wait(NULL) == -1 && errno == ECHILD);
	MUST(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	MUST(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD);
	if (!keeper)
		MUST(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

static int start_it(void)
{
	int rc;

	errno = 4711;
	rc = sp_exporter_process_start(&start);
	MUST(errno == 4711);
	return rc;
}

static pid_t exporter(void)
{
	return (pid_t)atomic_load(&region->exporter_pid);
}

static bool works(void)
{
	return atomic_load(&region->exporter) == SP_EXPORTER_WORKING;
}

static void end_it(void)
{
	atomic_store(&region->flush_asked, 1);
	syscall(SYS_futex, &region->flush_asked, FUTEX_WAKE, 1, NULL, NULL, 0);
	SOON(!sp_exporter_process_alive(region));
}

/* The number of processes with that parent, zombies included, by /proc. */
static int children_in_proc(pid_t *first)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char path[300];
		char text[512] = "";
		int parent = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (f == NULL)
			continue;
		if (fgets(text, sizeof(text), f) != NULL && strrchr(text, ')') != NULL)
			(void)sscanf(strrchr(text, ')'), ") %*c %d", &parent);
		fclose(f);
		if (parent == getpid() && n++ == 0 && first != NULL)
			*first = atoi(e->d_name);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

/* Whether the process has any descriptor except a pidfd, which exists since Linux 5.3. */
static bool is_open(pid_t pid)
{
	char path[64];
	char what[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	if (readlink(path, what, sizeof(what) - 1) > 0 && strcmp(what, "anon_inode:[pidfd]") != 0)
		return true;
	*strrchr(path, '/') = '\0';
	return entries(path) > (what[0] != '\0' ? 3 : 2);
}

static int number_in(const char *file)
{
	FILE *f = fopen(file, "re");
	int n = -4711;

	MUST(f != NULL && fscanf(f, "%d", &n) == 1);
	fclose(f);
	return n;
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int lines = 0;
	int c;

	MUST(f != NULL);
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

/* Hooks do this now and then. */
static bool tidied(void)
{
	(void)sp_exporter_process_alive(region);
	return true;
}

/* Started and ended: the only change to the host may be that it has a keeper. */
static void expect_unnoticed(bool keeper)
{
	int descriptors = entries("/proc/self/fd");
	int threads = entries("/proc/self/task");
	sigset_t before;
	sigset_t after;
	int mapped = mappings();
	int score = number_in("/proc/self/oom_score_adj");
	int dumpable = prctl(PR_GET_DUMPABLE);
	struct rusage used;
	pid_t child = 0;
	int ends[2];
	char byte;

	MUST(pipe(ends) == 0);
	expect_no_child(false);
	sigprocmask(SIG_BLOCK, NULL, &before);
	MUST(start_it() == 0);
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int signo = 1; signo < NSIG; signo++)
		MUST(sigismember(&before, signo) == sigismember(&after, signo));
	expect_no_child(keeper);
	SOON(works());
	MUST(exporter() > 0 && sp_exporter_process_alive(region));
	MUST(getsid(exporter()) == exporter() || emulated);
	expect_no_child(keeper);
	/* Zero: the descriptors cannot be listed. */
	MUST(descriptors == 0 || entries("/proc/self/fd") == descriptors + 2);
	MUST(entries("/proc/self/task") == threads);
	MUST(number_in("/proc/self/oom_score_adj") == score && prctl(PR_GET_DUMPABLE) == dumpable);
	if (descriptors != 0)
		MUST(children_in_proc(&child) == keeper);
	if (keeper && child != 0)
		SOON(!is_open(child) && getsid(child) == child);
	/* No other process has the writing end. */
	close(ends[1]);
	MUST(read(ends[0], &byte, 1) == 0);
	close(ends[0]);
	end_it();
	SOON(tidied() && children_in_proc(NULL) == 0);
	expect_no_child(false);
	MUST(children_ended == 0 && mappings() == mapped);
	/* The exporter's usage must not count for the host: it starts with some hundred page faults. */
	MUST(getrusage(RUSAGE_CHILDREN, &used) == 0 && used.ru_minflt < 50);
}

/* The keeper notices that the exporter cannot be started, and ends. */
static void expect_failed(int error)
{
	int mapped = mappings();

	MUST(start_it() == 0);
	SOON(!sp_exporter_process_alive(region));
	MUST(atomic_load(&region->exporter_error) == error);
	MUST(atomic_load(&region->exporter) == SP_EXPORTER_FAILED && exporter() == 0);
	atomic_store(&region->exporter, SP_EXPORTER_NONE);
	MUST(mappings() == mapped);
	expect_no_child(false);
	MUST(children_in_proc(NULL) == 0 && children_ended == 0);
}

static void expect_refused(int error)
{
	int mapped = mappings();

	MUST(start_it() == error);
	MUST(mappings() == mapped);
	MUST(exporter() == 0 && !sp_exporter_process_alive(region));
	expect_no_child(false);
	MUST(children_in_proc(NULL) == 0 && children_ended == 0);
}

#endif
