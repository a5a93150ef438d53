/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the program, and whether it dies alone when memory runs out. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/limits.h"

static char root[64];

static void make_group(const char *folder)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s%s", root, folder);
	cr_assert_eq(mkdir(path, 0700), 0);
}

static void set_up(void)
{
	strcpy(root, "/tmp/spanprof-test-XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	make_group("/pod");
	make_group("/pod/box");
}

static void tear_down(void)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(limits, .init = set_up, .fini = tear_down, .timeout = 20);

static void set(const char *folder, const char *name, const char *value)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s%s/%s", root, folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	cr_assert_eq(write(fd, value, strlen(value)), (ssize_t)strlen(value));
	(void)close(fd);
}

static void set_group(const char *folder, const char *value)
{
	set(folder, "memory.oom.group", value);
}

Test(limits, in_a_group_of_its_own_kind_one_dies_alone)
{
	cr_expect(sp_limits_dies_alone("0::/pod/box\n", root));
	set_group("/pod/box", "0\n");
	cr_expect(sp_limits_dies_alone("0::/pod/box\n", root));
	cr_expect(sp_limits_dies_alone("0::/\n", root));
}

Test(limits, in_a_group_that_dies_together_or_below_one_nobody_dies_alone)
{
	set_group("/pod/box", "1\n");
	cr_expect_not(sp_limits_dies_alone("0::/pod/box\n", root));
	set_group("/pod/box", "0\n");
	set_group("/pod", "1\n");
	cr_expect_not(sp_limits_dies_alone("0::/pod/box\n", root));
	set_group("/pod", "0\n");
	set_group("", "1\n");
	cr_expect_not(sp_limits_dies_alone("0::/pod/box\n", root));
}

/* systemd stops the rest of a service, unless its OOMPolicy is another one. */
Test(limits, in_a_service_of_systemd_nobody_dies_alone)
{
	make_group("/x.service");
	make_group("/x.service/box");
	make_group("/x-1.scope");
	make_group("/xservice");
	cr_expect_not(sp_limits_dies_alone("0::/x.service\n", root));
	cr_expect_not(sp_limits_dies_alone("0::/x.service/box\n", root));
	cr_expect(sp_limits_dies_alone("0::/x-1.scope\n", root));
	cr_expect(sp_limits_dies_alone("0::/xservice\n", root));
}

Test(limits, where_it_cannot_be_told_nobody_counts_as_alone)
{
	cr_expect_not(sp_limits_dies_alone("", root));
	cr_expect_not(sp_limits_dies_alone("4:memory:/pod/box\n", root));
	cr_expect_not(sp_limits_dies_alone("0::/elsewhere\n", root));
	cr_expect_not(sp_limits_dies_alone("0::/../..\n", root));
	set_group("/pod", "?\n");
	cr_expect_not(sp_limits_dies_alone("0::/pod/box\n", root));
}

static uint64_t data_mib(const char *cgroups)
{
	return sp_limits_data(cgroups, root) >> 20;
}

/* Without a limit of the container the exporter may have half a GiB; it needs 96 MiB. */
Test(limits, of_a_container_are_kept_and_those_above_it)
{
	cr_expect_eq(data_mib("0::/pod/box\n"), 512);
	set("/pod/box", "memory.max", "max\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 512);
	set("/pod/box", "memory.max", "4294967296\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 512);
	set("/pod/box", "memory.max", "1073741824\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 256);
	set("/pod", "memory.max", "536870912\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 128);
	set("/pod/box", "memory.max", "67108864\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 96);
	cr_expect_eq(data_mib("0::/pod\n"), 128);
	cr_expect_eq(data_mib("0::/\n"), 512);
}

Test(limits, of_a_container_that_sees_other_paths_are_those_of_the_root)
{
	set("", "memory.max", "536870912\n");
	cr_expect_eq(data_mib("0::/\n"), 128);
	cr_expect_eq(data_mib("0::/elsewhere/box\n"), 128);
}

Test(limits, of_the_first_version_of_cgroups_are_kept)
{
	make_group("/memory");
	make_group("/memory/box");
	set("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
	cr_expect_eq(data_mib("9:cpu:/\n4:memory:/box\n0::/\n"), 512);
	set("/memory/box", "memory.limit_in_bytes", "536870912\n");
	cr_expect_eq(data_mib("9:cpu:/\n4:hugetlb,memory:/box\n0::/\n"), 128);
	cr_expect_eq(data_mib("9:name=x:/memory\n4:memory:/\n0::/pod"), 512);
}

Test(limits, that_make_no_sense_are_none)
{
	static const char *const text[] = {"", "\n", "x", "-1\n",
					   "99999999999999999999999999999999999999999999999999\n"};
	static const char *const line[] = {
		"",      "\n",    "0",        "0:",        ":::",
		"0::\n", "0::::", "4:memory", "4:memory:", "0::/../pod/box\n"};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		set("/pod/box", "memory.max", text[i]);
		cr_expect_eq(data_mib("0::/pod/box\n"), 512, "%s", text[i]);
	}
	set("/pod/box", "memory.max", "0\n");
	cr_expect_eq(data_mib("0::/pod/box\n"), 96);
	for (size_t i = 0; i < sizeof(line) / sizeof(line[0]); i++)
		cr_expect_eq(data_mib(line[i]), 512, "%s", line[i]);
}

/* A limit of 1 also stops a pipe, and cannot be set if the host's hard limit is 0. */
Test(limits, leave_no_memory_in_a_core_that_they_cannot_stop)
{
	const struct rlimit none = {0, 0};
	pid_t pid;
	int status = 0;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	pid = fork();
	if (pid == 0) {
		char text[16] = "";
		int fd;

		if (setrlimit(RLIMIT_CORE, &none) != 0 || setresuid(65534, 65534, 65534) != 0 ||
		    prctl(PR_SET_DUMPABLE, 1) != 0)
			_exit(1);
		sp_limits_detach();
		fd = open("/proc/self/coredump_filter", O_RDONLY);
		_exit(read(fd, text, 9) == 9 && strcmp(text, "00000000\n") == 0 ? 7 : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(WEXITSTATUS(status), 7);
}

/* In a child, because the limits cannot be raised again. */
Test(limits, hold)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		const size_t much = (size_t)600 << 20;
		struct rlimit core;
		void *p;

		sp_limits_detach();
#ifndef __SANITIZE_ADDRESS__
		sp_limits_memory();
		p = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p != MAP_FAILED)
			_exit(1);
#endif
		/* memory that is only read does not count */
		p = mmap(NULL, much, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			_exit(2);
		(void)raise(SIGTERM);
		(void)raise(SIGHUP);
		(void)raise(SIGINT);
		(void)raise(SIGPIPE);
		if (getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_cur != 1 || core.rlim_max != 1)
			_exit(3);
		_exit(7);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 7);
}
