/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes profiles as files, for hosts without a server and for tests. A file is written under a
 * temporary name and then renamed, so a reader never sees half a file. It never replaces another
 * file. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/file_sink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "export/util/turn.h"
#include "export/util/user_file.h"

#define SP_FILE_NAMES_TRIED 8U

struct sp_file_sink {
	const struct sp_core_ops *ops;
	const char *dir;
	char service[64]; /* safe in a file name */
	uint64_t random;
	uint32_t token; /* in each name */
	uint32_t seq;
	int error; /* of the last profile that was not written; 0 after a success in a later interval */
	int64_t failed_ns; /* when that profile began */
	bool has_deleted;
	struct sp_export_log_site said;
};

static void safe_name(char *out, size_t cap, const char *s)
{
	size_t n = 0;

	for (; s != NULL && *s != '\0' && n < cap - 1; s++) {
		char c = *s;
		bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';

		out[n++] = safe ? c : '_';
	}
	if (n == 0)
		out[n++] = '_';
	out[n] = '\0';
}

struct sp_file_sink *sp_file_sink_new(const struct sp_core_ops *ops)
{
	struct sp_file_sink *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->ops = ops;
	f->dir = ops->config->output_dir;
	f->random = sp_clock_seed(ops->pid);
	f->token = (uint32_t)sp_random_next(&f->random);
	safe_name(f->service, sizeof(f->service), ops->config->service_name);
	return f;
}

void sp_file_sink_free(struct sp_file_sink *f)
{
	free(f);
}

/* A file with such a suffix is not a profile. */
static bool has_own_ending(const struct sp_file_sink_item *item)
{
	return strchr(item->suffix, '.') != NULL;
}

static void make_name(const struct sp_file_sink *f, const struct sp_file_sink_item *item, char *out,
		      size_t cap)
{
	const char *ending =
		f->ops->config->output_format == SP_FORMAT_OTLP ? ".otlp.gz" : ".pb.gz";
	time_t t = (time_t)(item->time_ns / (int64_t)SP_NS_PER_S);
	char stamp[32] = "0";
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	(void)snprintf(out, cap, "spanprof-%s-%" PRIu32 "-%s-%08" PRIx32 "-%06" PRIu32 "%s%s",
		       f->service, f->ops->pid, stamp, f->token, f->seq, item->suffix,
		       has_own_ending(item) ? "" : ending);
}

/*
 * Writes the file under a name that no file has. Pid and second do not make a name unique:
 * processes of containers that share a folder have equal numbers, and a program that executes
 * itself keeps its number. So the name has a random number. If a file has that name all the same,
 * another number is tried.
 */
static int write_new(struct sp_file_sink *f, int folder, const struct sp_bytes *profile,
		     const struct sp_file_sink_item *item, char *name, size_t cap)
{
	char temp[NAME_MAX];
	int err = -EEXIST;

	for (unsigned i = 0; i < SP_FILE_NAMES_TRIED && err == -EEXIST; i++) {
		if (i != 0)
			f->token = (uint32_t)sp_random_next(&f->random);
		make_name(f, item, name, cap);
		(void)snprintf(temp, sizeof(temp), ".%s.tmp", name);
		err = sp_user_file_create(folder, name, temp, profile->data, profile->len, 0600);
	}
	return err;
}

/* A profile in the folder. */
struct old_file {
	char *name;
	int64_t mtime_ns;
	uint64_t bytes;
};

struct old_files {
	struct old_file *file;
	size_t n, cap;
	uint64_t bytes;
};

/*
 * At most this many names of the folder are read. In a larger folder the oldest files among these
 * are deleted.
 */
#define SP_FILES_LOOKED_AT 200000U

/*
 * Whether this is a regular file that we may have written, for any service: it has our user and a
 * name like ours.
 */
static bool is_profile_of_ours(int folder, const char *name, struct stat *st)
{
	static const char *const endings[] = {".pb.gz", ".otlp.gz", SP_FILE_SINK_SLOW,
					      SP_FILE_SINK_TIMES};
	size_t len = strlen(name);
	bool has_ending = false;

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		has_ending = has_ending || (len > n && strcmp(name + len - n, endings[i]) == 0);
	}
	return strncmp(name, "spanprof-", 9) == 0 && has_ending &&
	       fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode) &&
	       st->st_uid == geteuid();
}

static void note_file(struct old_files *all, const char *name, const struct stat *st)
{
	char *copy = strdup(name);

	if (copy == NULL || !SP_GROW(all->file, all->cap, all->n + 1, SP_FILES_LOOKED_AT)) {
		free(copy);
		return;
	}
	all->file[all->n++] = (struct old_file){
		copy, st->st_mtim.tv_sec * (int64_t)SP_NS_PER_S + st->st_mtim.tv_nsec,
		(uint64_t)st->st_size};
	all->bytes += (uint64_t)st->st_size;
}

