/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files that an environment variable names (user_file.h). The path is walked one component at a time, so that
 * each link is checked before it is followed. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/util/user_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sampler/base/process.h"

/* The same limit as the kernel's (include/linux/namei.h). */
#define LINKS_MAX 40U

struct walk {
	int at;           /* the folder reached so far */
	unsigned links;   /* followed so far */
	const char *rest; /* the rest of the path in text, without leading slashes */
	char text[2 * PATH_MAX];
};

/* The first component of rest, without slashes. False if no component is left. */
static bool next_component(struct walk *w, char name[NAME_MAX + 1], int *err)
{
	size_t len = strcspn(w->rest, "/");

	*err = len > NAME_MAX ? -ENAMETOOLONG : 0;
	if (len == 0 || *err != 0)
		return false;
	memcpy(name, w->rest, len);
	name[len] = '\0';
	w->rest += len;
	w->rest += strspn(w->rest, "/");
	return true;
}

static void set_rest(struct walk *w, const char *path)
{
	memcpy(w->text, path, strlen(path) + 1);
	w->rest = w->text + strspn(w->text, "/");
}

/*
 * The root is opened by another path than "/": an emulator of another processor replaces that path
 * by a folder of its own.
 */
static int open_root(void)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int fd = open("/proc/self/root", flags);

	return fd >= 0 ? fd : open("/", flags);
}

/* Descends into a folder; NULL goes back to the root. */
static int enter(struct walk *w, const char *name)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	int fd = name == NULL ? open_root() : openat(w->at, name, flags);
	int err = fd < 0 ? -errno : 0;

	if (err == 0) {
		if (w->at >= 0)
			close(w->at);
		w->at = fd;
	}
	return err;
}

/* Other users may have more or fewer rights than we have. */
static bool is_trusted(uid_t user)
{
	return user == 0 || user == geteuid();
}

