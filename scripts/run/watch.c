/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-run --watched FOLDER, for spanprof-doctor: runs the command as a child, and writes into
 * that folder how the command ended, and the profiler's lines of its standard error.
 *
 * The command has the doctor's standard input and output and stays in the doctor's process group,
 * so it can use the terminal, and Ctrl-C reaches it. The doctor's shell starts us in the
 * background, with SIGINT and SIGQUIT ignored. The command ignores the signals that the doctor
 * ignores, and no others.
 *
 * If a signal is sent to the doctor alone, the command must get it; if a signal is sent to the
 * whole group, the command has it already. A server that gets SIGINT a second time often gives up
 * its orderly end, so a second one must not be sent. A shell cannot tell these cases apart, but we
 * are in the group, too: the doctor passes each signal on to us, and we pass it on to the command
 * unless the same signal has come to us from another sender.
 *
 * The command's standard error is a pipe. We copy its lines to ours at once, except the profiler's.
 * A separate process does that, because a daemon that the command has started may write to the pipe
 * after the command has ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scripts/run/run.h"

/* The signals that end or interrupt a command and its doctor. */
static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
#define PASSED_ON (sizeof(passed_on) / sizeof(passed_on[0]))

/* A signal to the group reaches its processes one after the other, within this time. */
#define GROUP_MS 200L
/* The time for the last lines of a command whose children still write. */
#define REST_MS 1000

static const char ours[] = "spanprof[";

/* The state of the present line of standard error. */
struct copy {
	size_t held;    /* unwritten bytes that may be the beginning of a line of the profiler */
	bool is_inside; /* it is known whether the line is the profiler's */
	bool is_ours;
	FILE *messages;
};

