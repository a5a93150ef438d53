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
static bool has_stderr; /* the host's, as far as is known */

/*
 * A file that nothing is read from and nothing can be written to. The three numbers are taken, so that
 * no file of ours gets them: a message goes to descriptor 2, whatever is open there.
 */
static void put_nothing_at(int fd)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0)
		nothing = open("/", O_PATH | O_CLOEXEC);
	if (nothing < 0) {
		(void)close(fd);
	} else if (nothing != fd) {
		(void)dup3(nothing, fd, O_CLOEXEC);
		(void)close(nothing);
	}
}

/* fstat() and stat() have versions newer than we may need. */
static bool look(const char *path, int fd, struct stat *out)
{
	return syscall(SYS_newfstatat, fd, path, out, path[0] == '\0' ? AT_EMPTY_PATH : 0) == 0;
}

void sp_descriptors_detach(void)
{
	struct stat hosts;

	/* One step: the host's other files are never held by two tables. Linux 5.9. */
	detached = syscall(CLOSE_RANGE_NR, STDERR_FILENO + 1U, UINT_MAX,
			   CLOSE_RANGE_UNSHARE_FLAG) == 0;
	if (!detached)
		return;
	has_stderr = look("", STDERR_FILENO, &hosts);
	if (!has_stderr)
		put_nothing_at(STDERR_FILENO);
	/* These are the host's, too: an unread pipe would never end. */
	put_nothing_at(STDIN_FILENO);
	put_nothing_at(STDOUT_FILENO);
}

void sp_descriptors_check_stderr(void)
{
	struct stat ours;
	struct stat hosts;

	if (!detached || !has_stderr || !look("", STDERR_FILENO, &ours))
		return;
	/* "self" is the process, whose table is the host's. */
	if (look("/proc/self/fd/2", AT_FDCWD, &hosts) && hosts.st_dev == ours.st_dev &&
	    hosts.st_ino == ours.st_ino)
		return;
	has_stderr = false;
	put_nothing_at(STDERR_FILENO);
}