static bool may_follow(int folder, const struct stat *link)
{
	struct stat st;

	if (is_trusted(link->st_uid))
		return true;
	return fstat(folder, &st) == 0 && is_trusted(st.st_uid) &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Puts the link's text in front of the rest. */
static int follow(struct walk *w, const char *name, const struct stat *link)
{
	char target[PATH_MAX];
	char path[2 * PATH_MAX];
	ssize_t len;
	int n;

	if (w->links++ == LINKS_MAX || !may_follow(w->at, link))
		return -ELOOP;
	len = readlinkat(w->at, name, target, sizeof(target) - 1);
	if (len < 0)
		return -errno;
	target[len] = '\0';
	n = snprintf(path, sizeof(path), "%s/%s", target, w->rest);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	set_rest(w, path);
	return target[0] == '/' ? enter(w, NULL) : 0;
}

static int walk_to(struct walk *w, char name[NAME_MAX + 1])
{
	char component[NAME_MAX + 1];
	struct stat st;
	int err;

	memcpy(name, ".", sizeof("."));
	while (next_component(w, component, &err)) {
		bool there = fstatat(w->at, component, &st, AT_SYMLINK_NOFOLLOW) == 0;

		if (!there && errno != ENOENT)
			return -errno;
		if (there && S_ISLNK(st.st_mode))
			err = follow(w, component, &st);
		else if (w->rest[0] != '\0')
			err = enter(w, component);
		else
			memcpy(name, component, strlen(component) + 1);
		if (err != 0)
			return err;
	}
	return err;
}

int sp_user_file_find(const char *path, struct sp_user_place *out)
{
	struct walk w = {.at = -1};
	int err;

	out->folder = -1;
	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	set_rest(&w, path);
	err = enter(&w, NULL);
	if (err == 0)
		err = walk_to(&w, out->name);
	if (err == 0)
		out->folder = w.at;
	else if (w.at >= 0)
		close(w.at);
	return err;
}

/*
 * The kernel's names for access control lists: of a file or folder, and for new files in a folder.
 */
#define LIST "system.posix_acl_access"
#define LIST_OF_NEW "system.posix_acl_default"

/*
 * Makes a new file or folder accessible for us alone, even if its folder gives new files other
 * owners, modes or lists.
 */
static void make_ours(int fd, mode_t mode)
{
	/* Some file systems have neither lists nor owners nor modes. */
	(void)fremovexattr(fd, LIST_OF_NEW);
	(void)fremovexattr(fd, LIST);
	(void)!fchown(fd, geteuid(), getegid());
	(void)fchmod(fd, mode);
}

/*
 * Whether only trusted users may write to the folder. 0, or an error: other users could delete our
 * files there, or put their files beside ours.
 */
static int look_at_folder(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	/*
	 * Without /proc this process is not root, because main() ends a root process without /proc.
	 */
	if (!is_trusted(st.st_uid) && !sp_process_is_outsider(st.st_uid, true))
		return -EKEYREJECTED;
	/*
	 * The group's mode bits limit the rights of all users in a list, so a list matters only if
	 * the group may write.
	 */
	if (fgetxattr(fd, LIST_OF_NEW, NULL, 0) != -1 ||
	    ((st.st_mode & S_IWGRP) != 0 && fgetxattr(fd, LIST, NULL, 0) != -1))
		return -EKEYREVOKED;
	return 0;
}

int sp_user_file_open_folder(const char *path)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	struct sp_user_place p;
	int err = sp_user_file_find(path, &p);
	int fd;

	if (err != 0)
		return err;
	fd = openat(p.folder, p.name, flags);
	if (fd < 0) {
		bool is_new = mkdirat(p.folder, p.name, 0700) == 0;

		if (is_new || errno == EEXIST)
			fd = openat(p.folder, p.name, flags);
		if (is_new && fd >= 0)
			make_ours(fd, 0700);
	}
	err = fd < 0 ? -errno : look_at_folder(fd);
	close(p.folder);
	if (err == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * 0 if the file is a regular one. That is checked before it is opened, because opening a device may have an effect.
 */
static int regular(int folder, const char *name)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

static int open_regular(const struct sp_user_place *p)
{
	int err = regular(p->folder, p->name);
	struct stat st;
	int fd;

	if (err != 0)
		return err;
	fd = openat(p->folder, p->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The file may have been replaced in between. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static ssize_t read_all(int fd, char *buf, size_t cap)
{
	size_t len = 0;
	ssize_t n = 1;

	while (len < cap && n != 0) {
		n = read(fd, buf + len, cap - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)len;
}

ssize_t sp_user_file_read(const char *path, char *buf, size_t cap)
{
	struct sp_user_place p;
	ssize_t got = sp_user_file_find(path, &p);
	int fd;

	if (got != 0)
		return got;
	fd = open_regular(&p);
	close(p.folder);
	if (fd < 0)
		return fd;
	got = read_all(fd, buf, cap);
	close(fd);
	return got;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len != 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Writes a new file. -EEXIST: the file belongs to another writer, and is not changed. */
static int write_new(int folder, const char *temp, const void *data, size_t len, mode_t mode)
{
	int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			S_IRUSR | S_IWUSR);
	int err;

	if (fd < 0)
		return -errno;
	make_ours(fd, mode);
	err = write_all(fd, data, len);
	if (close(fd) != 0 && err == 0)
		err = -errno;
	if (err != 0)
		(void)unlinkat(folder, temp, 0);
	return err;
}

static int put_in_place(int folder, const char *name, const char *temp)
{
	int err = renameat(folder, temp, folder, name) != 0 ? -errno : 0;

	if (err != 0)
		(void)unlinkat(folder, temp, 0);
	return err;
}

int sp_user_file_replace(int folder, const char *name, const char *temp, const void *data,
			 size_t len, mode_t mode)
{
	int err = regular(folder, name);

	if (err != 0 && err != -ENOENT)
		return err;
	/*
	 * The file is from an earlier process with this id, or somebody has put it there to hinder
	 * us.
	 */
	(void)unlinkat(folder, temp, 0);
	err = write_new(folder, temp, data, len, mode);
	return err == 0 ? put_in_place(folder, name, temp) : err;
}

/*
 * link() and RENAME_NOREPLACE never replace a file, but many file systems have neither (FAT, FUSE,
 * shares of other machines). So the file temp is the lock of the name: a writer makes it with
 * O_EXCL, and looks for the name while temp exists. The next writer gets temp only after the
 * rename, and then finds that the name is in use.
 */
int sp_user_file_create(int folder, const char *name, const char *temp, const void *data,
			size_t len, mode_t mode)
{
	int err = write_new(folder, temp, data, len, mode);
	struct stat st;

	if (err != 0)
		return err;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		err = -EEXIST;
	else if (errno != ENOENT)
		err = -errno;
	if (err == 0)
		return put_in_place(folder, name, temp);
	(void)unlinkat(folder, temp, 0);
	return err;
}

const char *sp_user_file_error(int err)
{
	if (err == -EINVAL)
		return "it is not a regular file";
	if (err == -EKEYREJECTED)
		return "it belongs to another user; name another folder in SPANPROF_OUTPUT_DIR";
	if (err == -EKEYREVOKED)
		return "its access control list lets other users in; take that away (setfacl -b "
		       "-k), or name another folder in SPANPROF_OUTPUT_DIR";
	if (err == -ELOOP)
		return "a link on the way to it belongs to somebody else";
	return strerror(-err);
}
