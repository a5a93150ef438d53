/* SPDX-License-Identifier: Apache-2.0 */
/* A secret that is kept in a file, which may be replaced at any time. */
#ifndef SP_SECRET_H
#define SP_SECRET_H

#include <stdbool.h>

#define SP_SECRET_MAX 16384U

struct sp_secret {
	const char *path;   /* NULL = there is no file */
	const char *latest; /* the last good content, or the value before; NULL = none */
	char *content;      /* memory of latest, if that came from the file */
	bool failed;        /* the last read failed */
};

/* before: the value until the file was read, or NULL; it must outlive the secret. */
void sp_secret_init(struct sp_secret *s, const char *path, const char *before);
void sp_secret_fini(struct sp_secret *s);

/*
 * Reads the file; nothing stays open. 1 = latest has changed, 0 = it has not, or a negative errno
 * with the reason in *why; then latest is as before. The content is never part of a reason.
 */
int sp_secret_read(struct sp_secret *s, const char **why);

#endif
