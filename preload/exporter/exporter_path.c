/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the program spanprof-exporter. Threads of the host may have small stacks, so files are read
 * in small pieces.
 */
#include "preload/exporter/exporter_path.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "preload/elf/elf_walk.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/text.h"

#define PROGRAM "spanprof-exporter"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Puts the program's name in place of our own, which ends the path in out. */
static bool replace_name(char out[SP_EXPORTER_PATH_MAX])
{
	char *slash = strrchr(out, '/');

	if (out[0] != '/' || (size_t)(slash - out) + 1 + sizeof(PROGRAM) > SP_EXPORTER_PATH_MAX)
		return false;
	memcpy(slash + 1, PROGRAM, sizeof(PROGRAM));
	return true;
}

static bool from_loader(char out[SP_EXPORTER_PATH_MAX])
{
	const char *own = sp_elf_own_path();
	size_t length = strlen(own);

	if (length >= SP_EXPORTER_PATH_MAX)
		return false;
	memcpy(out, own, length + 1);
	return replace_name(out);
}

/* Reads a line "start-end perms offset dev inode path" byte by byte. */
struct line {
	uintptr_t start;
	bool started;  /* start is complete */
	size_t length; /* of the path so far */
};

/* True when the line of our first page is complete; then its path is in out. */
static bool take(struct line *l, char c, char out[SP_EXPORTER_PATH_MAX])
{
	if (c == '\n') {
		bool found = l->start == (uintptr_t)__ehdr_start && l->length > 0 &&
			     l->length < SP_EXPORTER_PATH_MAX - 1;

		out[l->length] = '\0';
		*l = (struct line){0};
		return found;
	}
	if (!l->started && c != '-')
		l->start = l->start * 16 + (uintptr_t)sp_text_digit(c);
	else
		l->started = true;
	/* A path that fills the buffer may be cut off, and would then name another folder. */
	if ((l->length > 0 || c == '/') && l->length < SP_EXPORTER_PATH_MAX - 1)
		out[l->length++] = c;
	return false;
}

static bool from_maps(char out[SP_EXPORTER_PATH_MAX])
{
	struct line line = {0};
	char piece[256] = {0};
	bool found = false;
	long fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps",
				  O_RDONLY | O_CLOEXEC, 0);
	long got;

	if (fd < 0)
		return false;
	while (!found && (got = sp_arch_syscall(SYS_read, fd, (long)piece, sizeof(piece), 0)) > 0) {
		for (long i = 0; !found && i < got; i++)
			found = take(&line, piece[i], out);
	}
	(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	return found && replace_name(out);
}

bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX])
{
	return from_loader(out) || from_maps(out);
}
