/* SPDX-License-Identifier: Apache-2.0 */
/* Writes messages to the stderr of another process (messages.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/exporter/messages.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/base/text.h"

#define STDERR_NAME "fd/2"
#define TEXT_MAX 1000U
#define PREFIX_MAX 32U /* "spanprof[4294967295]: " */

_Static_assert(TEXT_MAX <= SP_REGION_MESSAGE_MAX, "a message fits into the region");

/* The flags with which the host has opened its stderr, or -1 if they may not be read. */
static long open_flags(const struct sp_host *h)
{
	char text[256];
	const char *flags;

	if (sp_host_read(h, "fdinfo/2", text, sizeof(text)) <= 0)
		return -1;
	flags = strstr(text, "flags:");
	return flags != NULL ? (long)strtoul(flags + strlen("flags:"), NULL, 8) : -1;
}

/* Whether a line of ours goes to the end, wherever that is. Pipes and terminals always do that. */
static bool appends(const struct sp_messages *m)
{
	long flags = S_ISREG(m->file.st_mode) ? open_flags(m->host) : O_APPEND;

	return flags >= 0 && (flags & O_APPEND) != 0;
}

void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level)
{
	ssize_t len;

	*m = (struct sp_messages){
		.host = h, .region = region, .level = level, .way = SP_MESSAGES_BY_HOST};
	/*
	 * A program that was started without descriptor 2 may have opened any file there. A regular
	 * file that is open for reading as well is not a log; terminals and pipes are logs even so.
	 * A descriptor with close-on-exec was opened by the program itself, and a line for a block
	 * device would go to its beginning.
	 */
	if (fstatat(h->proc, STDERR_NAME, &m->file, 0) != 0 || S_ISBLK(m->file.st_mode) ||
	    (open_flags(h) & O_CLOEXEC) != 0 ||
	    (S_ISREG(m->file.st_mode) && (open_flags(h) & O_ACCMODE) != O_WRONLY))
		return;
	m->way = SP_MESSAGES_OURS;
	if ((!S_ISREG(m->file.st_mode) && !S_ISCHR(m->file.st_mode)) || !appends(m))
		return;
	len = readlinkat(h->proc, STDERR_NAME, m->path, sizeof(m->path) - 1);
	m->path[len > 0 && m->path[0] == '/' ? len : 0] = '\0';
}

/*
 * A terminal that was closed is gone. The next terminal gets the same name, number and inode, but
 * another time of creation.
 */
static bool is_same(const struct sp_messages *m, const struct stat *st, bool by_name)
{
	return st->st_dev == m->file.st_dev && st->st_ino == m->file.st_ino &&
	       st->st_rdev == m->file.st_rdev &&
	       (st->st_mode & S_IFMT) == (m->file.st_mode & S_IFMT) &&
	       (!by_name || !S_ISCHR(st->st_mode) ||
		(st->st_ctim.tv_sec == m->file.st_ctim.tv_sec &&
		 st->st_ctim.tv_nsec == m->file.st_ctim.tv_nsec));
}

/*
 * Opens the file of that name if it still is the host's stderr, and no socket. Negative if not.
 * Opening some devices has an effect, so it is first opened with O_PATH, and only the right file is
 * then opened for writing.
 */
static int open_same(const struct sp_messages *m, int folder, const char *name, bool by_name)
{
	char path[32];
	struct stat st;
	int place = openat(folder, name, O_PATH | O_CLOEXEC);
	int fd = -1;

	if (place < 0)
		return -1;
	if (fstat(place, &st) == 0 && is_same(m, &st, by_name) && !S_ISSOCK(st.st_mode)) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
		fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	(void)close(place);
	return fd;
}

/* As open_same(). */
static int open_stderr(const struct sp_messages *m)
{
	const struct sp_host *h = m->host;

	/* If the exporter holds nothing of the process any more, the process has ended, too. */
	if ((h->proc < 0 && h->pidfd < 0) || !sp_host_lives(h))
		return m->path[0] != '\0' ? open_same(m, AT_FDCWD, m->path, true) : -1;
	return appends(m) ? open_same(m, h->proc, STDERR_NAME, false) : -1;
}

static void ask_host(struct sp_messages *m, const char *text, size_t len)
{
	struct sp_region_message *to = &m->region->message[m->next % SP_REGION_MESSAGES];

	/* Pairs with the host's release: the host has read the message before. */
	if (atomic_load_explicit(&to->bytes, memory_order_acquire) != 0)
		return;
	m->next++;
	memcpy(to->text, text, len);
	/* Pairs with the host's acquire: the text before its length. */
	atomic_store_explicit(&to->bytes, (uint32_t)len, memory_order_release);
	atomic_fetch_or_explicit(&m->region->deferred_work, SP_WORK_WRITE, memory_order_release);
}

void sp_messages_write(struct sp_messages *m, enum sp_log_level level, const char *text)
{
	char line[PREFIX_MAX + TEXT_MAX + 1];
	size_t len = strlen(text);
	size_t prefix;
	ssize_t written = -1;
	int fd = -1;

	if (level == SP_LOG_NONE || level > m->level)
		return;
	prefix = (size_t)snprintf(line, PREFIX_MAX, "spanprof[%" PRIu32 "]: ", m->host->pid);
	len = sp_text_boundary(text, len < TEXT_MAX ? len : TEXT_MAX);
	(void)snprintf(line + prefix, TEXT_MAX + 1, "%.*s", (int)len, text);
	sp_text_printable(line + prefix, len);
	if (m->way == SP_MESSAGES_OURS)
		fd = open_stderr(m);
	if (fd >= 0) {
		line[prefix + len] = '\n';
		/* A full pipe takes nothing. We do not wait for it. */
		written = write(fd, line, prefix + len + 1);
		(void)close(fd);
	}
	if (written < 0)
		ask_host(m, line + prefix, len);
}
