/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded before the profiler: functions of the C library that make one system call each, as in libraries that log,
 * count or deny a program's calls. Each takes a lock, for which a signal handler must not wait. At the end the
 * library prints the number of calls of each.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum wrapped { SYSCALL, GETPID, MMAP, MUNMAP, READLINK, WRAPPED };

static const char *const names[WRAPPED] = {"syscall", "getpid", "mmap", "munmap", "readlink"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls[WRAPPED];
static void *next[WRAPPED];

__attribute__((constructor)) static void find(void)
{
	for (unsigned i = 0; i < WRAPPED; i++)
		next[i] = dlsym(RTLD_NEXT, names[i]);
}

static long through(enum wrapped which, long a, long b, long c, long d, long e, long f, long g)
{
	long (*function)(long, long, long, long, long, long, long);
	long result;
	int err;

	if (next[which] == NULL)
		find();
	__extension__ function = (__typeof__(function))next[which];
	(void)pthread_mutex_lock(&lock);
	calls[which]++;
	result = function(a, b, c, d, e, f, g);
	err = errno;
	(void)pthread_mutex_unlock(&lock);
	errno = err;
	return result;
}

/* unistd.h declares it with "...". */
long wrapped_syscall(long number, long a, long b, long c, long d, long e,
		     long f) __asm__("syscall");

long wrapped_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	return through(SYSCALL, number, a, b, c, d, e, f);
}

pid_t getpid(void)
{
	return (pid_t)through(GETPID, 0, 0, 0, 0, 0, 0, 0);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return (void *)through(MMAP, (long)at, (long)bytes, protection, flags, fd, offset, 0);
}

int munmap(void *at, size_t bytes)
{
	return (int)through(MUNMAP, (long)at, (long)bytes, 0, 0, 0, 0, 0);
}

ssize_t readlink(const char *restrict path, char *restrict buffer, size_t size)
{
	return through(READLINK, (long)path, (long)buffer, (long)size, 0, 0, 0, 0);
}

__attribute__((destructor)) static void print(void)
{
	for (unsigned i = 0; i < WRAPPED; i++)
		dprintf(STDERR_FILENO, "%s %lu\n", names[i], calls[i]);
}
