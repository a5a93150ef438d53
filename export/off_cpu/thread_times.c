/* SPDX-License-Identifier: Apache-2.0 */
/* See thread_times.h. Context: the exporter. */
#include "export/off_cpu/thread_times.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of all processes; and no more than this share of the limit, which exporter/family.c leaves us. */
#define FILES_MAX 128U
#define FILES_SHARE 8U

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

void sp_thread_times_close(struct sp_thread_times *t)
{
	if (t->file == 0)
		return;
	(void)close(t->file - 1);
	t->file = 0;
	files--;
}

static int open_file(const char *proc, uint32_t tid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/task/%" PRIu32 "/schedstat", proc, tid);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static void keep(struct sp_thread_times *t, int fd)
{
	if (files >= files_max()) {
		(void)close(fd);
		return;
	}
	files++;
	t->file = fd + 1;
}

bool sp_thread_times_read(struct sp_thread_times *t, const char *proc, uint32_t tid,
			  struct sp_task_times *out)
{
	int fd = t->file != 0 ? t->file - 1 : open_file(proc, tid);
	char text[SP_TASK_TEXT];
	ssize_t got = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	text[got > 0 ? got : 0] = '\0';
	if (fd >= 0 && t->file == 0)
		keep(t, fd);
	return got > 0 && sp_task_times_parse(text, out);
}