static void list_files(int folder, struct old_files *all)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;
	struct stat st;

	if (d == NULL) {
		if (copy >= 0)
			(void)close(copy);
		return;
	}
	for (unsigned i = 0; i < SP_FILES_LOOKED_AT && (entry = readdir(d)) != NULL; i++)
		if (is_profile_of_ours(folder, entry->d_name, &st))
			note_file(all, entry->d_name, &st);
	(void)closedir(d);
}

static int compare_age(const void *a, const void *b)
{
	const struct old_file *x = a;
	const struct old_file *y = b;

	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns < y->mtime_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

/*
 * Deletes the oldest profiles until the rest is within the bounds, but never the newest one.
 * Returns how many.
 */
static uint64_t keep_bounds(int folder, uint64_t max_files, uint64_t max_bytes)
{
	struct old_files all = {.n = 0};
	uint64_t deleted = 0;
	uint64_t left;

	list_files(folder, &all);
	left = all.n;
	if (all.n != 0)
		qsort(all.file, all.n, sizeof(*all.file), compare_age);
	for (size_t i = 0; i + 1 < all.n && (left > max_files || all.bytes > max_bytes); i++) {
		/* Another exporter may have deleted it. */
		deleted += unlinkat(folder, all.file[i].name, 0) == 0;
		all.bytes -= all.file[i].bytes;
		left--;
	}
	for (size_t i = 0; i < all.n; i++)
		free(all.file[i].name);
	free(all.file);
	return deleted;
}

static uint64_t delete_old(const struct sp_config *c, int folder)
{
	if (c->output_max_files == 0 && c->output_max_mib == 0)
		return 0;
	return keep_bounds(folder, c->output_max_files != 0 ? c->output_max_files : UINT64_MAX,
			   c->output_max_mib != 0 ? (uint64_t)c->output_max_mib << 20 : UINT64_MAX);
}

static void tell_deleted(struct sp_file_sink *f, uint64_t n)
{
	if (n == 0)
		return;
	f->ops->counter_add(f->ops->arg, SP_COUNT_FILES_DELETED, n);
	if (!f->has_deleted)
		sp_export_log(f->ops, SP_LOG_INFO,
			      "%s has as many profiles as SPANPROF_OUTPUT_MAX_FILES or "
			      "SPANPROF_OUTPUT_MAX_MIB allows: the oldest are deleted",
			      f->dir);
	f->has_deleted = true;
}

int sp_file_sink_write(struct sp_file_sink *f, const struct sp_bytes *profile,
		       const struct sp_file_sink_item *item, uint64_t now_ns)
{
	char name[NAME_MAX - 8];
	bool had = sp_turn_set(false);
	int dirfd = sp_user_file_open_folder(f->dir);
	int err = dirfd < 0 ? dirfd : 0;
	uint64_t deleted = 0;

	f->seq++;
	if (err == 0) {
		err = write_new(f, dirfd, profile, item, name, sizeof(name));
		if (err == 0)
			deleted = delete_old(f->ops->config, dirfd);
		close(dirfd);
	}
	(void)sp_turn_set(had);
	tell_deleted(f, deleted);
	if (err == 0) {
		f->ops->counter_add(f->ops->arg, SP_COUNT_FILES_WRITTEN, 1);
		/*
		 * A success clears the error only in a later interval: in the same one, a small
		 * profile may have fit where a large one did not.
		 */
		if (item->time_ns != f->failed_ns)
			f->error = 0;
		if (f->ops->config->log_level < SP_LOG_DEBUG)
			return 0;
		if (has_own_ending(item))
			sp_export_log(f->ops, SP_LOG_DEBUG, "wrote %s/%s: %zu bytes", f->dir, name,
				      profile->len);
		else
			sp_export_log(f->ops, SP_LOG_DEBUG,
				      "wrote %s/%s: %zu bytes, %" PRIu64 " samples", f->dir, name,
				      profile->len, item->samples);
		return 0;
	}
	f->error = err;
	f->failed_ns = item->time_ns;
	f->ops->counter_add(f->ops->arg, SP_COUNT_FILE_FAILED, 1);
	sp_export_log_limited(f->ops, &f->said, now_ns, "cannot write a profile into %s: %s",
			      f->dir, sp_user_file_error(err));
	return err;
}

int sp_file_sink_error(const struct sp_file_sink *f)
{
	return f->error;
}
