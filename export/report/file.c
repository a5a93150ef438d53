/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads profiles. Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/profile/gzip.h"
#include "export/util/containers.h"
#include "sampler/base/compiler.h"

/* The server takes profiles of a few MiB. */
#define SP_REPORT_FILE_MAX ((size_t)64 << 20)
#define SP_REPORT_PLAIN_MAX ((size_t)128 << 20)

static int refuse(char why[SP_REPORT_ERROR], const char *text)
{
	(void)snprintf(why, SP_REPORT_ERROR, "%s", text);
	return -1;
}

int sp_report_open(int folder, const char *path, struct stat *st, char why[SP_REPORT_ERROR])
{
	int fd, err;

	/* A look before, because to open a device can do something, and a folder may be anybody's. */
	if (fstatat(folder, path, st, 0) == 0 && !S_ISREG(st->st_mode)) {
		(void)refuse(why, "not a regular file");
		return -EINVAL;
	}
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	err = fd >= 0 ? EINVAL : errno;
	(void)refuse(why, fd >= 0 ? "not a regular file" : strerror(err));
	if (fd >= 0)
		(void)close(fd);
	return -err;
}

/*
 * Makes room for more of the file, and for one byte more than is allowed, which shows that it is
 * too large.
 */
static int more_room(struct sp_bytes *b, size_t *cap, char *why)
{
	if (*cap > SP_REPORT_FILE_MAX)
		return refuse(why, "it is too large");
	if (!sp_grow(&b->data, cap, *cap + 1, SP_REPORT_FILE_MAX + 1, 1))
		return refuse(why, "out of memory");
	return 0;
}

static int read_all(const char *path, struct sp_bytes *out, char *why)
{
	struct stat st;
	int fd = sp_report_open(AT_FDCWD, path, &st, why);
	size_t cap = 0;
	ssize_t n = 1;
	int err = fd >= 0 ? 0 : fd == -ENOENT ? 1 : -1;

	*out = (struct sp_bytes){0};
	while (err == 0 && n != 0) {
		if (out->len == cap) {
			err = more_room(out, &cap, why);
			continue;
		}
		n = read(fd, out->data + out->len, cap - out->len);
		if (n < 0)
			err = refuse(why, strerror(errno));
		else
			out->len += (size_t)n;
	}
	if (fd >= 0)
		(void)close(fd);
	if (err != 0 || out->len != 0)
		return err;
	(void)refuse(why, "it is empty");
	return 1;
}

int sp_report_read(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR])
{
	struct sp_bytes plain = {0};
	int err = read_all(path, out, why);

	if (err != 0 || !sp_gzip_is(out->data, out->len))
		return err;
	err = sp_gzip_unpack(out->data, out->len, SP_REPORT_PLAIN_MAX, &plain);
	free(out->data);
	*out = plain;
	if (err == 0)
		return 0;
	return refuse(why, err == -E2BIG     ? "it is too large unpacked"
			   : err == -ENOMEM  ? "out of memory"
			   : err == -EBADMSG ? "something else follows the compressed data"
					     : "the compressed data is damaged");
}

static bool is_profile(const char *path)
{
	static const char *const suffix[] = {".pb.gz", ".pb", ".pprof", ".otlp.gz", ".otlp"};
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++) {
		size_t n = strlen(suffix[i]);

		if (len > n && strcmp(path + len - n, suffix[i]) == 0)
			return true;
	}
	return false;
}

static int each_of_folder(const char *path, int (*each)(void *arg, const char *path), void *arg)
{
	char *pattern = malloc(strlen(path) * 2 + 3);
	char *at = pattern;
	glob_t g = {0};
	int err = 0;

	if (pattern == NULL)
		return -1;
	/* Special characters of the folder's own name are no pattern. */
	for (const char *s = path; *s != '\0'; s++) {
		if (strchr("*?[]\\", *s) != NULL)
			*at++ = '\\';
		*at++ = *s;
	}
	*at++ = '/';
	*at++ = '*';
	*at = '\0';
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc && err == 0; i++)
			if (is_profile(g.gl_pathv[i]))
				err = each(arg, g.gl_pathv[i]);
	globfree(&g);
	free(pattern);
	return err;
}

int sp_report_each(const char *path, int (*each)(void *arg, const char *path), void *arg,
		   char why[SP_REPORT_ERROR])
{
	struct stat st;

	if (stat(path, &st) != 0)
		return refuse(why, strerror(errno));
	(void)refuse(why, "out of memory");
	return S_ISDIR(st.st_mode) ? each_of_folder(path, each, arg) : each(arg, path);
}

/* Characters of a text of the list before the path. */
#define SP_FILE_IDENTITY 48

static int see(void *arg, const char *path)
{
	struct sp_file_list *l = arg;
	struct stat st;
	uint32_t id;
	char *text;
	int len, err;

	if (stat(path, &st) != 0)
		return 0;
	len = asprintf(&text, "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%s", (uint64_t)st.st_ino,
		       (uint64_t)st.st_size,
		       (uint64_t)st.st_mtim.tv_sec * SP_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec,
		       path);
	if (len < 0)
		return -1;
	err = sp_strtab_put(&l->text, text, (size_t)len, &id);
	free(text);
	l->found++;
	return err;
}

bool sp_file_list_look(struct sp_file_list *l, char *const *path)
{
	char why[SP_REPORT_ERROR];

	for (bool again = false;; again = true) {
		uint32_t found = l->found, known = l->n;

		if (l->text.n == 0 && sp_strtab_init(&l->text) != 0)
			return false;
		l->found = 0;
		for (char *const *p = path; *p != NULL; p++)
			(void)sp_report_each(*p, see, l, why);
		l->n = l->text.n - 1; /* the table begins with "" */
		l->changes += l->n != known;
		/* Of one that is gone nothing is found, and one that has changed is found as another one. */
		if (again || l->found - found == l->n - known)
			return !again;
		sp_strtab_fini(&l->text);
		l->found = l->n = 0;
		l->changes++;
	}
}

char *sp_file_list_path(const struct sp_file_list *l, uint32_t i)
{
	return l->text.bytes + l->text.offset[i + 1] + SP_FILE_IDENTITY;
}
