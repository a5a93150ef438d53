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

/* Of a file, and unpacked. */
struct bounds {
	size_t file, plain;
};

/* The server takes profiles of a few MiB. */
static const struct bounds of_profiles = {(size_t)64 << 20, (size_t)128 << 20};
/* The collector begins another file at 100 MB. */
static const struct bounds of_spans = {(size_t)256 << 20, (size_t)512 << 20};

static int refuse(char why[SP_REPORT_ERROR], const char *text)
{
	(void)snprintf(why, SP_REPORT_ERROR, "%s", text);
	return -1;
}

int sp_report_open(int folder, const char *path, struct stat *st, char why[SP_REPORT_ERROR])
{
	int fd, err;

	/*
	 * The kind is checked before the file is opened: opening a device may have an effect, and
	 * anybody may have put one into the folder.
	 */
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
 * Makes room for more of the file, and for one byte more than is allowed: if that byte is read, the
 * file is too large.
 */
static int more_room(struct sp_bytes *b, size_t *cap, size_t most, char *why)
{
	if (*cap > most)
		return refuse(why, "it is too large");
	if (!sp_grow(&b->data, cap, *cap + 1, most + 1, 1))
		return refuse(why, SP_REPORT_NO_MEMORY);
	return 0;
}

static int read_all(const char *path, size_t most, struct sp_bytes *out, char *why)
{
	struct stat st;
	int fd = sp_report_open(AT_FDCWD, path, &st, why);
	size_t cap = 0;
	ssize_t n = 1;
	int err = fd >= 0 ? 0 : fd == -ENOENT ? 1 : -1;

	*out = (struct sp_bytes){0};
	while (err == 0 && n != 0) {
		if (out->len == cap) {
			err = more_room(out, &cap, most, why);
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

static int read_within(const char *path, const struct bounds *most, struct sp_bytes *out, char *why)
{
	struct sp_bytes plain = {0};
	int err = read_all(path, most->file, out, why);

	if (err != 0 || !sp_gzip_is(out->data, out->len))
		return err;
	err = sp_gzip_unpack(out->data, out->len, most->plain, &plain);
	free(out->data);
	*out = plain;
	if (err == 0)
		return 0;
	return refuse(why, err == -E2BIG     ? "it is too large unpacked"
			   : err == -ENOMEM  ? SP_REPORT_NO_MEMORY
			   : err == -EBADMSG ? "something else follows the compressed data"
					     : "the compressed data is damaged");
}

int sp_report_read(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR])
{
	return read_within(path, &of_profiles, out, why);
}

int sp_report_read_spans(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR])
{
	return read_within(path, &of_spans, out, why);
}

static bool ends(const char *path, const char *suffix)
{
	size_t len = strlen(path);
	size_t n = strlen(suffix);

	return len > n && strcmp(path + len - n, suffix) == 0;
}

static bool is_profile(const char *path)
{
	static const char *const suffix[] = {".pb.gz", ".pb", ".pprof", ".otlp.gz", ".otlp"};

	for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++)
		if (ends(path, suffix[i]))
			return true;
	return false;
}

bool sp_report_is_of_slow_roots(const char *path)
{
	return ends(path, ".otlp.jsonl");
}

bool sp_report_is_of_times(const char *path)
{
	return ends(path, "-slow.pprof.gz");
}

bool sp_report_is_of_spans(const char *path)
{
	struct stat st;

	return !is_profile(path) && !ends(path, "-slow.otlp.jsonl") &&
	       !sp_report_is_of_times(path) && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode));
}

static int each_of_folder(const char *path, bool (*is_wanted)(const char *path),
			  int (*each)(void *arg, const char *path), void *arg)
{
	char *pattern = malloc(strlen(path) * 2 + 3);
	char *at = pattern;
	glob_t g = {0};
	int err = 0;

	if (pattern == NULL)
		return -1;
	/* The folder's name is no pattern, so its special characters are escaped. */
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
			if (is_wanted(g.gl_pathv[i]))
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
	(void)refuse(why, SP_REPORT_NO_MEMORY);
	return S_ISDIR(st.st_mode) ? each_of_folder(path, is_profile, each, arg) : each(arg, path);
}

int sp_report_each_of_kind(const char *path, bool (*is_wanted)(const char *path),
			   int (*each)(void *arg, const char *path), void *arg,
			   char why[SP_REPORT_ERROR])
{
	struct stat st;

	if (stat(path, &st) != 0)
		return refuse(why, strerror(errno));
	(void)refuse(why, SP_REPORT_NO_MEMORY);
	if (S_ISDIR(st.st_mode))
		return each_of_folder(path, is_wanted, each, arg);
	return is_wanted(path) ? each(arg, path) : 0;
}

/* Characters before the path in a text of the list: inode, size and time of the last write. */
#define SP_FILE_NUMBER ((size_t)16)
#define SP_FILE_IDENTITY (3 * SP_FILE_NUMBER)

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
	/* The table begins with "", so its next id is the number of files with this one. */
	err = SP_GROW(l->seen, l->seen_cap, (size_t)l->text.n, UINT32_MAX)
		      ? sp_strtab_put(&l->text, text, (size_t)len, &id)
		      : -1;
	free(text);
	if (err != 0)
		return -1;
	/*
	 * The file was missing in the search before. A caller that reads only new files may not
	 * have read it.
	 */
	l->has_come_back |= id <= l->n && l->seen[id - 1] + 1 < l->look;
	l->seen[id - 1] = l->look;
	l->found++;
	return 0;
}

/* Forgets all files. */
static void forget(struct sp_file_list *l)
{
	sp_strtab_fini(&l->text);
	l->found = l->n = 0;
	l->changes++;
}

bool sp_file_list_refresh(struct sp_file_list *l, char *const *path)
{
	char why[SP_REPORT_ERROR];

	for (bool again = false;; again = true) {
		uint32_t found = l->found, known = l->n;

		if (l->text.n == 0 && sp_strtab_init(&l->text) != 0)
			return false;
		l->found = 0;
		l->look++;
		l->has_come_back = false;
		for (char *const *p = path; *p != NULL; p++)
			(void)sp_report_each(*p, see, l, why);
		l->n = l->text.n - 1;
		/*
		 * A new or changed file makes the list longer; a file that is gone makes `found`
		 * smaller.
		 */
		l->changes += l->n != known || l->found != found;
		if (again || (!l->has_come_back && l->found >= l->n - l->found))
			return !again;
		forget(l);
	}
}

char *sp_file_list_path(const struct sp_file_list *l, uint32_t i)
{
	return l->text.bytes + l->text.offset[i + 1] + SP_FILE_IDENTITY;
}

uint64_t sp_file_list_written_ns(const struct sp_file_list *l, uint32_t i)
{
	char number[SP_FILE_NUMBER + 1];

	(void)snprintf(number, sizeof(number), "%s", sp_file_list_path(l, i) - SP_FILE_NUMBER);
	return strtoull(number, NULL, 16);
}
