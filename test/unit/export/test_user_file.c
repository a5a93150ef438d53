/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about files that variables name: what may lie there, and whose links are followed. */
#define _GNU_SOURCE
#include "export/user_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define STRANGER 65534

static char dir[64];

static void set_up(void)
{
	strcpy(dir, "/tmp/spanprof-test-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
}

static void tear_down(void)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	cr_assert_eq(system(cmd), 0);
}

TestSuite(user_file, .init = set_up, .fini = tear_down, .timeout = 20);

static const char *in(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *p = path[turn++ % 4];

	(void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void fill(const char *name, const char *text)
{
	int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static ssize_t read_text(const char *path, char out[64])
{
	ssize_t got = sp_user_file_read(path, out, 63);

	out[got > 0 ? got : 0] = '\0';
	return got;
}

static int replace(const char *path, const char *text)
{
	struct sp_user_place p;
	int err = sp_user_file_find(path, &p);

	if (err != 0)
		return err;
	err = sp_user_file_replace(p.folder, p.name, "temp", text, strlen(text), 0600);
	close(p.folder);
	return err;
}

Test(user_file, a_regular_file_is_read_and_replaced)
{
	char text[64];

	cr_expect_eq(replace(in("a"), "one"), 0);
	cr_expect_eq(replace(in("a"), "two"), 0);

	cr_expect_eq(read_text(in("a"), text), 3);
	cr_expect_str_eq(text, "two");
	cr_expect_neq(access(in("temp"), F_OK), 0);
}

Test(user_file, ways_of_writing_a_path_lead_to_the_same_file)
{
	char text[64];

	cr_assert_eq(mkdir(in("d"), 0700), 0);
	fill("d/a", "one");

	cr_expect_eq(read_text(in("d//a"), text), 3);
	cr_expect_eq(read_text(in("./d/./a"), text), 3);
	cr_expect_eq(read_text(in("d/../d/a"), text), 3);
	cr_expect_eq(read_text(in("d/a/"), text), 3);
}

Test(user_file, what_is_not_there_is_told)
{
	char text[64];

	cr_expect_eq(read_text(in("none"), text), -ENOENT);
	cr_expect_eq(read_text(in("none/none"), text), -ENOENT);
	cr_expect_eq(replace(in("none/none"), "x"), -ENOENT);
	cr_expect_eq(read_text("relative", text), -EINVAL);
}

Test(user_file, nothing_but_a_regular_file_is_read_or_replaced)
{
	struct stat st;
	char text[64];

	cr_assert_eq(mkfifo(in("fifo"), 0600), 0);

	/* With nobody at the other end, an open that waits would wait for ever. */
	cr_expect_eq(read_text(in("fifo"), text), -EINVAL);
	cr_expect_eq(replace(in("fifo"), "x"), -EINVAL);
	cr_expect_eq(read_text(dir, text), -EINVAL);
	cr_expect_eq(replace(dir, "x"), -EINVAL);
	cr_expect_eq(read_text("/dev/null", text), -EINVAL);
	cr_assert_eq(stat(in("fifo"), &st), 0);
	cr_expect(S_ISFIFO(st.st_mode), "it was replaced");
}

Test(user_file, a_device_is_not_replaced)
{
	struct stat st;

	if (mknod(in("null"), S_IFCHR | 0666, makedev(1, 3)) != 0)
		cr_skip_test("only root may make devices");

	cr_expect_eq(replace(in("null"), "x"), -EINVAL);
	cr_assert_eq(lstat(in("null"), &st), 0);
	cr_expect(S_ISCHR(st.st_mode));
}

Test(user_file, own_links_are_followed_also_to_files_that_are_to_be_written)
{
	char text[64];

	cr_assert_eq(mkdir(in("d"), 0700), 0);
	cr_assert_eq(symlink("d", in("folder")), 0);
	cr_assert_eq(symlink("folder/a", in("link")), 0);

	cr_expect_eq(replace(in("link"), "one"), 0);
	cr_expect_eq(read_text(in("d/a"), text), 3);
	cr_expect_eq(read_text(in("link"), text), 3);
	cr_expect_eq(replace(in("link"), "more"), 0);
	cr_expect_eq(read_text(in("d/a"), text), 4);
}

Test(user_file, an_absolute_link_starts_at_the_root)
{
	char text[64];

	fill("a", "one");
	cr_assert_eq(symlink(in("a"), in("link")), 0);

	cr_expect_eq(read_text(in("link"), text), 3);
}

Test(user_file, a_circle_of_links_ends)
{
	char text[64];

	cr_assert_eq(symlink("b", in("a")), 0);
	cr_assert_eq(symlink("a", in("b")), 0);

	cr_expect_eq(read_text(in("a"), text), -ELOOP);
}

static void make_strangers_link(const char *target, const char *name)
{
	if (geteuid() != 0)
		cr_skip_test("only root has links of others");
	cr_assert_eq(chmod(dir, 01777), 0);
	cr_assert_eq(symlink(target, in(name)), 0);
	cr_assert_eq(lchown(in(name), STRANGER, STRANGER), 0);
}

Test(user_file, a_strangers_link_in_a_folder_for_everybody_is_not_followed)
{
	char text[64];

	fill("secret", "one");
	make_strangers_link("secret", "link");

	cr_expect_eq(read_text(in("link"), text), -ELOOP);
	cr_expect_eq(replace(in("link"), "x"), -ELOOP);
	cr_expect_eq(read_text(in("secret"), text), 3);
	cr_expect_str_eq(text, "one");
}

Test(user_file, nor_is_one_on_the_way)
{
	char text[64];

	cr_assert_eq(mkdir(in("d"), 0700), 0);
	fill("d/a", "one");
	make_strangers_link("d", "link");

	cr_expect_eq(read_text(in("link/a"), text), -ELOOP);
	cr_expect_eq(replace(in("link/b"), "x"), -ELOOP);
	cr_expect_eq(sp_user_file_open_folder(in("link"), 0700), -ELOOP);
}

Test(user_file, the_link_of_a_folders_owner_is_followed_as_kubernetes_makes_them)
{
	char text[64];

	cr_assert_eq(mkdir(in("..2026"), 0755), 0);
	fill("..2026/token", "one");
	cr_assert_eq(symlink("..2026", in("..data")), 0);
	cr_assert_eq(symlink("..data/token", in("token")), 0);
	cr_assert_eq(chmod(dir, 01777), 0);

	cr_expect_eq(read_text(in("token"), text), 3);
}

Test(user_file, a_folder_is_made_but_not_the_one_above_it)
{
	int fd = sp_user_file_open_folder(in("new"), 0700);

	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(sp_user_file_open_folder(in("x/y"), 0700), -ENOENT);
	fill("file", "");
	cr_expect_eq(sp_user_file_open_folder(in("file"), 0700), -ENOTDIR);
}
