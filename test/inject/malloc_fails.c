/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the exporter: allocation FAIL_FIRST and the next FAIL_COUNT - 1 fail, counted from 1 over all threads and
 * processes. The counts of allocations and failures are in the file FAIL_COUNTS, because the exporter may end in any
 * way; FAIL_REPORT gets the backtrace if a signal ended it.
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
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

struct counts {
	_Atomic unsigned long calls, failed;
};

/* Until the file exists, the loader's allocations are counted here. */
static struct counts before, *counts = &before;
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

static void share_counts(const char *path)
{
	int fd = path != NULL ? open(path, O_RDWR | O_CREAT, 0644) : -1;
	void *shared = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*counts)) == 0)
		shared = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared != MAP_FAILED)
		counts = shared;
	if (fd >= 0)
		close(fd);
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("FAIL_FIRST");
	void *from[1];

	/* The first call loads a library. */
	(void)backtrace(from, 1);
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGABRT, crashed);

	share_counts(getenv("FAIL_COUNTS"));
	count = getenv("FAIL_COUNT") != NULL ? strtoul(getenv("FAIL_COUNT"), NULL, 10) : 1;
	if (text != NULL && *text != '0')
		first = strtoul(text, NULL, 10);
}

static bool fails(void)
{
	unsigned long n = atomic_fetch_add(&counts->calls, 1) + 1;

	if (n < first || n - first >= count)
		return false;
	atomic_fetch_add(&counts->failed, 1);
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
