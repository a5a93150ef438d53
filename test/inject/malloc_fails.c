/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the exporter: allocation FAIL_FIRST and the FAIL_COUNT - 1 that follow it fail, counted from 1 over all
 * threads. FAIL_REPORT gets their number at the end, or where it was when a signal ended it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic unsigned long calls;
static unsigned long first = (unsigned long)-1;
static unsigned long count;

static void crashed(int signo)
{
	const char *path = getenv("FAIL_REPORT");
	int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
	void *from[32];

	if (fd >= 0)
		backtrace_symbols_fd(from, backtrace(from, 32), fd);
	signal(signo, SIG_DFL);
	raise(signo);
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("FAIL_FIRST");
	void *from[1];

	/* The first time, it loads a library. */
	(void)backtrace(from, 1);
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGABRT, crashed);

	count = getenv("FAIL_COUNT") != NULL ? strtoul(getenv("FAIL_COUNT"), NULL, 10) : 1;
	if (text != NULL && *text != '0')
		first = strtoul(text, NULL, 10);
}

/* Whoever has ended by _exit() has none. */
__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("FAIL_REPORT");
	char text[32];
	int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
	int len = snprintf(text, sizeof(text), "%lu\n", atomic_load(&calls));

	if (fd >= 0) {
		if (write(fd, text, (size_t)len) < 0)
			errno = 0;
		close(fd);
	}
}

static bool fails(void)
{
	unsigned long n = atomic_fetch_add(&calls, 1) + 1;

	if (n < first || n - first >= count)
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void *memalign(size_t alignment, size_t size)
{
	return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
	*p = memalign(alignment, size);
	return *p != NULL ? 0 : ENOMEM;
}
