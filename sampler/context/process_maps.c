/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/maps line by line (process_maps.h). Context: APP. */
#include "sampler/context/process_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/context/process_context.h"

#define PIECE 2048U

/* The begin of the name, behind the five fields before it; NULL if there is none. */
static const char *name_of(const char *line, const char *end)
{
	for (unsigned field = 0; field < 5; field++) {
		line = memchr(line, ' ', (size_t)(end - line));
		if (line == NULL)
			return NULL;
		line++;
	}
	while (line < end && *line == ' ')
		line++;
	return line;
}

static bool begins(const char *name, const char *end, const char *with)
{
	size_t len = strlen(with);

	return (size_t)(end - name) >= len && memcmp(name, with, len) == 0;
}

bool sp_process_maps_line(const char *line, size_t len, uintptr_t *at)
{
	const char *end = line + len;
	const char *name = name_of(line, end);
	const char *rights = memchr(line, ' ', len);
	uint64_t start = 0;

	if (name == NULL || rights == NULL || end - rights < 5 || rights[3] == 'x')
		return false;
	if (!begins(name, end, "[anon_shmem:" SP_PROCESS_CONTEXT_NAME "]") &&
	    !begins(name, end, "[anon:" SP_PROCESS_CONTEXT_NAME "]") &&
	    !begins(name, end, "/memfd:" SP_PROCESS_CONTEXT_NAME))
		return false;
	if (!sp_text_number(&line, 16, &start))
		return false;
	*at = (uintptr_t)start;
	return true;
}

/* Looks at all whole lines of text, and returns how many bytes they have. */
static size_t look_at(const char *text, size_t have, uintptr_t except, uintptr_t *at)
{
	size_t done = 0;
	const char *newline;

	while (*at == 0 && (newline = memchr(text + done, '\n', have - done)) != NULL) {
		(void)sp_process_maps_line(text + done, (size_t)(newline - text) - done, at);
		if (*at == except)
			*at = 0;
		done = (size_t)(newline - text) + 1;
	}
	return done;
}

static int find(int fd, uintptr_t except, uintptr_t *at)
{
	char text[PIECE];
	size_t have = 0;
	size_t total = 0;
	long got = 1;

	while (*at == 0 && total < SP_PROCESS_MAPS_MAX) {
		size_t done;

		got = sp_syscall(SYS_read, fd, text + have, sizeof(text) - have);
		if (got <= 0)
			break;
		total += (size_t)got;
		have += (size_t)got;
		done = look_at(text, have, except, at);
		have -= done;
		memmove(text, text + done, have);
		/* a line that is longer has the name of a file */
		if (have == sizeof(text))
			have = 0;
	}
	if (got < 0)
		return -errno;
	return *at == 0 && got > 0 ? -E2BIG : 0;
}

int sp_process_maps_find(uintptr_t except, uintptr_t *at)
{
	int fd = (int)sp_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int err;

	*at = 0;
	if (fd < 0)
		return -errno;
	err = find(fd, except, at);
	(void)sp_syscall(SYS_close, fd);
	return err;
}
