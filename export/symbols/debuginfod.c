/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elfutils' client library for debuginfod servers, loaded only if the user set DEBUGINFOD_URLS. The library has a
 * cache on disk, which other tools share and which its own settings bound. The library itself reads the variable. No
 * descriptor is open between two calls. Context: the exporter.
 */
#include "export/symbols/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/symbols/elf_file.h"
#include "export/util/clock.h"
#include "sampler/base/compiler.h"

#define PAUSE_NS (60 * SP_NS_PER_S)
#define PAUSE_MAX_NS (3600 * SP_NS_PER_S)
#define FAILED_MAX 256U
/*
 * The limit for a debug file. Without a limit, a server that sends for ever would fill the disk, or
 * a file system in memory, for SP_DEBUGINFOD_MS. For larger debug files, such as those of browsers,
 * the user sets DEBUGINFOD_MAXSIZE.
 */
#define BYTES_MAX (1L << 30)

typedef struct debuginfod_client client;
typedef int (*progress)(client *c, long done, long of);

struct sp_debuginfod {
	client *(*begin)(void);
	void (*end)(client *c);
	int (*find)(client *c, const unsigned char *id, int id_len, char **path);
	void (*set_progress)(client *c, progress fn);
	sp_debuginfod_go_on go_on;
	void *arg;
	uint64_t deadline_ns;
	long bytes_max;
	uint64_t again_ns; /* no server is asked before this time */
	/*
	 * Hashes of builds for which servers gave no answer. The next questions are for other
	 * builds.
	 */
	uint64_t failed[FAILED_MAX];
	unsigned failed_n;
	uint64_t failed_again_ns, failed_pause_ns;
	bool is_cancelled;
	bool is_late;
	bool is_large;
	bool has_begun; /* the size of the file is known */
};

/* The download that the library reports. One thread fetches, one file at a time. */
static struct sp_debuginfod *fetching;

/* The library calls this during a download: 0 = go on, anything else = give the download up. */
static int on_progress(client *c, long done, long of)
{
	(void)c;
	fetching->has_begun = of > 0;
	fetching->is_cancelled = !fetching->go_on(fetching->arg);
	fetching->is_late = sp_clock_mono_ns() >= fetching->deadline_ns;
	fetching->is_large = done > fetching->bytes_max || of > fetching->bytes_max;
	return fetching->is_cancelled || fetching->is_late || fetching->is_large;
}

/* dlsym returns an object pointer; POSIX promises that it can be called. */
static bool find_symbol(void *lib, const char *name, void *function)
{
	void *at = dlsym(lib, name);

	memcpy(function, &at, sizeof(at));
	return at != NULL;
}

/*
 * The folders where distributions install it. A name without a folder would be searched in LD_LIBRARY_PATH and in the
 * program's run path, where others may be able to write. The first file that loads is used; the folders of another
 * processor contain objects that do not load.
 */
