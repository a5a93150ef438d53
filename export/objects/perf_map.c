/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the names of generated code (perf_map.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/objects/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SP_PERF_MAP_MAX ((off_t)64 << 20)
/* The file is read in chunks of this size. A longer line is skipped. */
#define SP_PERF_MAP_CHUNK ((size_t)64 << 10)
#define SP_STATUS_MAX 4096U

/* User and number of a process, by its status file. */
struct identity {
	unsigned long user;   /* the effective one */
	unsigned long number; /* in its own pid namespace */
};

/*
 * Finds the line that begins with `word` and has at most `fields` numbers, and reads its last one.
 * False if there is no such line.
 */
static bool last_number(const char *status, const char *word, unsigned fields, unsigned long *out)
{
	const char *at = strstr(status, word);
	unsigned n = 0;
	char *end;

	if (at == NULL)
		return false;
	for (at += strlen(word); n < fields && *at != '\n'; n++, at = end) {
		unsigned long value = strtoul(at, &end, 10);

		if (end == at)
			break;
		*out = value;
	}
	return n != 0;
}

static bool identify(const char *proc, struct identity *out)
{
	char path[96];
	char status[SP_STATUS_MAX];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/status", proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, status, sizeof(status) - 1);
	close(fd);
	status[n > 0 ? n : 0] = '\0';
	/*
	 * The second of the four users is the effective one. Before Linux 4.1 the file does not show the pid
	 * namespace.
	 */
	return last_number(status, "\nUid:", 2, &out->user) &&
	       (last_number(status, "\nNSpid:", 32, &out->number) ||
		last_number(status, "\nPid:", 1, &out->number));
}

int sp_perf_map_open(const char *proc)
{
	const int folder_flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	struct identity who;
	struct stat st;
	char name[96];
	int root, folder, fd, err;

	if (!identify(proc, &who))
		return -ESRCH;
	(void)snprintf(name, sizeof(name), "%s/root", proc);
	root = open(name, folder_flags);
	if (root < 0)
		return -errno;
	folder = openat(root, "tmp", folder_flags | O_NOFOLLOW);
	err = -errno;
	close(root);
	if (folder < 0)
		return err;
	(void)snprintf(name, sizeof(name), "perf-%lu.map", who.number);
	/* Opening a FIFO would wait for a writer. */
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	err = -errno;
	close(folder);
	if (fd < 0)
		return err;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == who.user)
		return fd;
	close(fd);
	return -EPERM;
}

/* Parses "start size name", with both numbers in hexadecimal digits. */
static void read_line(char *line, size_t len, sp_perf_map_take *take, void *arg)
{
	char *end;
	uint64_t start, size;

	line[len] = '\0';
	errno = 0;
	start = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return;
	line = end;
	size = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || errno != 0 || size == 0 || size > UINT64_MAX - start)
		return;
	take(arg, start, start + size, end + 1, strlen(end + 1));
}

/* Parses all complete lines of the text. Returns the number of bytes used. */
static size_t read_lines(char *text, size_t len, sp_perf_map_take *take, void *arg)
{
	size_t at = 0;
	char *end;

	while ((end = memchr(text + at, '\n', len - at)) != NULL) {
		read_line(text + at, (size_t)(end - text) - at, take, arg);
		at = (size_t)(end - text) + 1;
	}
	return at;
}

void sp_perf_map_read(int fd, sp_perf_map_take *take, void *arg)
{
	char *text = malloc(SP_PERF_MAP_CHUNK + 1);
	struct stat st;
	bool is_inside = false; /* the chunk begins inside a line that is skipped */
	size_t have = 0;
	off_t at, end;
	ssize_t n;

	if (text == NULL || fstat(fd, &st) != 0) {
		free(text);
		return;
	}
	end = st.st_size;
	at = end > SP_PERF_MAP_MAX ? end - SP_PERF_MAP_MAX : 0;
	is_inside = at != 0;
	while (at < end && (n = pread(fd, text + have, SP_PERF_MAP_CHUNK - have, at)) > 0) {
		size_t used = 0;

		at += n;
		have += (size_t)n;
		if (is_inside) {
			const char *newline = memchr(text, '\n', have);

			used = newline != NULL ? (size_t)(newline - text) + 1 : have;
			is_inside = newline == NULL;
		}
		used += read_lines(text + used, have - used, take, arg);
		if (used == 0 && have == SP_PERF_MAP_CHUNK) {
			is_inside = true;
			used = have;
		}
		have -= used;
		memmove(text, text + used, have);
	}
	free(text);
}
