/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and reading files. Context: the report tool. Caller: main.c. */
#define _GNU_SOURCE
#include "export/report/file.h"

#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "export/gzip.h"

#define SP_REPORT_FILE_MAX ((size_t)64 << 20)
#define SP_REPORT_PLAIN_MAX ((size_t)256 << 20)

/* Makes room for more of the file. 0 or an errno. */
static int more_room(struct sp_bytes *b, size_t *cap)
{
	size_t bigger = *cap != 0 ? *cap * 2 : 65536;
	uint8_t *more;

	if (bigger > SP_REPORT_FILE_MAX)
		return EFBIG;
	more = realloc(b->data, bigger);
	if (more == NULL)
		return ENOMEM;
	b->data = more;
	*cap = bigger;
	return 0;
}

static int read_all(const char *path, struct sp_bytes *out, char *why)
{
	FILE *f = fopen(path, "rbe");
	size_t cap = 0;
	int err = f != NULL ? 0 : errno;

	*out = (struct sp_bytes){0};
	while (err == 0 && !feof(f)) {
		if (out->len == cap) {
			err = more_room(out, &cap);
			continue;
		}
		out->len += fread(out->data + out->len, 1, cap - out->len, f);
		err = ferror(f) ? errno : 0;
	}
	if (f != NULL)
		(void)fclose(f);
	if (err != 0)
		(void)snprintf(why, SP_REPORT_ERROR, "%s", strerror(err));
	return err != 0 ? -1 : 0;
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
	(void)snprintf(why, SP_REPORT_ERROR, "%s",
		       err == -E2BIG    ? "it is too large"
		       : err == -ENOMEM ? "out of memory"
					: "the compressed data is damaged");
	return -1;
}

static bool is_profile(const char *path)
{
	static const char *const suffix[] = {".pb.gz", ".pb", ".pprof"};
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
	/* The folder's own name is no pattern. */
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

	if (stat(path, &st) != 0) {
		(void)snprintf(why, SP_REPORT_ERROR, "%s", strerror(errno));
		return -1;
	}
	(void)snprintf(why, SP_REPORT_ERROR, "out of memory");
	return S_ISDIR(st.st_mode) ? each_of_folder(path, each, arg) : each(arg, path);
}
