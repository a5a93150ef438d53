/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a variable names: secrets, certificates, the status file, the folder for profiles. Whoever set
 * the variable means an ordinary file, but what lies at the path may be anything, and in a folder like
 * /tmp it may be somebody else's: a FIFO or a device on which a read or write would wait, a device
 * that a rename would replace, a link that leads to a file which its maker may not touch. One rule for all:
 *
 * - what is read is a regular file, and opening it never waits;
 * - what is written is a regular file or was not there, and a reader sees the old file or the new one;
 * - a link is followed, at any place of the path, only if it belongs to us or to root, or lies in a folder of ours or
 *   root's that nobody else may write to. Else whoever has the rights of a service's workers, to whom the folder of its
 *   logs belongs, could lead the exporter of the master, which is root, to any file. Kubernetes' secrets pass.
 *
 * Nothing stays open but what these functions return. Errors are negative errnos: -EINVAL where the file
 * is not a regular one, -ELOOP for a link that must not be followed. Context: the exporter.
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

/* path is absolute. The file itself need not be there, its folder must. */
int sp_user_file_find(const char *path, struct sp_user_place *out);

/* A folder, for the *at() calls; made if it is not there. A descriptor. */
int sp_user_file_open_folder(const char *path, mode_t mode);

/* Reads at most cap bytes from the file's beginning; how many. */
ssize_t sp_user_file_read(const char *path, char *buf, size_t cap);

/*
 * Makes name of the folder hold these bytes, by way of the file temp beside it, which whoever else may
 * write the same file must not use.
 */
int sp_user_file_replace(int folder, const char *name, const char *temp, const void *data,
			 size_t len, mode_t mode);

/*
 * The same for a name that nothing has yet. -EEXIST: the name is in use, or another writer is about to use
 * it, on whatever machine that shares the folder; each writer of a name must use the same temp.
 */
int sp_user_file_create(int folder, const char *name, const char *temp, const void *data,
			size_t len, mode_t mode);

/* What an error of these functions means, in words that follow a colon. Static text. */
const char *sp_user_file_error(int err);

#endif
