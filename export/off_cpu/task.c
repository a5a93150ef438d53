/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of /proc about a thread (task.h). Context: the exporter. */
#include "export/off_cpu/task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * Descriptors that may stay open, for all processes together; and at most this share of the limit that
 * exporter/family.c gives us.
 */
#define FILES_MAX 128U
#define FILES_SHARE 8U

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Parses an unsigned number and the blank or newline behind it. NULL if there is none, or if it is too large. */
static const char *number(const char *text, unsigned base, uint64_t *out)
{
	const char *at = text;

	*out = 0;
	for (;; at++) {
		int digit = digit_of(*at);

		if (digit < 0 || (unsigned)digit >= base)
			break;
		if (__builtin_mul_overflow(*out, base, out) ||
		    __builtin_add_overflow(*out, (unsigned)digit, out))
			return NULL;
	}
	if (at == text || (*at != ' ' && *at != '\n'))
		return NULL;
	return at + 1;
}

static const char *hex(const char *text, uint64_t *out)
{
	if (text == NULL || strncmp(text, "0x", 2) != 0)
		return NULL;
	return number(text + 2, 16, out);
}

bool sp_task_times_parse(const char *text, struct sp_task_times *out)
{
	const char *at = number(text, 10, &out->cpu_ns);

	if (at != NULL)
		at = number(at, 10, &out->delay_ns);
	return at != NULL && number(at, 10, &out->slices) != NULL;
}

static bool place_in_kernel(const char *at, struct sp_task_place *out)
{
	out->state = SP_TASK_IN_KERNEL;
	at = hex(at, &out->sp);
	return at != NULL && hex(at, &out->pc) != NULL;
}

bool sp_task_place_parse(const char *text, struct sp_task_place *out)
{
	const char *at;

	memset(out, 0, sizeof(*out));
	if (strcmp(text, "running\n") == 0)
		return true;
	if (strncmp(text, "-1 ", 3) == 0)
		return place_in_kernel(text + 3, out);
	out->state = SP_TASK_CALLS;
	at = number(text, 10, &out->number);
	for (unsigned i = 0; at != NULL && i < SP_TASK_ARGS; i++)
		at = hex(at, &out->arg[i]);
	at = at != NULL ? hex(at, &out->sp) : NULL;
	return at != NULL && hex(at, &out->pc) != NULL;
}

bool sp_task_state_parse(const char *text, struct sp_task_place *out)
{
	/* The name of the thread may contain any characters, parentheses too. */
	const char *at = strrchr(text, ')');

	memset(out, 0, sizeof(*out));
	if (at == NULL || at[1] != ' ' || at[2] < 'A' || at[2] > 'Z')
		return false;
	out->state = at[2] == 'R' ? SP_TASK_RUNS : SP_TASK_HIDDEN;
	return true;
}

static unsigned files;

static unsigned files_max(void)
{
	static unsigned most;
	struct rlimit limit;

	if (most == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		most = limit.rlim_cur / FILES_SHARE < FILES_MAX
			       ? (unsigned)limit.rlim_cur / FILES_SHARE + 1
			       : FILES_MAX;
	return most;
}

void sp_task_file_close(struct sp_task_file *f)
{
	if (f->file == 0)
		return;
	(void)close(f->file - 1);
	f->file = 0;
	files--;
}

static int open_file(const char *proc, uint32_t tid, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/task/%" PRIu32 "/%s", proc, tid, name);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static void keep(struct sp_task_file *f, int fd)
{
	if (files >= files_max()) {
		(void)close(fd);
		return;
	}
	files++;
	f->file = fd + 1;
}

bool sp_task_times_read(struct sp_task_file *f, const char *proc, uint32_t tid,
			struct sp_task_times *out)
{
	int fd = f->file != 0 ? f->file - 1 : open_file(proc, tid, "schedstat");
	char text[SP_TASK_TEXT];
	ssize_t got = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	text[got > 0 ? got : 0] = '\0';
	if (fd >= 0 && f->file == 0)
		keep(f, fd);
	return got > 0 && sp_task_times_parse(text, out);
}

int sp_task_state_read(const char *proc, uint32_t tid, struct sp_task_place *out)
{
	int fd = open_file(proc, tid, "stat");
	char text[SP_TASK_TEXT];
	ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	text[got > 0 ? got : 0] = '\0';
	if (fd >= 0)
		(void)close(fd);
	return sp_task_state_parse(text, out) ? 0 : -ESRCH;
}
