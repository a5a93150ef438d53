/* SPDX-License-Identifier: Apache-2.0 */
/* Unsharing the background thread's descriptors. BG context; raw system calls. */
#include "preload/descriptors.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/close_range.h and the number of the call, the same everywhere: headers may be older. */
#define CLOSE_RANGE_UNSHARE_FLAG 2U
#define CLOSE_RANGE_NR 436L

static bool detached;

/* stdin and stdout are the host's: an unread pipe would never end. Taken, so that no file of ours
 * gets these numbers. */
static void release_standard(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++) {
		if (nothing < 0)
			(void)close(fd);
		else if (nothing != fd)
			(void)dup3(nothing, fd, O_CLOEXEC);
	}
	if (nothing > STDERR_FILENO)
		(void)close(nothing);
}

void sp_descriptors_detach(void)
{
	/* One step: the host's other files are never held by two tables. Linux 5.9. */
	detached = syscall(CLOSE_RANGE_NR, STDERR_FILENO + 1U, UINT_MAX,
			   CLOSE_RANGE_UNSHARE_FLAG) == 0;
	if (detached)
		release_standard();
}

/* fstat() and stat() have versions newer than we may need. */
static bool look(const char *path, int fd, struct stat *out)
{
	return syscall(SYS_newfstatat, fd, path, out, path[0] == '\0' ? AT_EMPTY_PATH : 0) == 0;
}

void sp_descriptors_check_stderr(void)
{
	struct stat ours;
	struct stat hosts;

	if (!detached || !look("", STDERR_FILENO, &ours))
		return;
	/* "self" is the process, whose table is the host's. */
	if (look("/proc/self/fd/2", AT_FDCWD, &hosts) && hosts.st_dev == ours.st_dev &&
	    hosts.st_ino == ours.st_ino)
		return;
	(void)close(STDERR_FILENO);
}