static void write_all(int fd, const char *text, size_t len)
{
	while (len != 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EAGAIN)
			(void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		/* If the reader is gone, the command must run on nevertheless. */
		else if (n < 0 && errno != EINTR)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void put(struct copy *c, const char *text, size_t len)
{
	if (c->is_ours && c->messages != NULL)
		(void)fwrite(text, 1, len, c->messages);
	else if (!c->is_ours)
		write_all(STDERR_FILENO, text, len);
}

/*
 * A question has no newline, so a part of a line is written as soon as it differs from the
 * profiler's lines.
 */
static void copy_text(struct copy *c, const char *text, size_t len)
{
	const size_t whole = sizeof(ours) - 1;

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t line = end != NULL ? (size_t)(end - text) + 1 - at : len - at;

		while (!c->is_inside && line != 0 && c->held != whole) {
			if (text[at] != ours[c->held])
				break;
			c->held++;
			at++;
			line--;
		}
		if (!c->is_inside && (line != 0 || c->held == whole)) {
			c->is_inside = true;
			c->is_ours = c->held == whole;
			put(c, ours, c->held);
		}
		put(c, text + at, line);
		at += line;
		if (end != NULL)
			*c = (struct copy){.messages = c->messages};
	}
}

/* The process that copies, until all writers have closed the pipe. */
static _Noreturn void copy_lines(int from, const char *folder)
{
	struct copy c = {.held = 0};
	char path[PATH_MAX];
	char text[4096];
	ssize_t n;

	for (size_t i = 0; i < PASSED_ON; i++)
		(void)signal(passed_on[i], SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(path, sizeof(path), "%s/err", folder);
	c.messages = fopen(path, "ae");
	do {
		n = read(from, text, sizeof(text));
		if (n > 0)
			copy_text(&c, text, (size_t)n);
		if (c.messages != NULL)
			(void)fflush(c.messages);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (!c.is_inside)
		write_all(STDERR_FILENO, ours, c.held);
	_exit(0);
}

/* The signals that a process ignores, a bit for each, as the kernel shows them. */
static uint64_t ignored_by(pid_t pid)
{
	char path[48];
	char line[256];
	uint64_t mask = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "SigIgn:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	if (f != NULL)
		(void)fclose(f);
	return mask;
}

static bool is_in(uint64_t mask, int signo)
{
	return (mask >> (signo - 1) & 1) != 0;
}

static void end_of(const char *folder, int status)
{
	char path[PATH_MAX];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/ended", folder);
	f = fopen(path, "we");
	if (f == NULL)
		return;
	if (WIFEXITED(status))
		(void)fprintf(f, "it ended with status %d\n", WEXITSTATUS(status));
	else
		(void)fprintf(f, "it was ended by signal %d (%s)\n", WTERMSIG(status),
			      strsignal(WTERMSIG(status)));
	(void)fclose(f);
}

static long milliseconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* When a signal came, in milliseconds; 0 = it did not come. */
struct news {
	long group_ms; /* to us, and so to the group */
	long told_ms;  /* to the doctor, before it is known whether it came to the doctor alone */
};

/*
 * Passes on the signals that were for the doctor alone. Returns the time until the next decision;
 * -1 = none.
 */
static long hand_on(struct news news[PASSED_ON], pid_t command)
{
	long now = milliseconds();
	long next = -1;

	for (size_t i = 0; i < PASSED_ON; i++) {
		struct news *n = &news[i];
		long since = now - n->told_ms;

		if (n->told_ms == 0)
			continue;
		if (n->group_ms != 0 && n->told_ms - n->group_ms < GROUP_MS) {
			n->told_ms = n->group_ms = 0;
		} else if (since >= GROUP_MS) {
			(void)kill(command, passed_on[i]);
			n->told_ms = 0;
		} else if (next < 0 || GROUP_MS - since < next) {
			next = GROUP_MS - since;
		}
	}
	return next;
}

static void take(struct news news[PASSED_ON], const siginfo_t *info, pid_t doctor)
{
	for (size_t i = 0; i < PASSED_ON; i++) {
		if (info->si_signo != passed_on[i])
			continue;
		if (info->si_code == SI_USER && info->si_pid == doctor)
			news[i].told_ms = milliseconds();
		else
			news[i].group_ms = milliseconds();
	}
}

/* Returns the command's status in the form of waitpid(). */
static int wait_for(pid_t command, const sigset_t *signals, pid_t doctor)
{
	struct news news[PASSED_ON] = {{0, 0}};
	int status = 0;

	while (waitpid(command, &status, WNOHANG) == 0) {
		long ms = hand_on(news, command);
		const struct timespec left = {ms / 1000, ms % 1000 * 1000000};
		siginfo_t info;
		int got =
			ms >= 0 ? sigtimedwait(signals, &info, &left) : sigwaitinfo(signals, &info);

		if (got > 0)
			take(news, &info, doctor);
	}
	return status;
}

static void become_child(const sigset_t *before, uint64_t ignored, int stderr_pipe)
{
	for (size_t i = 0; i < PASSED_ON; i++)
		(void)signal(passed_on[i], is_in(ignored, passed_on[i]) ? SIG_IGN : SIG_DFL);
	(void)dup2(stderr_pipe, STDERR_FILENO);
	(void)sigprocmask(SIG_SETMASK, before, NULL);
}

/* Waits for the last lines. The command's children may use the pipe for longer. */
static void wait_for_lines(pid_t copier)
{
	const struct timespec step = {.tv_nsec = 5000000};

	for (long since = milliseconds(); milliseconds() - since < REST_MS;) {
		if (waitpid(copier, NULL, WNOHANG) != 0)
			return;
		(void)nanosleep(&step, NULL);
	}
}

int sp_watch(const char *folder, char **command, int (*run)(char **command))
{
	const pid_t doctor = getppid();
	const uint64_t ignored = ignored_by(doctor);
	sigset_t signals, before;
	pid_t copier, child;
	int ends[2];
	int status;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGCHLD);
	for (size_t i = 0; i < PASSED_ON; i++) {
		(void)sigaddset(&signals, passed_on[i]);
		(void)signal(passed_on[i], SIG_DFL);
	}
	(void)sigprocmask(SIG_BLOCK, &signals, &before);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	copier = fork();
	if (copier == 0) {
		(void)close(ends[1]);
		copy_lines(ends[0], folder);
	}
	child = copier > 0 ? fork() : -1;
	if (child == 0) {
		become_child(&before, ignored, ends[1]);
		exit(run(command));
	}
	status = -errno;
	(void)close(ends[0]);
	(void)close(ends[1]);
	if (child < 0)
		return status;
	status = wait_for(child, &signals, doctor);
	wait_for_lines(copier);
	end_of(folder, status);
	return 0;
}
