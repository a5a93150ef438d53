/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that an environment variable names: secrets, certificates, the status file, the folder for profiles. The user
 * who set the variable means an ordinary file. But any kind of file may be at the path, and in a folder like /tmp
 * another user may have put it there: a FIFO or a device on which a read or write would wait; a device that a rename
 * would replace; a link to a file that the link's maker may not touch. The same rules hold for all of them:
 *
 * - only a regular file is read, and opening it never waits;
 * - a file is written only if it is a regular file or does not exist, and a reader sees either the old file or the
 *   new one;
 * - a file that we write belongs to our user and group and has the caller's mode; the folder's set-group-id bit and
 *   access control list do not change that;
 * - a link anywhere in the path is followed only if we or root own it, or if only we or root may write to its folder.
 *   Otherwise a user with the rights of a service's workers, who owns the folder of its logs, could direct the
 *   exporter of the master, which is root, to any file. The links of Kubernetes' secrets are followed.
 *
 * The functions keep no file open but those that they return. Errors are negative errnos: -EINVAL for a file that is
 * not regular, -ELOOP for a link that must not be followed. Context: the exporter.
 */
#ifndef SP_USER_FILE_H
#define SP_USER_FILE_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The end of a path whose links were followed. */
struct sp_user_place {
	int folder; /* a descriptor, for the *at() calls; the caller closes it */
	char name[NAME_MAX + 1];
};

/* path is absolute. Its folder must exist, the file need not. */
int sp_user_file_find(const char *path, struct sp_user_place *out);

/*
 * A descriptor of a folder, for the *at() calls. If the folder does not exist, it is made with mode 0700.
 * -EKEYREJECTED: the folder belongs neither to us nor to root. -EKEYREVOKED: the folder's access control list lets
 * other users write there, or gives other users rights to new files.
 */
int sp_user_file_open_folder(const char *path);

/* Reads at most cap bytes from the file's beginning. Returns their number. */
ssize_t sp_user_file_read(const char *path, char *buf, size_t cap);

/*
 * Replaces the file `name` in the folder by one with these bytes. Writes them to the file `temp`
 * first, so no other writer of the same file may use that temp.
 */
int sp_user_file_replace(int folder, const char *name, const char *temp, const void *data,
			 size_t len, mode_t mode);

/*
 * As sp_user_file_replace(), for a name that must not exist yet. -EEXIST: the name is in use, or
 * another writer is about to use it, on any machine that shares the folder. Every writer of a name
 * must use the same temp.
 */
int sp_user_file_create(int folder, const char *name, const char *temp, const void *data,
			size_t len, mode_t mode);

/* The meaning of an error of these functions, in words that follow a colon. Static text. */
const char *sp_user_file_error(int err);

#endif
