/* SPDX-License-Identifier: Apache-2.0 */
/* Writes messages to the stderr of another process (messages.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/exporter/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sampler/base/text.h"

#define STDERR_NAME "fd/2"
#define TEXT_MAX 1000U
#define PREFIX_MAX 32U /* "spanprof[4294967295]: " */

_Static_assert(TEXT_MAX <= SP_REGION_MESSAGE_MAX, "a message fits into the region");

/*
 * A program that was started without descriptor 2 may have opened any file there. A regular file
 * that is open for reading as well is not a log. For terminals and pipes this says nothing.
 */
static bool is_read_too(const struct sp_host *h)
{
	char text[256];
	const char *flags;

	if (sp_host_read(h, "fdinfo/2", text, sizeof(text)) <= 0)
		return true;
	flags = strstr(text, "flags:");
	return flags == NULL ||
	       (strtoul(flags + strlen("flags:"), NULL, 8) & O_ACCMODE) != O_WRONLY;
}

void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level)
{
	struct stat st;

	*m = (struct sp_messages){.host = h, .region = region, .level = level};
	if (h->proc < 0 || fstatat(h->proc, STDERR_NAME, &st, 0) != 0)
		return;
	m->writable = !S_ISREG(st.st_mode) || !is_read_too(h);
	m->device = st.st_dev;
	m->inode = st.st_ino;
	m->special = st.st_rdev;
	m->type = st.st_mode & S_IFMT;
}

static bool is_same(const struct sp_messages *m, const struct stat *st)
{
	return st->st_dev == m->device && st->st_ino == m->inode && st->st_rdev == m->special &&
	       (st->st_mode & S_IFMT) == m->type;
}

/*
 * Opens the host's stderr if it is still the same. -EXDEV: it is another file; other errors: the
 * host has to write.
 */
static int open_stderr(const struct sp_messages *m)
{
	struct stat st;
	int fd;

	/*
	 * Checked before the open, because opening some devices has an effect, and again after it.
	 */
	if (fstatat(m->host->proc, STDERR_NAME, &st, 0) != 0)
		return -errno;
	if (!is_same(m, &st))
		return -EXDEV;
	if (S_ISSOCK(st.st_mode))
		return -ENXIO;
	fd = openat(m->host->proc, STDERR_NAME,
		    O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && is_same(m, &st))
		return fd;
	(void)close(fd);
	return -EXDEV;
}

/* The host takes a message only if the last one is gone. */
static void ask_host(const struct sp_messages *m, const char *text, size_t len)
{
	struct sp_region *r = m->region;

	if (atomic_load_explicit(&r->message_bytes, memory_order_acquire) != 0)
		return;
	memcpy(r->message, text, len);
	/* Pairs with the host's acquire: the text before its length. */
	atomic_store_explicit(&r->message_bytes, (uint32_t)len, memory_order_release);
	atomic_fetch_or_explicit(&r->deferred_work, SP_WORK_WRITE, memory_order_release);
}

void sp_messages_tell(const struct sp_messages *m, enum sp_log_level level, const char *text)
{
	char line[PREFIX_MAX + TEXT_MAX + 1];
	size_t len = strlen(text);
	size_t prefix;
	int fd;

	if (level == SP_LOG_NONE || level > m->level || !m->writable)
		return;
	prefix = (size_t)snprintf(line, PREFIX_MAX, "spanprof[%" PRIu32 "]: ", m->host->pid);
	len = sp_text_boundary(text, len < TEXT_MAX ? len : TEXT_MAX);
	memcpy(line + prefix, text, len);
	sp_text_printable(line + prefix, len);
	fd = open_stderr(m);
	if (fd == -EXDEV)
		return;
	if (fd < 0) {
		ask_host(m, line + prefix, len);
		return;
	}
	line[prefix + len] = '\n';
	/* A full pipe takes nothing. We do not wait for it. */
	if (write(fd, line, prefix + len + 1) < 0)
		errno = 0;
	(void)close(fd);
}
