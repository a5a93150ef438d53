/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads secrets from files (Kubernetes secret mounts, systemd credentials). They rotate, so a file
 * is read again for each push. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/secret.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/user_file.h"

void sp_secret_init(struct sp_secret *s, const char *path, const char *before)
{
	memset(s, 0, sizeof(*s));
	s->path = path;
	s->latest = before;
}

static void forget(char *content)
{
	if (content != NULL)
		explicit_bzero(content, strlen(content));
	free(content);
}

void sp_secret_fini(struct sp_secret *s)
{
	forget(s->content);
	s->content = NULL;
	s->latest = NULL;
}

/* The content of the file, without the line break that editors and echo add. */
static int content_of(const char *path, char *buf, const char **why)
{
	ssize_t got = sp_user_file_read(path, buf, SP_SECRET_MAX + 1);
	size_t len = got > 0 ? (size_t)got : 0;

	if (got < 0) {
		*why = sp_user_file_error((int)got);
		return (int)got;
	}
	while (len != 0 && (buf[len - 1] == '\n' || buf[len - 1] == '\r'))
		len--;
	*why = NULL;
	if (got > (ssize_t)SP_SECRET_MAX)
		*why = "it is larger than 16 KiB";
	else if (len == 0)
		*why = "it is empty";
	else if (memchr(buf, '\0', len) != NULL)
		*why = "it is not text";
	buf[len] = '\0';
	return *why != NULL ? -EINVAL : 0;
}

int sp_secret_read(struct sp_secret *s, const char **why)
{
	char buf[SP_SECRET_MAX + 2];
	char *content = NULL;
	int rc;

	if (s->path == NULL)
		return 0;
	rc = content_of(s->path, buf, why);
	if (rc == 0 && (s->latest == NULL || strcmp(s->latest, buf) != 0)) {
		content = strdup(buf);
		rc = content != NULL ? 1 : -ENOMEM;
		*why = "out of memory";
	}
	explicit_bzero(buf, sizeof(buf));
	if (rc == 1) {
		forget(s->content);
		s->content = content;
		s->latest = content;
	}
	return rc;
}
