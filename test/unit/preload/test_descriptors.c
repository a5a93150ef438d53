/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread's own descriptors. A thread of the test stands for it, the test for the host. */
#include "preload/descriptors.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/unit/emulated.h"

#define CLOSE_RANGE_NR 436L

static pthread_barrier_t turn;
static int opened;     /* by the thread, in the end */
static bool hosts_own; /* the thread's stderr was the host's, to begin with */

static bool is_host_stderr(void)
{
	struct stat ours;
	struct stat hosts;

	return fstat(STDERR_FILENO, &ours) == 0 && stat("/proc/self/fd/2", &hosts) == 0 &&
	       ours.st_dev == hosts.st_dev && ours.st_ino == hosts.st_ino;
}

static void *work(void *arg)
{
	sp_descriptors_detach();
	sp_descriptors_check_stderr();
	hosts_own = is_host_stderr();
	(void)pthread_barrier_wait(&turn);
	(void)pthread_barrier_wait(&turn);
	sp_descriptors_check_stderr();
	sp_descriptors_check_stderr();
	opened = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	return arg;
}

static pthread_t start(void)
{
	pthread_t thread;

	if (emulated() || syscall(CLOSE_RANGE_NR, UINT_MAX, UINT_MAX, 0) != 0)
		cr_skip_test("needs Linux 5.9 itself");
	cr_assert_eq(pthread_barrier_init(&turn, NULL, 2), 0);
	cr_assert_eq(pthread_create(&thread, NULL, work, NULL), 0);
	(void)pthread_barrier_wait(&turn);
	return thread;
}

static void end(pthread_t thread)
{
	(void)pthread_barrier_wait(&turn);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void use_as_stderr(void)
{
	char path[] = "/tmp/descriptors.XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	cr_assert_eq(close(fd), 0);
}

TestSuite(descriptors, .timeout = 20);

Test(descriptors, stderr_is_the_hosts)
{
	pthread_t thread;

	use_as_stderr();
	thread = start();
	end(thread);

	cr_assert(hosts_own);
	cr_assert_eq(opened, STDERR_FILENO + 1);
}

/* A message goes to this number, whatever is open there. */
Test(descriptors, no_file_of_ours_takes_the_place_of_a_stderr_that_is_gone)
{
	pthread_t thread;

	use_as_stderr();
	thread = start();
	use_as_stderr();
	end(thread);

	cr_assert(hosts_own);
	cr_assert_eq(opened, STDERR_FILENO + 1);
}

Test(descriptors, nor_of_one_that_the_host_never_had)
{
	pthread_t thread;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		(void)close(fd);
	thread = start();
	end(thread);

	cr_assert_eq(opened, STDERR_FILENO + 1);
}
