/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of files in a user namespace: sp_process_is_outsider(). */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/process.h"
#include "test/unit/descriptors.h"

#define OVERFLOW 65534U
#define NO_NAMESPACE 77

/* The parent writes the map, because a process may not give itself users. */
static bool write_map(pid_t child, const char *map)
{
	char path[64];
	bool is_written;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)child);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	is_written = fd >= 0 && write(fd, map, strlen(map)) == (ssize_t)strlen(map);
	(void)close(fd);
	return is_written;
}

/* A child's answer in a user namespace with that map (NULL = none): 0, 1, or NO_NAMESPACE. */
static int says_below(const char *map, uint32_t user)
{
	int begins[2];
	int goes_on[2];
	int status = 0;
	char byte = 0;
	pid_t child;

	cr_assert_eq(pipe(begins) | pipe(goes_on), 0);
	child = fork();
	if (child == 0) {
		bool is_in = unshare(CLONE_NEWUSER) == 0;

		(void)!write(begins[1], "x", 1);
		(void)!read(goes_on[0], &byte, 1);
		_exit(is_in ? sp_process_is_outsider(user, false) : NO_NAMESPACE);
	}
	cr_assert_eq(read(begins[0], &byte, 1), 1);
	cr_expect(map == NULL || write_map(child, map), "%s", map);
	cr_assert_eq(write(goes_on[1], "x", 1), 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(close(begins[i]) | close(goes_on[i]), 0);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(outsider, is_nobody_where_all_users_have_numbers, .timeout = 20)
{
	unsigned before = open_descriptors();

	cr_expect_not(sp_process_is_outsider(0, true));
	cr_expect_not(sp_process_is_outsider(1000, true));
	cr_expect_not(sp_process_is_outsider(OVERFLOW, true));
	cr_expect_eq(open_descriptors(), before);
}

Test(outsider, is_whoever_has_no_number_in_a_container, .timeout = 20)
{
	if (geteuid() != 0 || says_below(NULL, OVERFLOW) == NO_NAMESPACE)
		cr_skip_test("no user namespaces here");
	cr_expect_eq(says_below(NULL, OVERFLOW), 1);
	cr_expect_eq(says_below(NULL, 0), 0, "that is root's number, whoever has it");
	cr_expect_eq(says_below("0 0 1", OVERFLOW), 1);
	cr_expect_eq(says_below("0 0 1", 1), 0, "the kernel shows no owner so");
	cr_expect_eq(says_below("0 100000 65534", OVERFLOW), 1, "the last number is one less");
	cr_expect_eq(says_below("0 100000 65535", OVERFLOW), 0, "nobody has a number of his own");
	cr_expect_eq(says_below("65534 5 1", OVERFLOW), 0);
	cr_expect_eq(says_below("65535 5 10", OVERFLOW), 1);
	cr_expect_eq(says_below("0 0 1\n65500 700 50\n", OVERFLOW), 0, "in any of its lines");
	cr_expect_eq(says_below("0 0 1\n65500 700 34\n", OVERFLOW), 1);
}

Test(outsider, is_what_the_caller_says_without_proc, .timeout = 20)
{
	int status = -1;
	pid_t child;

	if (geteuid() != 0)
		cr_skip_test("needs root for chroot");
	child = fork();
	cr_assert_geq(child, 0);
	/* The child ends at once: without /proc the leak sanitizer cannot check it. */
	if (child == 0)
		_exit(chroot("/sys") == 0 && sp_process_is_outsider(OVERFLOW, true) &&
				      !sp_process_is_outsider(OVERFLOW, false) &&
				      !sp_process_is_outsider(0, true)
			      ? 0
			      : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
}
