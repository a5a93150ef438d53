/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process that shares a profiled process's memory. */
#define _GNU_SOURCE
#include "scripts/run/exporter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scripts/run/object.h"

#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U
#define REGION "/memfd:spanprof"
/* As far as the kernel keeps the name of a program. */
#define COMM "spanprof-export"
#define KEY_MAX 64U

/* Of regions that a process has mapped: one, and those of exporters that have ended since. */
#define KEYS_MAX 8U

struct keys {
	char key[KEYS_MAX][KEY_MAX]; /* device and inode: "00:01 4711" */
	unsigned n;
};

/* What a list of mappings tells. */
struct seen {
	struct keys regions;
	bool object; /* libspanprof.so is there, so it is a profiled process itself */
	bool shared; /* one of the regions that were asked for is */
};

static bool has(const struct keys *k, const char *key)
{
	for (unsigned i = 0; i < k->n; i++)
		if (strcmp(k->key[i], key) == 0)
			return true;
	return false;
}

/* "start-end perms offset dev inode   path" */
static void look_at_line(char *line, const struct keys *asked, struct seen *out)
{
	char *path = strchr(line, '/');
	struct keys *found = &out->regions;
	const char *slash;
	char device[16];
	char inode[24];
	char key[KEY_MAX];

	if (path == NULL)
		return;
	path[strcspn(path, "\n")] = '\0';
	slash = strrchr(path, '/');
	out->object = out->object || strcmp(slash + 1, SP_OBJECT_NAME) == 0;
	if (strncmp(path, REGION, sizeof(REGION) - 1) != 0 ||
	    sscanf(line, "%*s %*s %*s %15s %23s", device, inode) != 2)
		return;
	(void)snprintf(key, sizeof(key), "%s %s", device, inode);
	out->shared = out->shared || (asked != NULL && has(asked, key));
	if (found->n < KEYS_MAX && !has(found, key))
		memcpy(found->key[found->n++], key, sizeof(key));
}

/* Takes the descriptor. */
static void look_at(int fd, const struct keys *asked, struct seen *out)
{
	static char line[MAPS_LINE];
	FILE *maps = fdopen(fd, "r");

	*out = (struct seen){.object = false};
	for (unsigned n = 0; maps != NULL && n < MAPPINGS_MAX && fgets(line, sizeof(line), maps);
	     n++)
		look_at_line(line, asked, out);
	if (maps != NULL)
		(void)fclose(maps);
	else
		(void)close(fd);
}

/* One that we may not look into is taken for what its name says. */
static bool is_named_so(int proc, const char *pid)
{
	char path[NAME_MAX + sizeof("/comm")];
	char name[sizeof(COMM)] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "%s/comm", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	(void)close(fd);
	return strcmp(name, COMM) == 0;
}

static bool shares(int proc, const char *pid, const struct keys *regions)
{
	struct seen other;
	char path[NAME_MAX + sizeof("/maps")];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/maps", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (errno == EACCES || errno == EPERM) && is_named_so(proc, pid);
	look_at(fd, regions, &other);
	return !other.object && other.shared;
}

enum sp_exporter_of sp_exporter_of(const struct sp_process *p)
{
	enum sp_exporter_of found = SP_EXPORTER_OF_ENDED;
	struct seen host = {.object = false};
	int fd = dup(p->maps);
	DIR *all;

	if (fd >= 0)
		look_at(fd, NULL, &host);
	(void)lseek(p->maps, 0, SEEK_SET);
	if (host.regions.n == 0)
		return SP_EXPORTER_OF_NONE;
	all = opendir("/proc");
	for (struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || strlen(e->d_name) > 10)
			continue;
		if (shares(dirfd(all), e->d_name, &host.regions)) {
			found = SP_EXPORTER_OF_FOUND;
			break;
		}
	}
	if (all != NULL)
		(void)closedir(all);
	return found;
}
