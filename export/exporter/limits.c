/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that the exporter sets for itself (limits.h). Context: the exporter, at start. */
#define _GNU_SOURCE
#include "export/exporter/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <ucontext.h>
#include <unistd.h>

#include "export/util/losses.h"
#include "sampler/base/compiler.h"

#define MIB (UINT64_C(1) << 20)
/* The usual default, which is enough for libdw and libcurl. */
#define STACK_BYTES ((size_t)(8 * MIB))
/*
 * Half of it is for symbols (sp_lines_memory(), which reads the limit), the rest for samples of an
 * interval (25 MiB at most), eight profiles that wait (some MiB each), span names (17 MiB),
 * libcurl, TLS and the C library (30 MiB). This is the worst case; about 30 MiB in all were
 * measured.
 */
#define DATA (512 * MIB)
/*
 * At most one fourth of our container's limit: that limit was chosen for the program, and if it is
 * exceeded, the kernel kills the program, the exporter, or both.
 */
#define DATA_SHARE 4
/*
 * In a small container: 35 MiB were measured with small objects, 24 of them stacks that no thread
 * has touched.
 */
#define DATA_MIN (96 * MIB)
/*
 * The limit of addresses has to be larger: objects and their debug files are mapped whole and
 * read-only, which costs no memory that the kernel could not take back, and does not count as data.
 * Debug files of browsers have 2 to 4 GiB; one more is opened before others are closed
 * (SP_ELF_MAPPED_MAX).
 */
#define MAPPED (16384 * MIB)
#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h: CGROUP2_SUPER_MAGIC */

static void raise_to_hard(__rlimit_resource_t resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(resource, &limit);
}

/*
 * A limit of 0 prevents a core file, but not a program that the kernel pipes cores to; a limit of 1
 * prevents both (core(5)). A process may not raise its hard limit from 0 to 1; then the core
 * contains no memory.
 */
static void write_no_core(void)
{
	const struct rlimit one = {1, 1};
	int fd;

	if (setrlimit(RLIMIT_CORE, &one) == 0)
		return;
	fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "0", 1) < 0)
		errno = 0;
	if (fd >= 0)
		(void)close(fd);
}

/*
 * Signals are ignored for two reasons. systemd sends SIGTERM to every process of a unit at once,
 * but the exporter has to live until the host has ended and its last samples are sent. A write of a
 * message to the host's stderr can raise SIGPIPE, SIGXFSZ or SIGTTOU, which would end or stop the
 * exporter.
 */
void sp_limits_detach(void)
{
	static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE, SIGXFSZ,
				      SIGTTOU, SIGTTIN, SIGTSTP, SIGUSR1, SIGUSR2, SIGALRM};
	static const __rlimit_resource_t raised[] = {RLIMIT_AS,    RLIMIT_DATA, RLIMIT_STACK,
						     RLIMIT_FSIZE, RLIMIT_CPU,  RLIMIT_NOFILE};
	const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
	sigset_t nothing;

	for (size_t i = 0; i < SP_ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)sigemptyset(&nothing);
	(void)sigprocmask(SIG_SETMASK, &nothing, NULL);
	write_no_core();
	/*
	 * We have inherited the host's soft limits, which were chosen for the host and may be too
	 * low for us. Its hard limits cannot be raised.
	 */
	for (size_t i = 0; i < SP_ARRAY_LEN(raised); i++)
		raise_to_hard(raised[i]);
	/*
	 * RLIMIT_NPROC counts our threads, too, if we change to the user that the host has become.
	 * Root may raise even the hard limit.
	 */
	if (setrlimit(RLIMIT_NPROC, &any) != 0)
		raise_to_hard(RLIMIT_NPROC);
	/* We execute no program that could give us rights. */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_NAME, SP_STATUS_COMM, 0, 0, 0);
	/* A file system cannot be unmounted while it has the working directory of a process. */
	if (chdir("/") != 0)
		errno = 0;
}

static int (*large_stack_fn)(void);
static int large_stack_result;

static void on_large_stack(void)
{
	large_stack_result = large_stack_fn();
}

int sp_limits_on_large_stack(int (*fn)(void))
{
	static ucontext_t here;
	static ucontext_t there;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	/* Go on with the present stack, which may be large enough. */
	if (stack == MAP_FAILED || mprotect(stack, (size_t)getpagesize(), PROT_NONE) != 0 ||
	    getcontext(&there) != 0)
		return fn();
	large_stack_fn = fn;
	there.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
	there.uc_link = &here;
	makecontext(&there, on_large_stack, 0);
	return swapcontext(&here, &there) == 0 ? large_stack_result : fn();
}

static void lower(__rlimit_resource_t resource, uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) != 0)
		return;
	if (limit.rlim_max > bytes)
		limit.rlim_max = bytes;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(resource, &limit);
}

/*
 * Reads a file of a folder, whoever wrote it, without ever waiting. Returns the length of the text,
 * or a negative errno.
 */
static ssize_t read_text(const char *folder, const char *name, char *text, size_t cap)
{
	char path[PATH_MAX];
	ssize_t got;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	got = read(fd, text, cap - 1);
	if (got < 0)
		got = -errno;
	(void)close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got;
}

