/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the exporter out of our own folder. BG context: reads /proc/self/maps at most once per process.
 */
#include "preload/exporter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "preload/elf_walk.h"
#include "preload/resolve.h"
#include "sampler/log.h"

#define EXPORTER "libspanprof-export.so"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static bool beside(const char *own, char out[SP_EXPORTER_PATH_MAX])
{
	const char *slash = strrchr(own, '/');
	size_t dir;

	if (own[0] != '/' || slash == NULL)
		return false;
	dir = (size_t)(slash - own) + 1;
	if (dir + sizeof(EXPORTER) > SP_EXPORTER_PATH_MAX)
		return false;
	memcpy(out, own, dir);
	memcpy(out + dir, EXPORTER, sizeof(EXPORTER));
	return true;
}

/* The path of "start-end perms offset dev inode   path" when start is where we are loaded. */
static const char *path_if_ours(const char *line)
{
	uintptr_t start = 0;

	for (; *line != '-' && *line != '\0'; line++) {
		unsigned c = (unsigned char)*line;

		start = start * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return start == (uintptr_t)__ehdr_start ? strchr(line, '/') : NULL;
}

/* One line at a time through a window; lines longer than it cannot be ours. */
static bool from_maps(char out[SP_EXPORTER_PATH_MAX])
{
	char buf[2 * SP_EXPORTER_PATH_MAX];
	size_t have = 0;
	bool found = false;
	ssize_t got;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!found && (got = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		char *line = buf;
		char *end;

		have += (size_t)got;
		buf[have] = '\0';
		while (!found && (end = strchr(line, '\n')) != NULL) {
			*end = '\0';
			const char *path = path_if_ours(line);

			found = path != NULL && beside(path, out);
			line = end + 1;
		}
		have -= (size_t)(line - buf);
		if (have == sizeof(buf) - 1)
			have = 0;
		memmove(buf, line, have);
	}
	(void)close(fd);
	return found;
}

bool sp_exporter_path(char out[SP_EXPORTER_PATH_MAX])
{
	return beside(sp_elf_own_path(), out) || from_maps(out);
}

sp_exporter_entry sp_exporter_load(void)
{
	char path[SP_EXPORTER_PATH_MAX];
	__typeof__(&dlopen) open_object = SP_NEXT(dlopen);
	__typeof__(&dlsym) find = SP_NEXT(dlsym);
	__typeof__(&dlerror) why = SP_NEXT(dlerror);
	void *object;
	void *entry;

	if (open_object == NULL || find == NULL || why == NULL) {
		sp_log(SP_LOG_WARN, "this program has no dlopen: not profiling this process");
		return NULL;
	}
	if (!sp_exporter_path(path)) {
		sp_log(SP_LOG_WARN, "cannot tell where libspanprof.so was loaded from: "
				    "not profiling this process");
		return NULL;
	}
	object = open_object(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (object == NULL) {
		sp_log(SP_LOG_WARN, "cannot load the exporter: %s: not profiling this process",
		       why());
		return NULL;
	}
	entry = find(object, SP_EXPORT_ENTRY);
	if (entry == NULL)
		sp_log(SP_LOG_WARN,
		       "cannot load the exporter: no " SP_EXPORT_ENTRY
		       " in %s: not profiling this process",
		       path);
	return (sp_exporter_entry)entry;
}
