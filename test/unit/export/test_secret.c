/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that live in files. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/push/credentials.h"
#include "test/unit/descriptors.h"

static char path[64];
static struct sp_secret secret;
static const char *why;

static void set_up(void)
{
	int fd = mkstemp(strcpy(path, "/tmp/spanprof-test-XXXXXX"));

	cr_assert_geq(fd, 0);
	close(fd);
	sp_secret_init(&secret, path, "before");
}

static void tear_down(void)
{
	sp_secret_fini(&secret);
	unlink(path);
}

TestSuite(secret, .init = set_up, .fini = tear_down);

static void fill(const char *content, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, content, len), (ssize_t)len);
	close(fd);
}

Test(secret, takes_the_content_without_the_last_line_break, .timeout = 20)
{
	unsigned fds = open_descriptors();

	fill(" pass word \r\n", 13);

	cr_expect_eq(sp_secret_read(&secret, &why), 1);
	cr_expect_str_eq(secret.latest, " pass word ");
	cr_expect_eq(sp_secret_read(&secret, &why), 0, "nothing has changed");
	cr_expect_eq(open_descriptors(), fds);
}

Test(secret, sees_a_change_even_of_the_same_length, .timeout = 20)
{
	fill("one", 3);
	cr_expect_eq(sp_secret_read(&secret, &why), 1);
	fill("two", 3);

	cr_expect_eq(sp_secret_read(&secret, &why), 1);
	cr_expect_str_eq(secret.latest, "two");
}

Test(secret, keeps_what_was_known_when_the_file_is_no_good, .timeout = 20)
{
	static char big[SP_SECRET_MAX + 1];

	memset(big, 'x', sizeof(big));
	cr_expect_eq(sp_secret_read(&secret, &why), -EINVAL);
	cr_expect_str_eq(why, "it is empty");
	cr_expect_str_eq(secret.latest, "before");
	fill(big, SP_SECRET_MAX);
	cr_expect_eq(sp_secret_read(&secret, &why), 1, "16 KiB is not too large");
	fill(big, SP_SECRET_MAX + 1);
	cr_expect_eq(sp_secret_read(&secret, &why), -EINVAL);
	cr_expect_str_eq(why, "it is larger than 16 KiB");
	fill("a\0b", 3);
	cr_expect_eq(sp_secret_read(&secret, &why), -EINVAL);
	cr_expect_str_eq(why, "it is not text");

	cr_expect_eq(strlen(secret.latest), SP_SECRET_MAX);
}

Test(secret, refuses_what_is_not_a_file_without_waiting, .timeout = 20)
{
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(sp_secret_read(&secret, &why), -ENOENT);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(sp_secret_read(&secret, &why), -EINVAL);
	cr_expect_str_eq(why, "it is not a regular file");

	cr_expect_str_eq(secret.latest, "before");
}

Test(secret, without_a_file_the_value_holds, .timeout = 20)
{
	sp_secret_init(&secret, NULL, "value");

	cr_expect_eq(sp_secret_read(&secret, &why), 0);
	cr_expect_str_eq(secret.latest, "value");
}
