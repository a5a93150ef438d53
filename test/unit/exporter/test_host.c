/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is believed to be the host, and what the exporter sees of its life. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_double.h"
#include "test/unit/scratch.h"

static struct sp_view view;
static struct sp_host seen;

TestSuite(host, .init = host_make, .timeout = 20);

Test(host, is_who_has_the_region_where_it_says)
{
	host_open(&view, &seen);

	cr_expect_eq(seen.pid, (uint32_t)getpid());
	cr_expect_geq(seen.maps, 0);
	cr_expect(sp_host_lives(&seen));
	cr_expect_eq(sp_host_has_image(&seen), 1);
}

/* The samples in the region can be sent; nothing else is known of the process. */
static void expect_nothing(void)
{
	char text[64];

	cr_assert_not(sp_host_lives(&seen));
	cr_assert_lt(sp_host_read(&seen, "stat", text, sizeof(text)), 0);
	cr_assert_eq(seen.pidfd, -1);
	cr_assert_eq(seen.maps, -1);
}

Test(host, is_nobody_who_has_it_elsewhere_or_not_at_all)
{
	const struct sp_host_descriptors joins = {.folder = -1, .maps = -1, .joined = true};

	host.region->mapped_at -= 1 << 24;
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_expect_eq(sp_host_open(&seen, &view, &joins), -EPERM);
	/* The process has executed another program since it started us. */
	cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
	expect_nothing();
	sp_view_close(&view);

	host.region->mapped_at += 1 << 24;
	host.region->pid = (uint32_t)getppid();
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_expect_eq(sp_host_open(&seen, &view, &joins), -EPERM);
	cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
	expect_nothing();
}

/* Opens a file with the longest possible path: few mappings of it make 64 MiB of text. */
static int open_long_path(void)
{
	char name[251];
	int fd;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	scratch_make();
	cr_assert_eq(chdir(scratch), 0);
	for (unsigned i = 0; i < 15; i++) {
		cr_assert_eq(mkdir(name, 0700), 0);
		cr_assert_eq(chdir(name), 0);
	}
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	cr_assert_eq(chdir("/"), 0);
	return fd;
}

Test(host, is_who_it_was_with_more_mappings_than_are_read, .fini = scratch_remove, .timeout = 240)
{
	int fd = open_long_path();
	char *below = NULL;

	for (unsigned i = 0; i < 16500; i++) {
		below = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		cr_assert_neq((void *)below, MAP_FAILED);
	}
	cr_assert_lt((uintptr_t)below, (uintptr_t)host.region, "they are read after the region");
	host_open(&view, &seen);

	cr_expect_neq(sp_host_has_image(&seen), 0, "it was taken for another program");
	cr_expect(sp_host_lives(&seen));
}

static void have_none(void)
{
	(void)munmap(host.region, REGION_BYTES);
	(void)execlp("sleep", "sleep", "60", (char *)NULL);
	_exit(1);
}

static void wait_for_exec(void)
{
	/* The map shows the region until the process has executed another program. */
	for (unsigned i = 0; i < 10000 && sp_host_has_image(&seen) != 0; i++)
		(void)poll(NULL, 0, 1);
}

static int go[2];

static void exec_when_told(void)
{
	char byte;

	(void)!read(go[0], &byte, 1);
	have_none();
}

Test(host, that_executes_another_program_has_another_image)
{
	cr_assert_eq(pipe(go), 0);
	/*
	 * A process younger than the exporter could not be the host, so the exporter is a child
	 * here.
	 */
	host_start(exec_when_told);
	if (fork() == 0) {
		cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
		cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
		cr_assert_eq(sp_host_has_image(&seen), 1);
		cr_assert_eq(write(go[1], "x", 1), 1);
		wait_for_exec();
		cr_assert_eq(sp_host_has_image(&seen), 0);
		cr_assert(sp_host_lives(&seen));
		cr_assert_neq(sp_host_cpu_ns(&seen), 0);
		/* by the map from the beginning alone, as if the new one may not be read */
		(void)close(seen.proc);
		seen.proc = -1;
		cr_assert_eq(sp_host_has_image(&seen), 0);
		seen.maps = -1;
		cr_assert_eq(sp_host_has_image(&seen), -1);
		sp_host_close(&seen);
		/* and without any map, if we come late */
		cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
		expect_nothing();
		_exit(7);
	}
	int status;

	cr_assert_gt(wait(&status), 0);
	cr_expect_eq(WEXITSTATUS(status), 7);
	host_kill();
}

