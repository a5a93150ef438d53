/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the machine's settings (config_file.h) by raw system calls: a library that was loaded
 * before ours may define functions of the C library, and we must not call it before the program
 * runs. Contexts: INIT, and programs that print the file's settings.
 */
#define _GNU_SOURCE
#include "sampler/config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/process.h"

static const char *reason(long err)
{
	switch (-err) {
	case ELOOP:
		return "is a symbolic link";
	case EACCES:
		return "may not be read by this user";
	default:
		return "cannot be read";
	}
}

/* The mask of an access list shows up as the rights of the group. */
static const char *look_at(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid != 0 && !sp_process_is_outsider(st->st_uid, false))
		return "does not belong to root";
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return "may be written by others than root";
	return NULL;
}

size_t sp_config_file_read(const char *path, char *text, const char **why)
{
	const long flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	long fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)path, flags, 0);
	struct stat st = {0};
	size_t len = 0;
	long got = 1;

	*why = NULL;
	if (fd < 0) {
		if (fd != -ENOENT && fd != -ENOTDIR)
			*why = reason(fd);
		return 0;
	}
	got = sp_arch_syscall(SYS_newfstatat, fd, (long)"", (long)&st, AT_EMPTY_PATH);
	*why = got < 0 ? reason(got) : look_at(&st);
	if (*why == NULL) {
		/*
		 * Room for one byte more than is allowed: if it is filled, the file is too large.
		 */
		while (len < SP_CONFIG_FILE_MAX &&
		       (got = sp_arch_syscall(SYS_read, fd, (long)(text + len),
					      (long)(SP_CONFIG_FILE_MAX - len), 0)) > 0)
			len += (size_t)got;
		if (got < 0)
			*why = reason(got);
		else if (len == SP_CONFIG_FILE_MAX)
			*why = "is larger than 16 KiB";
	}
	(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	return *why == NULL ? len : 0;
}

char *sp_config_file_line(char **at, const char *end)
{
	while (*at < end) {
		char *line = *at;
		char *stop = line;

		while (stop < end && *stop != '\n' && *stop != '\0')
			stop++;
		*at = stop < end ? stop + 1 : stop;
		*stop = '\0';
		if (line[0] != '#')
			return line;
	}
	return NULL;
}
