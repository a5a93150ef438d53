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
	cr_expect_str_eq(name, "spanprof-shop____1-4711-20231114T221320Z-000001.pb.gz");
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

Test(file_sink, does_not_write_through_a_link_planted_under_its_temporary_name, .timeout = 20)
{
	char link_path[400], victim[100];
	struct stat st;

	(void)snprintf(victim, sizeof(victim), "%s/victim", scratch);
	(void)snprintf(link_path, sizeof(link_path),
		       "%s/.spanprof-shop-4711-20231114T221320Z-000001.pb.gz.tmp", scratch);
	cr_assert_eq(symlink(victim, link_path), 0);

	cr_expect_eq(write_one(), 0);
	cr_expect_neq(stat(victim, &st), 0, "it followed the link");
	cr_expect_neq(lstat(link_path, &st), 0, "the link is left");
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
