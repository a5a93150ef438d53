/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds separate debug information where debuggers look for it, in the order of gdb ("Debugging
 * Information in Separate Files"). Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/symbols/debug_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "export/objects/modules.h"
#include "sampler/base/text.h"

#define SP_CRC_BUFFER 65536U

static int open_by_id(const struct sp_debug_query *q, struct sp_elf_file *out, char *path)
{
	char hex[(size_t)2 * SP_BUILD_ID_MAX + 1];

	if (q->id_len < 2 || q->id_len > SP_BUILD_ID_MAX)
		return -ENOENT;
	sp_text_hex(hex, q->id, q->id_len);
	(void)snprintf(path, SP_DEBUG_PATH_MAX, "%s/.build-id/%.2s/%s.debug", q->root, hex,
		       hex + 2);
	return sp_elf_file_open(path, q->id, q->id_len, out);
}

/* The checksum of .gnu_debuglink is zlib's, over the whole file. */
static bool crc_matches(int fd, uint32_t want, uint64_t max)
{
	uint8_t *buf = malloc(SP_CRC_BUFFER);
	uLong crc = crc32(0, NULL, 0);
	uint64_t done = 0;
	ssize_t n = -1;

	while (buf != NULL && done <= max && (n = pread(fd, buf, SP_CRC_BUFFER, (off_t)done)) > 0) {
		crc = crc32(crc, buf, (uInt)n);
		done += (uint64_t)n;
	}
	free(buf);
	return n == 0 && crc == want;
}

static int open_linked(const struct sp_debug_query *q, struct sp_elf_file *out, const char *path)
{
	int err = sp_elf_file_open(path, q->id, q->id_len, out);

	/*
	 * A file without a build id may belong to an object with one, because old tools strip it.
	 */
	if (err == -ESTALE && q->id_len != 0)
		err = sp_elf_file_open(path, NULL, 0, out);
	if (err != 0)
		return err;
	if (crc_matches(out->fd, q->link->crc, q->max))
		return 0;
	sp_elf_file_close(out);
	return -ESTALE;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_by_link(const struct sp_debug_query *q, struct sp_elf_file *out, char *path)
{
	char real[PATH_MAX];
	const char *object = realpath(q->object, real) != NULL ? real : q->object;
	int dir = (int)(strrchr(object, '/') != NULL ? strrchr(object, '/') - object : 0);
	const char *const where[][2] = {{"", ""}, {"", "/.debug"}, {q->root, ""}};

	if (q->link == NULL || q->link->name[0] == '\0' || object[0] != '/')
		return -ENOENT;
	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		int n = snprintf(path, SP_DEBUG_PATH_MAX, "%s%.*s%s/%s", where[i][0], dir, object,
				 where[i][1], q->link->name);

		/* The link in a file that was never stripped may name that file. */
		if (n < 0 || n >= (int)SP_DEBUG_PATH_MAX || same_file(path, object))
			continue;
		if (open_linked(q, out, path) == 0)
			return 0;
	}
	return -ENOENT;
}

int sp_debug_file_open(const struct sp_debug_query *q, struct sp_elf_file *out,
		       char path[SP_DEBUG_PATH_MAX])
{
	if (open_by_id(q, out, path) == 0 || open_by_link(q, out, path) == 0)
		return 0;
	path[0] = '\0';
	return -ENOENT;
}
