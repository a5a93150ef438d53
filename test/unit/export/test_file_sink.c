/* SPDX-License-Identifier: Apache-2.0 */
/* Files appear complete or not at all, and failures are counted. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* Names in a folder, hidden ones too, sorted by nothing; returns how many. */
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
	cr_expect_eq(st.st_mode & 07137, 0, "mode %o", st.st_mode);
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

	/* As the exporter, which ignores that signal: the write fails instead. */
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

/* Containers that share a folder number their processes alike; an exec keeps the number. */
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

	/* Root may write anywhere but here. */
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