static void *open_library(void)
{
	static const char *const folder[] = {
#if defined(__x86_64__)
		"/usr/lib/x86_64-linux-gnu",
		"/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
		"/usr/lib/aarch64-linux-gnu",
		"/lib/aarch64-linux-gnu",
#endif
		"/usr/lib64",
		"/lib64",
		"/usr/lib",
		"/lib",
	};
	char path[64];
	void *lib = NULL;

	for (size_t i = 0; lib == NULL && i < sizeof(folder) / sizeof(folder[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/libdebuginfod.so.1", folder[i]);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return lib;
}

struct sp_debuginfod *sp_debuginfod_new(sp_debuginfod_go_on go_on, void *arg)
{
	void *lib = open_library();
	struct sp_debuginfod *d = lib != NULL ? calloc(1, sizeof(*d)) : NULL;

	if (d == NULL)
		return NULL;
	d->go_on = go_on;
	d->arg = arg;
	if (find_symbol(lib, "debuginfod_begin", (void *)&d->begin) &&
	    find_symbol(lib, "debuginfod_end", (void *)&d->end) &&
	    find_symbol(lib, "debuginfod_find_debuginfo", (void *)&d->find) &&
	    find_symbol(lib, "debuginfod_set_progressfn", (void *)&d->set_progress))
		return d;
	free(d);
	return NULL;
}

/* The library stays loaded, because threads that it has started may not survive its unloading. */
void sp_debuginfod_free(struct sp_debuginfod *d)
{
	free(d);
}

static bool has_failed(const struct sp_debuginfod *d, uint64_t key)
{
	for (unsigned i = 0; i < d->failed_n && i < FAILED_MAX; i++)
		if (d->failed[i] == key)
			return true;
	return false;
}

/*
 * While a server is away, or slow with one file, each question takes SP_DEBUGINFOD_MS of the only
 * thread that names addresses. So after a question without an answer no server is asked for a
 * minute, and then for other builds first.
 */
static int answer_of(struct sp_debuginfod *d, uint64_t key, int fd)
{
	uint64_t now = sp_clock_mono_ns();

	if (fd >= 0 || fd == -ENOENT || fd == -ENOSYS) {
		if (has_failed(d, key))
			d->failed_pause_ns = 0;
		return fd;
	}
	if (!has_failed(d, key))
		d->failed[d->failed_n++ % FAILED_MAX] = key;
	d->failed_pause_ns = d->failed_pause_ns == 0 ? 2 * PAUSE_NS : 2 * d->failed_pause_ns;
	if (d->failed_pause_ns > PAUSE_MAX_NS)
		d->failed_pause_ns = PAUSE_MAX_NS;
	d->again_ns = now + PAUSE_NS;
	d->failed_again_ns = now + d->failed_pause_ns;
	return fd;
}

static bool may_write_into(const char *folder, const char *name)
{
	char path[SP_DEBUG_PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s%s", folder, name);
	return eaccess(path, W_OK) == 0;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The library makes its folder before it asks a server: the last part of its path, and .cache in the home. */
static bool has_folder(void)
{
	const char *named = variable("DEBUGINFOD_CACHE_PATH");
	const char *caches = variable("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (named != NULL)
		return may_write_into(named, "");
	if (home == NULL)
		home = "/";
	return may_write_into(home, "/.debuginfod_client_cache") ||
	       (caches != NULL ? may_write_into(caches, "/debuginfod_client")
			       : may_write_into(home, "/.cache/debuginfod_client"));
}

/* -ENOENT may mean that the folder's parent is missing, or that no server has the build. */
bool sp_debuginfod_complains(int answer, char *text, size_t cap)
{
	if (answer >= 0 || answer == -EAGAIN || answer == -ENOSYS)
		return false;
	if (!has_folder())
		(void)snprintf(text, cap,
			       "debuginfod servers are not asked, because there is no folder for "
			       "their files (%s): set DEBUGINFOD_CACHE_PATH to a folder that the "
			       "program's user may write to",
			       strerror(-answer));
	else if (answer != -ENOENT)
		(void)snprintf(text, cap,
			       "the servers of DEBUGINFOD_URLS gave no answer (%s): they are asked "
			       "again later",
			       strerror(-answer));
	else
		return false;
	return true;
}

static long most_bytes(void)
{
	const char *named = variable("DEBUGINFOD_MAXSIZE");
	long bytes = named != NULL ? strtol(named, NULL, 10) : 0;

	return bytes > 0 ? bytes : BYTES_MAX;
}

int sp_debuginfod_fetch(struct sp_debuginfod *d, const uint8_t *id, size_t id_len, char *path,
			size_t cap)
{
	char *found = NULL;
	uint64_t now = sp_clock_mono_ns();
	uint64_t key = 0;
	struct stat st;
	client *c;
	int fd;

	memcpy(&key, id, id_len < sizeof(key) ? id_len : sizeof(key));
	if (now < d->again_ns || (now < d->failed_again_ns && has_failed(d, key)))
		return -EAGAIN;
	c = d->begin();
	if (c == NULL)
		return -ENOMEM;
	d->deadline_ns = now + SP_DEBUGINFOD_MS * SP_NS_PER_MS;
	d->bytes_max = most_bytes();
	fetching = d;
	d->is_cancelled = d->is_late = d->is_large = d->has_begun = false;
	d->set_progress(c, on_progress);
	fd = d->find(c, id, (int)id_len, &found);
	d->end(c);
	/* A file of unknown length may have arrived before the library reported anything. */
	if (fd >= 0 && found != NULL && fstat(fd, &st) == 0 && st.st_size > d->bytes_max) {
		(void)unlink(found);
		(void)close(fd);
		fd = -EFBIG;
	}
	if (fd >= 0)
		(void)snprintf(path, cap, "%s", found != NULL ? found : "");
	free(found);
	if (fd < 0 && d->is_cancelled)
		return -EAGAIN;
	/* The file is larger than BYTES_MAX, or than DEBUGINFOD_MAXSIZE allows. */
	if (fd == -EFBIG || (fd < 0 && d->is_large))
		fd = -ENOENT;
	/*
	 * If a download began but did not end in SP_DEBUGINFOD_MS, the next one would not end
	 * either, so the build counts as unknown.
	 */
	if (fd < 0 && d->is_late)
		fd = d->has_begun ? -ENOENT : -ETIMEDOUT;
	return answer_of(d, key, fd);
}
