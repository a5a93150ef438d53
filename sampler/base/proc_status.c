/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one line of a status file in /proc, through a buffer that keeps the end of what was read
 * before: the list of a user's groups is in the middle of the file and may be long.
 *
 * By a raw system call and not the C library's read(): a thread sanitizer of the host sees that
 * read() write into memory, but does not see the atomic operations in our object that order the
 * accesses.
 */
#include "sampler/base/proc_status.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"

#define STAT_START 22U /* the field of a stat file, counted from 1 */

/* False as long as the end of the line is not there. */
static bool find(const char *text, const char *start, char line[SP_PROC_STATUS_LINE])
{
	const char *at = strstr(text, start);
	const char *end = at != NULL ? strchr(at + 1, '\n') : NULL;
	size_t len = end != NULL ? (size_t)(end - at) : 0;

	if (end == NULL)
		return false;
	len = len < SP_PROC_STATUS_LINE ? len : SP_PROC_STATUS_LINE - 1;
	memcpy(line, at, len);
	line[len] = '\0';
	return true;
}

int sp_proc_status(const char *path, const char *start, char line[SP_PROC_STATUS_LINE])
{
	int fd = (int)sp_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	char text[1024];
	size_t have = 0;
	bool found = false;
	long got;

	if (fd < 0)
		return -1;
	while (!found &&
	       (got = sp_syscall(SYS_read, fd, text + have, sizeof(text) - 1 - have)) > 0) {
		have += (size_t)got;
		text[have] = '\0';
		found = find(text, start, line);
		/* Keeps the end, which may be the beginning of the line. */
		if (have > SP_PROC_STATUS_LINE) {
			memmove(text, text + have - SP_PROC_STATUS_LINE, SP_PROC_STATUS_LINE);
			have = SP_PROC_STATUS_LINE;
		}
	}
	(void)sp_syscall(SYS_close, fd);
	return found;
}

uint64_t sp_proc_stat_start(const char *text, char *state)
{
	/* The name, which may hold anything, ends at the last parenthesis. */
	const char *at = strrchr(text, ')');
	uint64_t ticks = 0;

	*state = '?';
	if (at == NULL || at[1] != ' ')
		return 0;
	*state = at[2];
	for (unsigned field = 2; at != NULL && field < STAT_START; field++)
		at = strchr(at + 1, ' ');
	if (at == NULL)
		return 0;
	at++;
	return sp_text_number(&at, 10, &ticks) ? ticks : 0;
}
