/* SPDX-License-Identifier: Apache-2.0 */
/* A file appears completely or not at all, and failures are counted. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/push/file_sink.h"
#include "test/unit/scratch.h"

static uint8_t data[8192];
static const struct sp_bytes bytes = {data, sizeof(data)};
/* 2023-11-14 22:13:20 UTC */
static const int64_t when = 1700000000999999999;

static void set_up(void)
{
	core_reset();
	scratch_make();
	core.config.output_dir = scratch;
}

TestSuite(file_sink, .init = set_up, .fini = scratch_remove);

/* The names in a folder, also hidden ones, unsorted; returns their number. */
static unsigned list(const char *path, char *last)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	cr_assert_not_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		strcpy(last, e->d_name);
		n++;
	}
	closedir(d);
	return n;
}

static int write_one(void)
{
	struct sp_file_sink *f = sp_file_sink_new(&core.ops);
	int err = sp_file_sink_write(f, &bytes, &(struct sp_file_sink_item){"", when, 1}, 1);

	sp_file_sink_free(f);
	return err;
}

Test(file_sink, names_the_file_after_service_pid_and_time, .timeout = 20)
{
	char name[256], path[400];
	struct stat st;

	core.config.service_name = "shop/\xc3\xa4 1";
	cr_assert_eq(write_one(), 0);

	cr_assert_eq(list(scratch, name), 1);
	cr_assert_eq(strlen(name),
		     strlen("spanprof-shop____1-4711-20231114T221320Z-01234567-000001.pb.gz"));
	cr_expect_eq(strncmp(name, "spanprof-shop____1-4711-20231114T221320Z-", 41), 0, "%s", name);
	cr_expect_eq(strspn(name + 41, "0123456789abcdef"), 8, "%s", name);
	cr_expect_str_eq(name + 49, "-000001.pb.gz");
	(void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_size, sizeof(data));
	cr_expect_eq(st.st_mode & 07777, 0600, "mode %o", st.st_mode);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 0);
}

Test(file_sink, never_writes_over_an_earlier_file, .timeout = 20)
{
	struct sp_file_sink *f = sp_file_sink_new(&core.ops);
	char name[256];

	for (unsigned i = 1; i <= 3; i++) {
		cr_assert_eq(
			sp_file_sink_write(f, &bytes, &(struct sp_file_sink_item){"", when, 1}, 1),
			0);
		cr_expect_eq(list(scratch, name), i);
	}
	sp_file_sink_free(f);
}

/* A file that another service of the user wrote that long ago. */
static void put_old(const char *name, long age_s, size_t bytes_)
{
	const char *path = scratch_write(name, data, bytes_);
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {time(NULL) - age_s, 0}};

	cr_assert_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(in_scratch(name), &st) == 0;
}

Test(file_sink, deletes_the_oldest_where_there_are_more_than_it_may_have, .timeout = 20)
{
	put_old("spanprof-a-1-20200101T000000Z-01234567-000001.pb.gz", 3000, 10);
	put_old("spanprof-b-1-20200101T000000Z-01234567-000001.otlp.gz", 5000, 10);
	put_old("spanprof-c-1-20200101T000000Z-01234567-000001.pb.gz", 4000, 10);
	/* Files of other programs stay. */
	put_old("notes.pb.gz", 9000, 10);
	put_old("spanprof-a.txt", 9000, 10);
	cr_assert_eq(symlink("notes.pb.gz", in_scratch("spanprof-link-000001.pb.gz")), 0);
	cr_assert_eq(mkdir(in_scratch("spanprof-folder-000001.pb.gz"), 0700), 0);
	put_old("spanprof-other-000001.pb.gz", 9000, 10);
	if (geteuid() == 0)
		cr_assert_eq(chown(in_scratch("spanprof-other-000001.pb.gz"), 65534, 65534), 0);
	else
		cr_assert_eq(unlink(in_scratch("spanprof-other-000001.pb.gz")), 0);
	core.config.output_max_files = 2;

	cr_assert_eq(write_one(), 0);

	cr_expect_not(is_there("spanprof-b-1-20200101T000000Z-01234567-000001.otlp.gz"));
	cr_expect_not(is_there("spanprof-c-1-20200101T000000Z-01234567-000001.pb.gz"));
	cr_expect(is_there("spanprof-a-1-20200101T000000Z-01234567-000001.pb.gz"));
	cr_expect(is_there("notes.pb.gz"));
	cr_expect(is_there("spanprof-a.txt"));
	cr_expect(is_there("spanprof-link-000001.pb.gz"));
	cr_expect(is_there("spanprof-folder-000001.pb.gz"));
	cr_expect_eq(is_there("spanprof-other-000001.pb.gz"), geteuid() == 0);
	cr_expect_eq(core.counter[SP_COUNT_FILES_DELETED], 2);
	cr_expect(core_logged("the oldest are deleted"));
}

