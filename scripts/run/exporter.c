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

/* What a list of mappings tells. The key is device and inode: "00:01 4711". */
struct seen {
	char key[KEY_MAX];
	bool object; /* libspanprof.so is there, so it is a profiled process itself */
};

/* "start-end perms offset dev inode   path" */
static void look_at_line(char *line, struct seen *out)
{
	char *path = strchr(line, '/');
	const char *slash;
	char device[16];
	char inode[24];

	if (path == NULL)
		return;
	path[strcspn(path, "\n")] = '\0';
	slash = strrchr(path, '/');
	out->object = out->object || strcmp(slash + 1, SP_OBJECT_NAME) == 0;
	if (strncmp(path, REGION, sizeof(REGION) - 1) == 0 &&
	    sscanf(line, "%*s %*s %*s %15s %23s", device, inode) == 2)
		(void)snprintf(out->key, sizeof(out->key), "%s %s", device, inode);
}

/* Takes the descriptor. */
static void look_at(int fd, struct seen *out)
{
	static char line[MAPS_LINE];
	FILE *maps = fdopen(fd, "r");

	*out = (struct seen){.object = false};
	for (unsigned n = 0; maps != NULL && n < MAPPINGS_MAX && fgets(line, sizeof(line), maps);
	     n++)
		look_at_line(line, out);
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

static bool shares(int proc, const char *pid, const char *key)
{
	struct seen other;
	char path[NAME_MAX + sizeof("/maps")];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/maps", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (errno == EACCES || errno == EPERM) && is_named_so(proc, pid);
	look_at(fd, &other);
	return !other.object && strcmp(other.key, key) == 0;
}

enum sp_exporter_of sp_exporter_of(const struct sp_process *p)
{
	enum sp_exporter_of found = SP_EXPORTER_OF_ENDED;
	struct seen host = {.object = false};
	int fd = dup(p->maps);
	DIR *all;

	if (fd >= 0)
		look_at(fd, &host);
	(void)lseek(p->maps, 0, SEEK_SET);
	if (host.key[0] == '\0')
		return SP_EXPORTER_OF_NONE;
	all = opendir("/proc");
	for (struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || strlen(e->d_name) > 10)
			continue;
		if (shares(dirfd(all), e->d_name, host.key)) {
			found = SP_EXPORTER_OF_FOUND;
			break;
		}
	}
	if (all != NULL)
		(void)closedir(all);
	return found;
}
