/* SPDX-License-Identifier: Apache-2.0 */
/* Reading another thread's name. BG context; raw system calls only. */
#include "sampler/thread_name.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sampler/fmt.h"

void sp_thread_name_of(uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	char path[48];
	ssize_t got;
	int fd;

	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/self/task/%u/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	got = read(fd, name, SP_THREAD_NAME_BYTES);
	(void)close(fd);
	/* The kernel adds one newline; those before it are the name's own. */
	if (got > 0)
		name[got - 1] = '\0';
}