/* Files of another kind are named alike, and obey the same bounds. */
Test(file_sink, takes_an_ending_and_counts_such_files_as_profiles, .timeout = 20)
{
	struct sp_file_sink *f = sp_file_sink_new(&core.ops);
	const struct sp_file_sink_item item = {"-slow" SP_FILE_SINK_SLOW, when, 0};
	struct stat st;
	char path[400];
	char name[256];

	core.config.output_format = SP_FORMAT_OTLP;
	put_old("spanprof-a-1-20200101T000000Z-01234567-000001-slow.otlp.jsonl", 3000, 10);
	put_old("notes.otlp.jsonl", 9000, 10);
	cr_assert_eq(sp_file_sink_write(f, &bytes, &item, 1), 0);
	cr_expect_eq(core.counter[SP_COUNT_FILES_DELETED], 0);
	core.config.output_max_files = 1;
	cr_assert_eq(sp_file_sink_write(f, &bytes, &item, 1), 0);
	sp_file_sink_free(f);

	cr_expect_eq(core.counter[SP_COUNT_FILES_DELETED], 2);
	cr_expect(is_there("notes.otlp.jsonl"));
	cr_assert_eq(unlink(in_scratch("notes.otlp.jsonl")), 0);
	cr_assert_eq(list(scratch, name), 1);
	cr_expect_eq(strncmp(name, "spanprof-shop-4711-20231114T221320Z-", 36), 0, "%s", name);
	cr_expect_str_eq(name + 44, "-000002-slow.otlp.jsonl");
	(void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600);
}

Test(file_sink, keeps_a_bound_of_bytes_and_the_newest_in_any_case, .timeout = 20)
{
	char name[256];

	for (int i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof(name), "spanprof-a-1-2020-%d.pb.gz", i);
		put_old(name, 100 - i, sizeof(data));
		cr_assert_eq(truncate(in_scratch(name), 600 << 10), 0);
	}
	core.config.output_max_mib = 1;
	cr_assert_eq(write_one(), 0);
	/* Three files of 600 KiB and one of 8 KiB. */
	cr_expect_eq(list(scratch, name), 2);
	cr_expect_eq(core.counter[SP_COUNT_FILES_DELETED], 2);
	core.config.output_max_files = 1;
	cr_assert_eq(write_one(), 0);
	cr_expect_eq(list(scratch, name), 1);
	cr_assert_eq(truncate(in_scratch(name), 2 << 20), 0);
	core.config.output_max_files = 0;
	cr_assert_eq(write_one(), 0);
	cr_expect_eq(list(scratch, name), 1, "the newest stays");
}

Test(file_sink, deletes_nothing_unasked, .timeout = 20)
{
	char name[256];

	put_old("spanprof-a-1-2020-1.pb.gz", 100000, 10);
	cr_assert_eq(write_one(), 0);
	cr_expect_eq(list(scratch, name), 2);
	cr_expect_eq(core.counter[SP_COUNT_FILES_DELETED], 0);
}

