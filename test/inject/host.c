/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host makes the object use every kind of system call in a tenth of a second. It starts a span; it starts
 * threads and forks a child, which start spans too; it opens a library, and executes a program. Its output does not
 * depend on time, and shows what a host can see of us: children, threads, descriptors, signals that stay blocked.
 * Usage: host [stage]
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;

static void work(const char *name, int ms)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);

	host_burn_ms(ms);
	otelc_end_span(span);
}

static void *thread(void *arg)
{
	work(arg, 4);
	return arg;
}

/*
 * The host itself makes system calls through syscall(), which has no frame. Beside the frame of another function of
 * the C library, the stack may have a leftover that looks like a call of the object, and then the host's call would
 * fail.
 */
static int open_raw(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	HOST_CHECK(fd >= 0);
	return fd;
}

/* Including "." and "..". */
static int entries(const char *path)
{
	_Alignas(struct dirent64) char buf[4096];
	int fd = open_raw(path);
	int n = 0;
	long bytes;

	while ((bytes = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0)
		for (long at = 0; at < bytes; n++)
			at += ((struct dirent64 *)(void *)(buf + at))->d_reclen;
	HOST_CHECK(bytes == 0);
	(void)syscall(SYS_close, fd);
	return n;
}

/* By the kernel's answer. */
static int blocked(void)
{
	char text[4096];
	int fd = open_raw("/proc/self/status");
	long bytes = syscall(SYS_read, fd, text, sizeof(text) - 1);
	const char *line;

	(void)syscall(SYS_close, fd);
	HOST_CHECK(bytes > 0);
	text[bytes] = '\0';
	line = strstr(text, "\nSigBlk:");
	HOST_CHECK(line != NULL);
	return __builtin_popcountll(strtoull(line + strlen("\nSigBlk:"), NULL, 16));
}

/* A joined thread may remain visible for a moment. */
static int threads(void)
{
	int64_t end = host_wall_ms() + 2000;
	struct timespec step = {0, 1000000};
	int n;

	while ((n = entries("/proc/self/task") - 2) > 1 && host_wall_ms() < end)
		nanosleep(&step, NULL);
	return n;
}

static void tell(const char *when)
{
	int none = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;

	printf("%s: no child %d, threads %d, descriptors %d, blocked %d\n", when, none, threads(),
	       entries("/proc/self/fd") - 3, blocked());
	fflush(stdout);
}

static void run_threads(void)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		HOST_CHECK(pthread_create(&t[i], NULL, thread, "thread") == 0);
	for (int i = 0; i < 3; i++)
		HOST_CHECK(pthread_join(t[i], NULL) == 0);
	tell("threads");
}

static void run_fork(void)
{
	int status = 0;
	pid_t child = fork();

	HOST_CHECK(child >= 0);
	if (child == 0) {
		work("forked", 4);
		_exit(31);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -status);
	tell("forked");
}

int main(int argc, char **argv)
{
	char *const again[] = {argv[0], "second", NULL};

	otelc_init_tracer_provider("inject", "1.0", "test", "");
	tracer = otelc_get_tracer();
	tell("begin");
	work("first", 6);
	run_threads();
	if (argc > 1) {
		work("second", 4);
		tell("end");
		return 23;
	}
	run_fork();
	HOST_CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
	work("last", 4);
	tell("exec");
	execv("/proc/self/exe", again);
	return 99;
}
