/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into both of the runs that neutral.sh compares. Records what each process finds when its program starts
 * and has when it ends: descriptors, environment, blocked and ignored signals; one line each, appended to the file
 * that OBSERVED names.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char target[4096];
static char line[1 << 16];
static size_t length;

__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (n > 0 && (size_t)n < sizeof(line) - length)
		length += (size_t)n;
}

/* The file must exist before the first record, but not be among the recorded descriptors. */
static void add_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	char name[64];

	if (dir == NULL)
		return;
	/* The lowest free number is used first, so all numbers come in order. */
	for (int fd = 0; fd < 4096; fd++) {
		ssize_t n;

		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = fd == dirfd(dir) ? -1 : readlink(name, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			add(" %d=%s", fd, target);
		}
	}
	closedir(dir);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Variables of the comparison itself. */
static int is_ours(const char *variable)
{
	return strncmp(variable, "SPANPROF_", 9) == 0 ||
	       strncmp(variable, "LD_PRELOAD=", 11) == 0 || strncmp(variable, "OBSERVED=", 9) == 0;
}

static void add_environment(void)
{
	static char *sorted[4096];
	size_t n = 0;

	for (char **v = environ; v != NULL && *v != NULL && n < 4096; v++)
		sorted[n++] = *v;
	qsort(sorted, n, sizeof(sorted[0]), by_text);
	for (size_t i = 0; i < n; i++) {
		if (!is_ours(sorted[i]))
			add(" %s", sorted[i]);
	}
}

/*
 * The kernel says what a new program inherits; sigprocmask() says what it has later: the profiler's own signal stays
 * out of a mask that blocks nearly all (sampler/README.md).
 */
static void add_signals(int at_start)
{
	static char text[256];
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long kernel = 0;
	unsigned long long ignored = 0;
	sigset_t blocked;

	while (file != NULL && fgets(text, sizeof(text), file) != NULL) {
		if (strncmp(text, "SigBlk:", 7) == 0)
			kernel = strtoull(text + 8, NULL, 16);
		if (strncmp(text, "SigIgn:", 7) == 0)
			/*
			 * Except the two signals that the C library keeps for itself (32 and 33): they are ignored if
			 * posix_spawn() started the program, and have the default action if a program with handlers
			 * for them did.
			 */
			ignored = strtoull(text + 8, NULL, 16) & ~(3ULL << 31);
	}
	if (file != NULL)
		fclose(file);
	add(" ignored %llx", ignored);
	if (at_start) {
		add(" blocked %llx", kernel);
		return;
	}
	add(" blocked");
	sigemptyset(&blocked);
	(void)sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (int signo = 1; signo <= SIGRTMAX; signo++) {
		if (sigismember(&blocked, signo) == 1)
			add(" %d", signo);
	}
}

static void observe(const char *when, int at_start)
{
	static char path[4096];
	const char *named = getenv("OBSERVED");
	int fd;

	/* A program may clear its environment later. */
	if (path[0] == '\0' && named != NULL)
		(void)snprintf(path, sizeof(path), "%s", named);
	length = 0;
	add("%s %s:", program_invocation_short_name, when);
	add_descriptors();
	add(" |");
	add_signals(at_start);
	add(" |");
	add_environment();
	for (size_t i = 0; i < length; i++) {
		if (line[i] == '\n')
			line[i] = ' ';
	}
	add("\n");
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (write(fd, line, length) < 0)
		perror("observer");
	close(fd);
}

__attribute__((constructor)) static void at_start(void)
{
	observe("starts with", 1);
}

__attribute__((destructor)) static void at_end(void)
{
	observe("ends with", 0);
}
