/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes profiles as files, for hosts without a server and for tests. A file is written under
 * another name and renamed, so a reader never sees half of one, and never over another file. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/file_sink.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "export/util/clock.h"
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
	int error;         /* of the last profile that was not written, until a later one is */
	int64_t failed_ns; /* when that profile began */
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

static void make_name(const struct sp_file_sink *f, const struct sp_file_sink_item *item, char *out,
		      size_t cap)
{
	time_t t = (time_t)(item->time_ns / (int64_t)SP_NS_PER_S);
	char stamp[32] = "0";
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL)
		(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	(void)snprintf(out, cap, "spanprof-%s-%" PRIu32 "-%s-%08" PRIx32 "-%06" PRIu32 "%s.%s",
		       f->service, f->ops->pid, stamp, f->token, f->seq, item->suffix,
		       f->ops->config->output_format == SP_FORMAT_OTLP ? "otlp.gz" : "pb.gz");
}

/*
 * A process is not the only one with its number and its second: containers that share a folder number
 * their processes alike, and a program that executes itself keeps its number. So a random number tells
 * them apart, and a name that is in use all the same is left alone.
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
		err = sp_user_file_create(folder, name, temp, profile->data, profile->len, 0640);
	}
	return err;
}

int sp_file_sink_write(struct sp_file_sink *f, const struct sp_bytes *profile,
		       const struct sp_file_sink_item *item, uint64_t now_ns)
{
	char name[NAME_MAX - 8];
	bool had = sp_turn_set(false);
	int dirfd = sp_user_file_open_folder(f->dir, 0755);
	int err = dirfd < 0 ? dirfd : 0;

	f->seq++;
	if (err == 0) {
		err = write_new(f, dirfd, profile, item, name, sizeof(name));
		close(dirfd);
	}
	(void)sp_turn_set(had);
	if (err == 0) {
		f->ops->counter_add(f->ops->arg, SP_COUNT_FILES_WRITTEN, 1);
		/* Of an interval's profiles a small one may have found room where another one did not. */
		if (item->time_ns != f->failed_ns)
			f->error = 0;
		if (f->ops->config->log_level >= SP_LOG_DEBUG)
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
