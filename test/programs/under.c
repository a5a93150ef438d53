/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts its process into a cgroup and goes on as another program, so that the kernel counts the CPU time of a program and of
 * the profiler's exporter apart. Everything that it needs lies beside it: cgroup/, product/, and variables, a file
 * with a NAME=VALUE in each line. As "under COMMAND ARGUMENT..." it starts a program with these variables;
 * EXTRA_PRELOAD names objects that the program has in LD_PRELOAD anyway. As "spanprof-exporter" it stands for the
 * exporter, which a program may start as any user and in any folder.
 *
 * With a file "ends" beside it, another process traces the program and all that it starts. It adds a line to that file, in
 * seconds: the CPU time of the kernel for each process after the process's last instruction, and the CPU time of the profiler's
 * keepers. The exporter reads the clock of a process before the kernel frees its memory. The stand-in for the exporter adds
 * the time that it used until it was in its cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define PROCESSES 8192

static char *beside(char out[PATH_BYTES], const char *own, const char *name)
{
	const char *slash = strrchr(own, '/');

	(void)snprintf(out, PATH_BYTES, "%.*s/%s", (int)(slash - own), own, name);
	return out;
}

static void enter(const char *own, const char *group)
{
	char path[PATH_BYTES];
	int fd = open(beside(path, own, group), O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		(void)fprintf(stderr, "under: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
}

static void take_variables(const char *own)
{
	const char *extra = getenv("EXTRA_PRELOAD");
	char path[PATH_BYTES], line[PATH_BYTES], preload[2 * PATH_BYTES];
	FILE *file = fopen(beside(path, own, "variables"), "re");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = 0;
		(void)putenv(strdup(line));
	}
	if (file != NULL)
		(void)fclose(file);
	if (extra == NULL)
		return;
	(void)snprintf(preload, sizeof(preload), "%s%s%s",
		       getenv("LD_PRELOAD") != NULL ? getenv("LD_PRELOAD") : "",
		       getenv("LD_PRELOAD") != NULL ? ":" : "", extra);
	(void)setenv("LD_PRELOAD", preload, 1);
	(void)unsetenv("EXTRA_PRELOAD");
}

static struct {
	pid_t pid;
	double s; /* of its clock, when the last of its threads had executed its last instruction */
} ending[PROCESSES];

/* CPU time of a process; below 0 for a thread that is not its first, and for one that is gone. */
static double used_s(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return -1;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether a line of a file of it begins with that; the whole line. */
static bool find_line(pid_t pid, const char *name, const char *begin, char line[PATH_BYTES])
{
	char path[64];
	bool found = false;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	while (file != NULL && !found && fgets(line, PATH_BYTES, file) != NULL)
		found = strncmp(line, begin, strlen(begin)) == 0;
	if (file != NULL)
		(void)fclose(file);
	return found;
}

/* Where a process has its place, or a free one. */
static unsigned place_of(pid_t pid)
{
	unsigned at = 0;

	while (at < PROCESSES - 1 && ending[at].pid != pid && ending[at].pid != 0)
		at++;
	return at;
}

/* How it goes on after a stop. */
static void go_on(pid_t pid, int status)
{
	int event = status >> 16, number = WSTOPSIG(status);
	char line[PATH_BYTES], group[PATH_BYTES];
	bool stops =
		number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;

	if (event == PTRACE_EVENT_EXIT && find_line(pid, "status", "Tgid:", line) &&
	    !(find_line(pid, "cgroup", "0::", group) && strstr(group, "/exporter") != NULL)) {
		pid_t process = atoi(line + strlen("Tgid:"));
		unsigned at = place_of(process);

		ending[at].pid = process;
		ending[at].s =
			find_line(pid, "comm", "spanprof-keeper", line) ? 0 : used_s(process);
	}
	if (event == PTRACE_EVENT_STOP && stops)
		(void)ptrace(PTRACE_LISTEN, pid, NULL, NULL);
	else
		(void)ptrace(PTRACE_CONT, pid, NULL, event != 0 ? 0L : (long)number);
}

/* Until the last process has ended. */
static double trace(void)
{
	double sum = 0;
	siginfo_t i;

	while (waitid(P_ALL, 0, &i, WEXITED | WSTOPPED | WNOWAIT | __WALL) == 0) {
		double s = used_s(i.si_pid);
		unsigned at = place_of(i.si_pid);
		int status;

		/* Its clock goes with it. */
		if (waitpid(i.si_pid, &status, __WALL) != i.si_pid)
			continue;
		if (WIFSTOPPED(status)) {
			go_on(i.si_pid, status);
			continue;
		}
		if (ending[at].pid == i.si_pid && s > ending[at].s)
			sum += s - ending[at].s;
		if (ending[at].pid == i.si_pid)
			ending[at].pid = -1;
	}
	return sum;
}

static int open_ends(const char *own)
{
	char path[PATH_BYTES];

	return open(beside(path, own, "ends"), O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* No child of the program, which may wait for its children. */
static void begin_tracer(const char *own)
{
	const long options =
		PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	char byte = 0;
	pid_t program = getpid();
	int ready[2], fd = open_ends(own);
	pid_t child;

	if (fd < 0 || pipe(ready) != 0)
		return;
	child = fork();
	if (child == 0 && fork() == 0) {
		(void)setsid();
		enter(own, "cgroup/script/cgroup.procs");
		if (ptrace(PTRACE_SEIZE, program, NULL, options) != 0)
			(void)fprintf(stderr, "under: cannot trace: %s\n", strerror(errno));
		(void)!write(ready[1], &byte, 1);
		(void)close(ready[1]);
		for (int i = 0; i < 3; i++)
			if (i != fd)
				(void)close(i);
		(void)dprintf(fd, "%.6f\n", trace());
		_exit(0);
	}
	if (child == 0)
		_exit(0);
	(void)waitpid(child, NULL, 0);
	(void)!read(ready[0], &byte, 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	(void)close(fd);
}

/*
 * The exporter of a program that is not dumpable is executed from a copy in memory, which lies nowhere, with its path as
 * its first argument. Others have a name there.
 */
static int find_own(char own[PATH_BYTES], const char *first)
{
	if (first != NULL && first[0] == '/')
		return snprintf(own, PATH_BYTES, "%s", first) < PATH_BYTES;
	return readlink("/proc/self/exe", own, PATH_BYTES - 1) > 0;
}

int main(int argc, char **argv)
{
	char own[PATH_BYTES] = "", path[PATH_BYTES];

	if (!find_own(own, argv[0]))
		return 127;
	if (strstr(own, "spanprof-exporter") != NULL) {
		int fd = open_ends(own);

		enter(own, "cgroup/exporter/cgroup.procs");
		if (fd >= 0)
			(void)dprintf(fd, "%.6f\n", used_s(getpid()));
		argv[0] = beside(path, own, "product/spanprof-exporter");
		(void)execv(argv[0], argv);
		return 127;
	}
	if (argc < 2)
		return 2;
	enter(own, "cgroup/app/cgroup.procs");
	begin_tracer(own);
	take_variables(own);
	(void)execvp(argv[1], argv + 1);
	(void)fprintf(stderr, "under: %s: %s\n", argv[1], strerror(errno));
	return 127;
}