Test(file_sink, makes_the_folder_one_level_deep, .timeout = 20)
{
	char deep[100], deeper[128], name[256];

	(void)snprintf(deep, sizeof(deep), "%s/new", scratch);
	core.config.output_dir = deep;
	cr_expect_eq(write_one(), 0);
	cr_expect_eq(list(deep, name), 1);
	(void)snprintf(deeper, sizeof(deeper), "%s/a/b", scratch);
	core.config.output_dir = deeper;

	cr_expect_eq(write_one(), -ENOENT);
	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 1);
}

Test(file_sink, leaves_nothing_behind_when_the_disk_is_full, .timeout = 20)
{
	const struct rlimit small = {4096, 4096};
	char name[256];

	/* The exporter ignores that signal, so the write fails instead. */
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);

	cr_expect_eq(write_one(), -EFBIG);
	cr_expect_eq(list(scratch, name), 0, "%s was left", name);
	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 1);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 0);
	cr_expect(core_logged("cannot write a profile into /tmp/spanprof-test-"), "%s", core.log);
}

Test(file_sink, knows_what_became_of_the_last_intervals_profiles, .timeout = 20)
{
	const struct sp_file_sink_item first = {"", when, 1}, of_waits = {"-wall", when, 1};
	const struct sp_file_sink_item next = {"", when + 1000, 1};
	struct sp_file_sink *f;
	char parent[100], dir[128];

	(void)snprintf(parent, sizeof(parent), "%s/a", scratch);
	(void)snprintf(dir, sizeof(dir), "%s/b", parent);
	core.config.output_dir = dir;
	f = sp_file_sink_new(&core.ops);
	cr_expect_eq(sp_file_sink_error(f), 0);
	cr_expect_eq(sp_file_sink_write(f, &bytes, &first, 1), -ENOENT);
	cr_expect_eq(sp_file_sink_error(f), -ENOENT);
	cr_assert_eq(mkdir(parent, 0700), 0);
	cr_expect_eq(sp_file_sink_write(f, &bytes, &of_waits, 2), 0);
	cr_expect_eq(sp_file_sink_error(f), -ENOENT, "one of that interval is lost");
	cr_expect_eq(sp_file_sink_write(f, &bytes, &next, 3), 0);
	cr_expect_eq(sp_file_sink_error(f), 0);
	sp_file_sink_free(f);
}

/* Containers that share a folder give their processes the same ids; an exec keeps the id. */
Test(file_sink, keeps_the_files_of_processes_with_the_same_number_and_second, .timeout = 20)
{
	enum { PROCESSES = 8, EACH = 25 };
	char name[256];

	for (unsigned i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (pid == 0) {
			int err = 0;

			for (unsigned k = 0; k < EACH && err == 0; k++)
				err = write_one();
			_exit(err != 0);
		}
	}
	for (unsigned i = 0; i < PROCESSES; i++) {
		int status;

		cr_assert_gt(wait(&status), 0);
		cr_expect_eq(status, 0);
	}
	cr_expect_eq(list(scratch, name), PROCESSES * EACH);
}

Test(file_sink, fails_where_it_may_not_write_and_says_so_once, .timeout = 20)
{
	struct sp_file_sink *f;

	/* Root may write anywhere else. */
	core.config.output_dir = "/proc/self";
	f = sp_file_sink_new(&core.ops);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_lt(sp_file_sink_write(f, &bytes, &(struct sp_file_sink_item){"", when, 1},
						1000 + i),
			     0);
	sp_file_sink_free(f);

	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 3);
	cr_expect(core_logged("cannot write a profile into /proc/self: "));
	cr_expect_null(strstr(strstr(core.log, "cannot") + 1, "cannot"), "%s", core.log);
}

Test(file_sink, refuses_a_folder_that_is_a_file, .timeout = 20)
{
	core.config.output_dir = "/dev/full";

	cr_expect_eq(write_one(), -ENOTDIR);
}