Test(host, that_is_dead_shows_nothing_and_cannot_join)
{
	struct sp_host_descriptors joins = {.region = -1, .folder = -1, .maps = -1, .joined = true};

	host_start(NULL);
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	host_kill();

	cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
	expect_nothing();
	cr_expect_eq(sp_host_open(&seen, &view, &joins), -ESRCH);
}

static void *sleep_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
	return NULL;
}

static void end_first_thread(void)
{
	pthread_t thread;

	(void)pthread_create(&thread, NULL, sleep_for_ever, NULL);
	(void)syscall(SYS_exit, 0);
}

static bool leader_is_gone(void)
{
	char text[1024];

	for (unsigned i = 0; i < 10000; i++) {
		if (sp_host_read(&seen, "stat", text, sizeof(text)) > 0 &&
		    strstr(text, ") Z ") != NULL)
			return true;
		(void)poll(NULL, 0, 1);
	}
	return false;
}

/* With a pidfd, and without one, as on old kernels. */
Test(host, lives_as_long_as_any_of_its_threads)
{
	host_start(end_first_thread);
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	if (fork() == 0) {
		struct sp_host old;

		cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
		cr_assert(leader_is_gone());
		cr_assert_eq(sp_host_has_image(&seen), 1);
		/* and an exporter that starts only now finds it, too */
		sp_host_close(&seen);
		cr_assert_eq(sp_host_open(&seen, &view, &host_nothing), 0);
		cr_assert_geq(seen.maps, 0);
		old = seen;
		old.pidfd = -1;
		cr_assert(sp_host_lives(&seen));
		cr_assert(sp_host_lives(&old));
		cr_assert_eq(kill(host.pid, SIGKILL), 0);
		while (sp_host_lives(&seen))
			(void)poll(NULL, 0, 1);
		while (sp_host_lives(&old))
			(void)poll(NULL, 0, 1);
		_exit(7);
	}
	int status = 0;

	while (wait(&status) > 0 && WIFSIGNALED(status))
		;
	cr_expect_eq(WEXITSTATUS(status), 7);
}

/* A host has changed its user, and processes of that user may not read it. */
Test(host, may_be_known_by_a_map_that_was_left_to_us)
{
	struct sp_host_descriptors fds = host_nothing;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)getppid());
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	fds.maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(sp_host_open(&seen, &view, &fds), 0);
	cr_expect_eq(seen.maps, fds.maps);
	sp_host_close(&seen);
	/* other files of /proc are no memory map, and neither is that of another process */
	fds.maps = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(sp_host_open(&seen, &view, &fds), 0);
	expect_nothing();
	fds.maps = open("/proc/self", O_PATH | O_DIRECTORY);
	cr_assert_eq(sp_host_open(&seen, &view, &fds), 0);
	cr_expect_neq(seen.maps, fds.maps);
}

/* The host would be served with the rights of the other process. */
Test(host, is_not_believed_about_its_folder_when_it_has_joined)
{
	char path[32];
	char stat[256];
	struct sp_host_descriptors fds = {.region = -1, .joined = true};

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)getppid());
	fds.folder = open(path, O_PATH | O_DIRECTORY);
	fds.maps = open("/proc/self/maps", O_RDONLY);
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_assert_eq(sp_host_open(&seen, &view, &fds), 0);

	cr_assert_gt(sp_host_read(&seen, "stat", stat, sizeof(stat)), 0);
	cr_expect_eq(strtol(stat, NULL, 10), getpid());
}

Test(host, that_is_barred_shows_nothing)
{
	char text[64];

	host_open(&view, &seen);
	cr_assert_gt(sp_host_read(&seen, "stat", text, sizeof(text)), 0);
	sp_host_bar(&seen);
	cr_expect_lt(sp_host_read(&seen, "stat", text, sizeof(text)), 0);
	cr_expect_leq(pread(seen.maps, text, sizeof(text), 0), 0);
	cr_expect_neq(sp_host_has_image(&seen), 1);
}
