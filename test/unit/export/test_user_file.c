/* SPDX-License-Identifier: Apache-2.0 */
/* Files that environment variables name: which kinds of files are accepted, and whose links are followed. */
#define _GNU_SOURCE
#include "export/util/user_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "test/unit/scratch.h"

#define STRANGER 65534

TestSuite(user_file, .init = scratch_make, .fini = scratch_remove, .timeout = 20);

static void fill(const char *name, const char *text)
{
	int fd = open(in_scratch(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

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

	cr_expect_eq(replace(in_scratch("a"), "one"), 0);
	cr_expect_eq(replace(in_scratch("a"), "two"), 0);

	cr_expect_eq(read_text(in_scratch("a"), text), 3);
	cr_expect_str_eq(text, "two");
	cr_expect_neq(access(in_scratch("temp"), F_OK), 0);
}

static int create(const char *path, const char *text)
{
	struct sp_user_place p;
	int err = sp_user_file_find(path, &p);

	if (err != 0)
		return err;
	err = sp_user_file_create(p.folder, p.name, "temp", text, strlen(text), 0600);
	close(p.folder);
	return err;
}

Test(user_file, a_name_in_use_is_left_alone)
{
	char text[64];

	cr_expect_eq(create(in_scratch("a"), "one"), 0);
	cr_expect_eq(create(in_scratch("a"), "two"), -EEXIST);
	cr_expect_neq(access(in_scratch("temp"), F_OK), 0);
	cr_assert_eq(mkdir(in_scratch("b"), 0700), 0);
	cr_expect_eq(create(in_scratch("b"), "two"), -EEXIST);
	cr_assert_eq(symlink("victim", in_scratch("temp")), 0);
	cr_expect_eq(create(in_scratch("c"), "two"), -EEXIST, "it wrote through a link");

	cr_expect_eq(read_text(in_scratch("a"), text), 3);
	cr_expect_str_eq(text, "one");
	cr_expect_neq(access(in_scratch("victim"), F_OK), 0);
	cr_expect_neq(access(in_scratch("c"), F_OK), 0);
}

/* Works on any file system: needs neither hard links nor RENAME_NOREPLACE. */
Test(user_file, of_writers_of_one_name_one_gets_it)
{
	enum { WRITERS = 4, NAMES = 300 };
	char name[32], text[64];
	pid_t writer[WRITERS];
	unsigned got = 0;

	for (unsigned w = 0; w < WRITERS; w++) {
		writer[w] = fork();
		cr_assert_geq(writer[w], 0);
		if (writer[w] != 0)
			continue;
		for (unsigned i = 0; i < NAMES; i++) {
			(void)snprintf(name, sizeof(name), "n%u", i);
			if (create(in_scratch(name), "all of it") == 0)
				got++;
		}
		(void)snprintf(name, sizeof(name), "got%u", w);
		(void)snprintf(text, sizeof(text), "%u", got);
		fill(name, text);
		_exit(0);
	}
	for (unsigned w = 0; w < WRITERS; w++) {
		cr_assert_eq(waitpid(writer[w], NULL, 0), writer[w]);
		(void)snprintf(name, sizeof(name), "got%u", w);
		cr_assert_gt(read_text(in_scratch(name), text), 0);
		got += (unsigned)strtoul(text, NULL, 10);
	}

	/* If two writers come at once, both may be refused. */
	cr_expect_leq(got, NAMES, "%u of %u names were given twice", got - NAMES, NAMES);
	cr_expect_gt(got, 0);
	for (unsigned i = 0, there = 0; i < NAMES; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		there += access(in_scratch(name), F_OK) == 0;
		if (i == NAMES - 1)
			cr_expect_eq(there, got, "%u files of %u", there, got);
	}
}

Test(user_file, ways_of_writing_a_path_lead_to_the_same_file)
{
	char text[64];

	cr_assert_eq(mkdir(in_scratch("d"), 0700), 0);
	fill("d/a", "one");

	cr_expect_eq(read_text(in_scratch("d//a"), text), 3);
	cr_expect_eq(read_text(in_scratch("./d/./a"), text), 3);
	cr_expect_eq(read_text(in_scratch("d/../d/a"), text), 3);
	cr_expect_eq(read_text(in_scratch("d/a/"), text), 3);
}

Test(user_file, what_is_not_there_is_told)
{
	char text[64];

	cr_expect_eq(read_text(in_scratch("none"), text), -ENOENT);
	cr_expect_eq(read_text(in_scratch("none/none"), text), -ENOENT);
	cr_expect_eq(replace(in_scratch("none/none"), "x"), -ENOENT);
	cr_expect_eq(read_text("relative", text), -EINVAL);
	cr_expect_eq(read_text("/proc/self/mem", text), -EIO, "nothing is mapped at its beginning");
}

Test(user_file, nothing_but_a_regular_file_is_read_or_replaced)
{
	struct stat st;
	char text[64];

	cr_assert_eq(mkfifo(in_scratch("fifo"), 0600), 0);

	/* The FIFO has no other end, so an open that waits would wait for ever. */
	cr_expect_eq(read_text(in_scratch("fifo"), text), -EINVAL);
	cr_expect_eq(replace(in_scratch("fifo"), "x"), -EINVAL);
	cr_expect_eq(read_text(scratch, text), -EINVAL);
	cr_expect_eq(replace(scratch, "x"), -EINVAL);
	cr_expect_eq(read_text("/dev/null", text), -EINVAL);
	cr_assert_eq(stat(in_scratch("fifo"), &st), 0);
	cr_expect(S_ISFIFO(st.st_mode), "it was replaced");
}

Test(user_file, a_device_is_not_replaced)
{
	struct stat st;

	if (mknod(in_scratch("null"), S_IFCHR | 0666, makedev(1, 3)) != 0)
		cr_skip_test("only root may make devices");

	cr_expect_eq(replace(in_scratch("null"), "x"), -EINVAL);
	cr_assert_eq(lstat(in_scratch("null"), &st), 0);
	cr_expect(S_ISCHR(st.st_mode));
}

Test(user_file, own_links_are_followed_also_to_files_that_are_to_be_written)
{
	char text[64];

	cr_assert_eq(mkdir(in_scratch("d"), 0700), 0);
	cr_assert_eq(symlink("d", in_scratch("folder")), 0);
	cr_assert_eq(symlink("folder/a", in_scratch("link")), 0);

	cr_expect_eq(replace(in_scratch("link"), "one"), 0);
	cr_expect_eq(read_text(in_scratch("d/a"), text), 3);
	cr_expect_eq(read_text(in_scratch("link"), text), 3);
	cr_expect_eq(replace(in_scratch("link"), "more"), 0);
	cr_expect_eq(read_text(in_scratch("d/a"), text), 4);
}

Test(user_file, an_absolute_link_starts_at_the_root)
{
	char text[64];

	fill("a", "one");
	cr_assert_eq(symlink(in_scratch("a"), in_scratch("link")), 0);

	cr_expect_eq(read_text(in_scratch("link"), text), 3);
}

Test(user_file, a_circle_of_links_ends)
{
	char text[64];

	cr_assert_eq(symlink("b", in_scratch("a")), 0);
	cr_assert_eq(symlink("a", in_scratch("b")), 0);

	cr_expect_eq(read_text(in_scratch("a"), text), -ELOOP);
}

static void make_strangers_link(const char *target, const char *name)
{
	if (geteuid() != 0)
		cr_skip_test("only root has links of others");
	cr_assert_eq(chmod(scratch, 01777), 0);
	cr_assert_eq(symlink(target, in_scratch(name)), 0);
	cr_assert_eq(lchown(in_scratch(name), STRANGER, STRANGER), 0);
}

Test(user_file, a_strangers_link_in_a_folder_for_everybody_is_not_followed)
{
	char text[64];

	fill("secret", "one");
	make_strangers_link("secret", "link");

	cr_expect_eq(read_text(in_scratch("link"), text), -ELOOP);
	cr_expect_eq(replace(in_scratch("link"), "x"), -ELOOP);
	cr_expect_eq(read_text(in_scratch("secret"), text), 3);
	cr_expect_str_eq(text, "one");
}

/* The master of a server is root, and its folder for logs belongs to its workers. */
Test(user_file, nor_is_a_strangers_link_in_his_own_folder)
{
	char text[64];

	fill("secret", "one");
	make_strangers_link("secret", "link");
	cr_assert_eq(chmod(scratch, 0755), 0);
	cr_assert_eq(chown(scratch, STRANGER, STRANGER), 0);

	cr_expect_eq(read_text(in_scratch("link"), text), -ELOOP);
	cr_expect_eq(replace(in_scratch("link"), "x"), -ELOOP);
	cr_assert_eq(chown(scratch, 0, STRANGER), 0);
	cr_assert_eq(chmod(scratch, 02775), 0);
	cr_expect_eq(replace(in_scratch("link"), "x"), -ELOOP, "his group may write there");
	cr_assert_eq(chmod(scratch, 0755), 0);
	cr_expect_eq(read_text(in_scratch("link"), text), 3, "he could not have made it");
}

Test(user_file, nor_is_one_on_the_way)
{
	char text[64];

	cr_assert_eq(mkdir(in_scratch("d"), 0700), 0);
	fill("d/a", "one");
	make_strangers_link("d", "link");

	cr_expect_eq(read_text(in_scratch("link/a"), text), -ELOOP);
	cr_expect_eq(replace(in_scratch("link/b"), "x"), -ELOOP);
	cr_expect_eq(sp_user_file_open_folder(in_scratch("link")), -ELOOP);
}

Test(user_file, our_link_in_a_folder_for_everybody_is_followed_as_kubernetes_makes_them)
{
	char text[64];

	cr_assert_eq(mkdir(in_scratch("..2026"), 0755), 0);
	fill("..2026/token", "one");
	cr_assert_eq(symlink("..2026", in_scratch("..data")), 0);
	cr_assert_eq(symlink("..data/token", in_scratch("token")), 0);
	cr_assert_eq(chmod(scratch, 01777), 0);

	cr_expect_eq(read_text(in_scratch("token"), text), 3);
}

Test(user_file, a_folder_is_made_but_not_the_one_above_it)
{
	int fd = sp_user_file_open_folder(in_scratch("new"));

	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(sp_user_file_open_folder(in_scratch("x/y")), -ENOENT);
	fill("file", "");
	cr_expect_eq(sp_user_file_open_folder(in_scratch("file")), -ENOTDIR);
}

/* An access control list in the kernel's form: of the owner, the stranger, the group, the mask, others. */
static bool give_list(const char *name, const char *kind, unsigned char strangers)
{
	const unsigned char list[] = {2,  0, 0,         0,                         /* */
				      1,  0, 7,         0, 0xff, 0xff, 0xff, 0xff, /* */
				      2,  0, strangers, 0, 0xfe, 0xff, 0,    0,    /* */
				      4,  0, 5,         0, 0xff, 0xff, 0xff, 0xff, /* */
				      16, 0, strangers, 0, 0xff, 0xff, 0xff, 0xff, /* */
				      32, 0, 5,         0, 0xff, 0xff, 0xff, 0xff};

	return setxattr(in_scratch(name), kind, list, sizeof(list), 0) == 0;
}

static bool has_list(const char *name)
{
	return getxattr(in_scratch(name), "system.posix_acl_access", NULL, 0) >= 0;
}

/* The folder's settings for new files do not count. */
Test(user_file, what_is_written_is_ours_and_has_its_mode_alone)
{
	struct stat st;

	cr_assert_eq(mkdir(in_scratch("d"), 0755), 0);
	cr_assert_eq(geteuid() != 0 || chown(in_scratch("d"), 0, STRANGER) == 0, true);
	cr_assert_eq(chmod(in_scratch("d"), 02777), 0);
	(void)umask(0);
	(void)give_list("d", "system.posix_acl_default", 7);

	cr_expect_eq(replace(in_scratch("d/a"), "one"), 0);
	cr_assert_eq(stat(in_scratch("d/a"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600, "%o", st.st_mode);
	cr_expect_eq(st.st_uid, geteuid());
	cr_expect_eq(st.st_gid, getegid());
	cr_expect_not(has_list("d/a"));

	cr_assert_geq(sp_user_file_open_folder(in_scratch("d/new")), 0);
	cr_assert_eq(stat(in_scratch("d/new"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700, "%o", st.st_mode);
	cr_expect_eq(st.st_gid, getegid());
	cr_expect_not(has_list("d/new"));
	cr_expect_lt(getxattr(in_scratch("d/new"), "system.posix_acl_default", NULL, 0), 0);
}

Test(user_file, a_folder_of_another_user_is_none_for_what_is_written)
{
	int fd;

	if (geteuid() != 0)
		return;
	cr_assert_eq(mkdir(in_scratch("theirs"), 0777), 0);
	cr_assert_eq(chown(in_scratch("theirs"), STRANGER, 0), 0);
	cr_assert_eq(mkdir(in_scratch("roots"), 0755), 0);
	cr_assert_eq(chmod(in_scratch("roots"), 01777), 0);
	cr_assert_eq(chmod(scratch, 0755), 0);

	cr_expect_eq(sp_user_file_open_folder(in_scratch("theirs")), -EKEYREJECTED);
	cr_expect_not_null(strstr(sp_user_file_error(-EKEYREJECTED), "SPANPROF_OUTPUT_DIR"));
	cr_assert_eq(seteuid(STRANGER), 0);
	fd = sp_user_file_open_folder(in_scratch("theirs"));
	cr_expect_geq(fd, 0, "it is his own");
	close(fd);
	fd = sp_user_file_open_folder(in_scratch("roots"));
	cr_expect_geq(fd, 0);
	close(fd);
	cr_assert_eq(seteuid(STRANGER - 1) != 0 && seteuid(0) == 0, true);
	cr_assert_eq(seteuid(STRANGER - 1), 0);
	cr_expect_eq(sp_user_file_open_folder(in_scratch("theirs")), -EKEYREJECTED);
	cr_assert_eq(seteuid(0), 0);
}

Test(user_file, a_folder_whose_list_lets_others_write_or_read_is_none)
{
	int fd;

	cr_assert_eq(mkdir(in_scratch("read"), 0755), 0);
	cr_assert_eq(mkdir(in_scratch("write"), 0755), 0);
	cr_assert_eq(mkdir(in_scratch("new"), 0755), 0);
	if (!give_list("read", "system.posix_acl_access", 5))
		return; /* a file system without lists */
	cr_assert(give_list("write", "system.posix_acl_access", 7));
	cr_assert(give_list("new", "system.posix_acl_default", 5));

	fd = sp_user_file_open_folder(in_scratch("read"));
	cr_expect_geq(fd, 0);
	close(fd);
	cr_expect_eq(sp_user_file_open_folder(in_scratch("write")), -EKEYREVOKED);
	cr_expect_eq(sp_user_file_open_folder(in_scratch("new")), -EKEYREVOKED);
	cr_expect_not_null(strstr(sp_user_file_error(-EKEYREVOKED), "SPANPROF_OUTPUT_DIR"));
}
