/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common functions of the stand-ins for SDKs. They write lines to files that the environment names, recognise calls
 * by the profiler itself, and set the errno after a call. They are in a header, so that each stand-in has its own
 * copy and exports no such function.
 */
#ifndef TEST_COMMON_FIXTURE_H
#define TEST_COMMON_FIXTURE_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIXTURE_LINE_MAX 4096

/* Whether FIXTURE_MODE is that word. */
static inline bool fixture_mode_is(const char *mode)
{
	const char *now = getenv("FIXTURE_MODE");

	return now != NULL && strcmp(now, mode) == 0;
}

/*
 * Appends to the file that the variable names: one write per line, on a descriptor that is closed at once, because
 * hosts count and close descriptors.
 */
static inline void fixture_append(const char *variable, const char *line, size_t len)
{
	const char *path = getenv(variable);
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, len) != (ssize_t)len)
		abort();
	close(fd);
}

/* One line of FIXTURE_CALLS: the first word, the arguments by the format, and the last words. */
__attribute__((format(printf, 2, 0))) static inline void
fixture_record(const char *first, const char *format, va_list args, const char *last)
{
	char text[FIXTURE_LINE_MAX];
	char line[FIXTURE_LINE_MAX];
	int len = vsnprintf(text, sizeof(text), format, args);

	if (len < 0 || (size_t)len >= sizeof(text))
		abort();
	len = snprintf(line, sizeof(line), "%s%s%s", first, text, last);
	if (len < 0 || (size_t)len >= sizeof(line))
		abort();
	fixture_append("FIXTURE_CALLS", line, (size_t)len);
}

/*
 * Whether the call comes from libspanprof.so. The count functions in handed_on do not count, because the preloaded
 * object takes them over and passes on the host's calls.
 */
static inline bool fixture_is_ours(const void *caller, const char *function,
				   const char *const *handed_on, size_t count)
{
	Dl_info info;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(handed_on[i], function) == 0)
			return false;
	}
	return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libspanprof.so") != NULL;
}

/* The errno when the call returns: FIXTURE_ERRNO, or the present one. */
static inline int fixture_errno_after(bool ours)
{
	const char *wanted = getenv("FIXTURE_ERRNO");

	return wanted != NULL ? atoi(wanted) + ours : errno;
}

/* Numbers that look like random ids, but are the same in each run. */
static inline uint64_t fixture_scrambled(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
