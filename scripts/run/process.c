/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever started a process wrote its environment and chose what it maps, and whoever looks at it may be
 * root. A path of that process, opened with root's rights or in another root, would be another file than the
 * process sees, or one that it may not read. So a process is looked at by its own user or by root, from
 * where it runs: in its root, its mounts and its pid namespace. Anybody else is told who should ask, and
 * where. Context: spanprof-run --check --pid; one thread.
 */
#define _GNU_SOURCE
#include "scripts/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRONMENT_MAX ((size_t)4 << 20)
#define VARIABLES_MAX 16384U
#define STATUS_MAX ((size_t)64 << 10)
#define AUXV_MAX 4096U
#define WHY_MAX 256U

/* At most max bytes; a NUL follows. NULL = it cannot be read. *len may be NULL. */
static char *read_proc(const struct sp_process *p, const char *name, size_t max, size_t *len)
{
	int fd = openat(p->proc, name, O_RDONLY | O_CLOEXEC);
	char *data = fd >= 0 ? malloc(max + 1) : NULL;
	size_t have = 0;
	ssize_t got = data != NULL ? 1 : -1;

	while (got > 0 && have < max && (got = read(fd, data + have, max - have)) > 0)
		have += (size_t)got;
	if (fd >= 0)
		(void)close(fd);
	if (got < 0) {
		free(data);
		return NULL;
	}
	data[have] = '\0';
	if (len != NULL)
		*len = have;
	return data;
}

/* The program's name, which comes first, may hold anything but a line break. */
static bool read_user(struct sp_process *p)
{
	char *status = read_proc(p, "status", STATUS_MAX, NULL);
	const char *line = status != NULL ? strstr(status, "\nUid:") : NULL;
	char *end;
	bool ok = line != NULL;

	if (ok) {
		/* The real one comes first. */
		(void)strtoul(line + strlen("\nUid:"), &end, 10);
		p->uid = (uid_t)strtoul(end, NULL, 10);
	}
	free(status);
	return ok;
}

/* AT_SECURE in an array of pairs of that size; -1 = it is none, or has no such entry. */
static int secure_of(const char *auxv, size_t len, size_t word)
{
	for (size_t at = 0; at + 2 * word <= len; at += 2 * word) {
		uint64_t type = 0;
		uint64_t value = 0;

		memcpy(&type, auxv + at, word);
		memcpy(&value, auxv + at + word, word);
		if (type == AT_SECURE)
			return value != 0;
	}
	return -1;
}

/* What the kernel told the program's loader when it began. Unknown counts as secure. */
static bool is_secure(const struct sp_process *p)
{
	size_t len = 0;
	char *auxv = read_proc(p, "auxv", AUXV_MAX, &len);
	int secure = auxv != NULL ? secure_of(auxv, len, sizeof(uint64_t)) : -1;

	if (auxv != NULL && secure < 0)
		secure = secure_of(auxv, len, sizeof(uint32_t));
	free(auxv);
	return secure != 0;
}

static bool read_environment(struct sp_process *p)
{
	size_t len = 0;
	size_t n = 0;

	p->strings = read_proc(p, "environ", ENVIRONMENT_MAX, &len);
	p->environment = calloc(VARIABLES_MAX + 1, sizeof(*p->environment));
	if (p->strings == NULL || p->environment == NULL)
		return false;
	for (size_t at = 0; at < len && n < VARIABLES_MAX; at += strlen(p->strings + at) + 1)
		p->environment[n++] = p->strings + at;
	return true;
}

/* What both links name is one and the same, as far as can be seen. */
static bool is_same(const struct sp_process *p, const char *theirs)
{
	char ours[64];
	struct stat a;
	struct stat b;

	(void)snprintf(ours, sizeof(ours), "/proc/self/%s", theirs);
	return fstatat(p->proc, theirs, &a, 0) == 0 && stat(ours, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool look(struct sp_process *p, char why[WHY_MAX])
{
	ssize_t n;

	if (!read_user(p)) {
		(void)snprintf(why, WHY_MAX, "it has ended");
		return false;
	}
	if (geteuid() != 0 && geteuid() != p->uid) {
		(void)snprintf(why, WHY_MAX,
			       "it is a process of user %u: run this as that user or as root",
			       (unsigned)p->uid);
		return false;
	}
	p->maps = openat(p->proc, "maps", O_RDONLY | O_CLOEXEC);
	if (p->maps < 0 || !read_environment(p)) {
		(void)snprintf(why, WHY_MAX,
			       "it does not let its own user look at it: run this as root");
		return false;
	}
	if (!is_same(p, "root") || !is_same(p, "ns/mnt") || !is_same(p, "ns/pid")) {
		(void)snprintf(why, WHY_MAX,
			       "it runs in another container or root: run this in there");
		return false;
	}
	p->secure = is_secure(p);
	p->exe = openat(p->proc, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	n = readlinkat(p->proc, "exe", p->path, sizeof(p->path) - 1);
	p->path[n > 0 ? n : 0] = '\0';
	return true;
}

bool sp_process_open(pid_t pid, struct sp_process *p, char why[WHY_MAX])
{
	char folder[32];

	memset(p, 0, sizeof(*p));
	p->maps = p->exe = -1;
	(void)snprintf(folder, sizeof(folder), "/proc/%d", (int)pid);
	p->proc = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->proc < 0) {
		(void)snprintf(why, WHY_MAX, "%s",
			       errno == ENOENT ? "there is no such process" : strerror(errno));
		return false;
	}
	if (look(p, why))
		return true;
	sp_process_close(p);
	return false;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void sp_process_close(struct sp_process *p)
{
	close_one(&p->proc);
	close_one(&p->maps);
	close_one(&p->exe);
	free(p->strings);
	free(p->environment);
	p->strings = NULL;
	p->environment = NULL;
}