/* The folder of a cgroup, whose path ends at the line break. False if there is no such path. */
static bool find_folder(const char *root, const char *cgroup, char folder[PATH_MAX])
{
	int len = snprintf(folder, PATH_MAX, "%s%.*s", root, (int)strcspn(cgroup, "\n"), cgroup);

	return len >= 0 && len < PATH_MAX && strstr(folder + strlen(root), "/..") == NULL;
}

/* Changes it to the folder of the parent cgroup. False if there is none. */
static bool go_up(const char *root, char *folder)
{
	char *slash = strrchr(folder + strlen(root), '/');

	if (slash != NULL)
		*slash = '\0';
	return slash != NULL;
}

/*
 * The smallest limit of the cgroup and of those above it. If a container has only its own cgroup
 * mounted, as the root, but sees the path of the whole machine, the folders of that path do not
 * exist.
 */
static uint64_t least_limit(const char *root, const char *cgroup, const char *name)
{
	uint64_t least = UINT64_MAX;
	char folder[PATH_MAX];
	char text[32] = "";

	if (!find_folder(root, cgroup, folder))
		return least;
	do {
		char *end = text;
		uint64_t limit = 0;

		if (read_text(folder, name, text, sizeof(text)) > 0)
			limit = strtoull(text, &end, 10);
		/* "max" means no limit. */
		if (end != text && limit < least)
			least = limit;
	} while (go_up(root, folder));
	return least;
}

uint64_t sp_limits_data(const char *cgroups, const char *root)
{
	uint64_t least = UINT64_MAX;
	char v1[PATH_MAX];

	(void)snprintf(v1, sizeof(v1), "%s/memory", root);
	for (const char *line = cgroups; line != NULL; line = strchr(line, '\n')) {
		const char *kinds, *path;
		uint64_t limit = UINT64_MAX;

		line += line[0] == '\n';
		kinds = line + strcspn(line, ":\n");
		path = kinds[0] == ':' ? kinds + 1 + strcspn(kinds + 1, ":\n") : kinds;
		if (path == kinds + 1 && path[0] == ':')
			limit = least_limit(root, path + 1, "memory.max");
		else if (path[0] == ':' &&
			 memmem(kinds, (size_t)(path - kinds), "memory", 6) != NULL)
			limit = least_limit(v1, path + 1, "memory.limit_in_bytes");
		if (limit < least)
			least = limit;
	}
	least /= DATA_SHARE;
	return least < DATA_MIN ? DATA_MIN : least < DATA ? least : DATA;
}

void sp_limits_memory(void)
{
	static char cgroups[4 * PATH_MAX];
	uint64_t data;

	(void)read_text("/proc/self", "cgroup", cgroups, sizeof(cgroups));
	data = sp_limits_data(cgroups, "/sys/fs/cgroup");
	/*
	 * Several malloc arenas would cost memory, and our threads seldom allocate at the same
	 * time.
	 */
	(void)mallopt(M_ARENA_MAX, 1);
	/*
	 * The default value. Setting it stops malloc from raising it, so that large buffers go back
	 * to the kernel.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
	/* RLIMIT_DATA: private writable memory, which counts against a container's limit. */
	lower(RLIMIT_DATA, data);
	lower(RLIMIT_AS, data + MAPPED + SP_LIMITS_REGIONS);
}

/*
 * The value of memory.oom.group of that cgroup. 1: when it runs out of memory, the kernel kills all
 * its processes. 0: the kernel kills one. -1: unknown.
 */
static int kills_group(const char *folder)
{
	char text[2] = "";
	ssize_t got = read_text(folder, "memory.oom.group", text, sizeof(text));

	/* A group without the memory controller has no such file. */
	if (got <= 0)
		return got == -ENOENT ? 0 : -1;
	return text[0] == '0' ? 0 : text[0] == '1' ? 1 : -1;
}

/*
 * Whether it is a service of systemd. With OOMPolicy=stop, the default, systemd stops a service
 * when the kernel has killed one of its processes.
 */
static bool is_service(const char *folder)
{
	static const char kind[] = ".service";
	size_t len = strlen(folder);

	return len >= sizeof(kind) && strcmp(folder + len - (sizeof(kind) - 1), kind) == 0;
}

/*
 * Checks the cgroup and all above it: each may have a memory limit, and the setting of the one
 * whose limit is exceeded decides whether a process dies alone.
 */
bool sp_limits_dies_alone(const char *cgroup, const char *root)
{
	char folder[PATH_MAX];

	if (strncmp(cgroup, "0::/", 4) != 0 || !find_folder(root, cgroup + 3, folder) ||
	    access(folder, F_OK) != 0)
		return false;
	do {
		if (kills_group(folder) != 0 || is_service(folder))
			return false;
	} while (go_up(root, folder));
	return true;
}

/* Only under pure cgroup v2. Elsewhere the kernel decides, as it does for the host. */
void sp_limits_offer(void)
{
	static const char most[] = "1000"; /* the kernel kills this process first */
	char text[PATH_MAX];
	struct statfs fs;
	int fd;

	if (statfs("/sys/fs/cgroup", &fs) != 0 || fs.f_type != CGROUP2_MAGIC ||
	    read_text("/proc/self", "cgroup", text, sizeof(text)) <= 0 ||
	    !sp_limits_dies_alone(text, "/sys/fs/cgroup"))
		return;
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, most, sizeof(most) - 1) < 0)
		errno = 0;
	(void)close(fd);
}
