/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies and watches a host, through /proc and a pidfd (host.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/exporter/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "export/objects/maps.h"
#include "export/util/clock.h"
#include "sampler/base/process.h"

#define PIDFD_OPEN_NR 434L /* the same everywhere; headers may be older */
#define PROC_MAGIC 0x9fa0  /* linux/magic.h: PROC_SUPER_MAGIC */
/*
 * Most maps of 65,530 mappings (the kernel's default limit) fit. With paths of 4,096 bytes it is
 * the text of 16,000 mappings.
 */
#define MAPS_BYTES_MAX ((off_t)64 << 20)
/* At most this many threads are tried to find one that lives. */
#define TASKS_ASKED 64U

ssize_t sp_host_read(const struct sp_host *h, const char *name, char *buf, size_t cap)
{
	size_t have = 0;
	ssize_t got = 0;
	int fd;

	fd = h->proc >= 0 ? openat(h->proc, name, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	if (fd < 0)
		return h->proc >= 0 ? -errno : -ENOENT;
	while (have < cap - 1 && (got = read(fd, buf + have, cap - 1 - have)) > 0)
		have += (size_t)got;
	if (got < 0)
		got = -errno;
	(void)close(fd);
	buf[have] = '\0';
	return got < 0 ? got : (ssize_t)have;
}

uint64_t sp_host_own_start(void)
{
	struct sp_host self = {.proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	char text[1024];
	uint64_t time = 0;
	char state;

	if (sp_host_read(&self, "stat", text, sizeof(text)) > 0)
		time = sp_proc_stat(text, SP_STAT_START, &state);
	if (self.proc >= 0)
		(void)close(self.proc);
	return time;
}

/*
 * If nobody has mounted a /proc for our pid namespace, the numbers in /proc belong to other
 * processes.
 */
static bool numbers_are_ours(void)
{
	char text[16];
	ssize_t len = readlink("/proc/self", text, sizeof(text) - 1);

	text[len > 0 ? len : 0] = '\0';
	return strtol(text, NULL, 10) == getpid();
}

enum shown { SHOWN, NOT_SHOWN, NO_MEMORY, UNKNOWN };

/*
 * What the next line of a memory map says about that file at that address; the lines are in order.
 */
static enum shown line_shows(const char *line, uint64_t address, ino_t inode)
{
	struct sp_map map;
	const char *path;

	if (!sp_maps_line(line, &map, &path) || map.end <= address)
		return UNKNOWN;
	return address >= map.start && map.inode == inode ? SHOWN : NOT_SHOWN;
}

/*
 * Whether a memory map shows the region. A map without any line says that the memory is gone. A map
 * that could not be read up to the region's address says nothing.
 */
static enum shown shows_region(int maps, uint64_t address, ino_t inode)
{
	char text[8192];
	size_t have = 0;
	off_t at = 0;
	ssize_t got;

	while (at < MAPS_BYTES_MAX &&
	       (got = pread(maps, text + have, sizeof(text) - 1 - have, at)) > 0) {
		char *line = text;
		char *end;

		at += got;
		have += (size_t)got;
		text[have] = '\0';
		for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
			enum shown shown;

			*end = '\0';
			shown = line_shows(line, address, inode);
			if (shown != UNKNOWN)
				return shown;
		}
		have = strlen(line);
		/* A path may be as long as the buffer; only the beginning of the line is needed. */
		have = have < sizeof(text) / 2 ? have : 0;
		memmove(text, line, have);
	}
	if (at == 0)
		return got == 0 || errno == ESRCH ? NO_MEMORY : UNKNOWN;
	return got == 0 ? NOT_SHOWN : UNKNOWN;
}

static DIR *open_tasks(const struct sp_host *h)
{
	int fd = h->proc >= 0 ? openat(h->proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

	if (folder == NULL && fd >= 0)
		(void)close(fd);
	return folder;
}

/* The next thread id; 0 = there are no more. */
static uint32_t next_task(DIR *folder)
{
	const struct dirent *entry = folder != NULL ? readdir(folder) : NULL;

	while (entry != NULL && entry->d_name[0] == '.')
		entry = readdir(folder);
	return entry != NULL ? (uint32_t)strtoul(entry->d_name, NULL, 10) : 0;
}

/*
 * Opens the present memory map and says what it shows. If the first thread has ended before the
 * others, its map is empty, and any other thread has the same map. -1 = it may not be read.
 */
static int open_present_maps(const struct sp_host *h, enum shown *shown)
{
	int maps = h->proc >= 0 ? openat(h->proc, "maps", O_RDONLY | O_CLOEXEC) : -1;
	DIR *folder = NULL;
	char name[32];
	uint32_t tid;

	*shown = maps >= 0 ? shows_region(maps, h->mapped_at, h->inode) : UNKNOWN;
	if (*shown == NO_MEMORY)
		folder = open_tasks(h);
	for (unsigned i = 0; *shown == NO_MEMORY && i < TASKS_ASKED; i++) {
		int other;

		tid = next_task(folder);
		if (tid == 0)
			break;
		(void)snprintf(name, sizeof(name), "task/%" PRIu32 "/maps", tid);
		other = openat(h->proc, name, O_RDONLY | O_CLOEXEC);
		if (other < 0)
			continue;
		(void)close(maps);
		maps = other;
		*shown = shows_region(maps, h->mapped_at, h->inode);
	}
	if (folder != NULL)
		(void)closedir(folder);
	return maps;
}

/* The descriptor that was handed over, if it belongs to a file of /proc; otherwise -1. */
static int take(int fd, mode_t type)
{
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstatfs(fd, &fs) != 0 || fs.f_type != PROC_MAGIC || fstat(fd, &st) != 0 ||
	    (st.st_mode & S_IFMT) != type) {
		(void)close(fd);
		return -1;
	}
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

void sp_host_decline(const struct sp_host_descriptors *fds)
{
	if (fds->folder >= 0)
		(void)close(fds->folder);
	if (fds->maps >= 0)
		(void)close(fds->maps);
}

/*
 * Whether we have rights that the host may give up without our seeing it, so that we would use them
 * for it.
 */
static bool has_rights_to_lose(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};

	return geteuid() == 0 || syscall(SYS_capget, &head, data) != 0 || data[0].permitted != 0 ||
	       data[1].permitted != 0;
}

/*
 * The process must have the start time that it had before, and be older than we are, because it
 * started us. If its memory map may be read, the region must be in it, which a stranger cannot
 * arrange in another process.
 */
static int prove(struct sp_host *h, bool joined)
{
	char text[1024];
	char state;
	uint64_t own = sp_host_own_start();
	enum shown shown;

	if (h->proc < 0)
		return has_rights_to_lose() ? -ENOTDIR : 0;
	if (sp_host_read(h, "stat", text, sizeof(text)) <= 0)
		return -ESRCH;
	h->start_time = sp_proc_stat(text, SP_STAT_START, &state);
	if (h->start_time == 0 || own == 0 || (h->start_time > own && !joined))
		return -EPERM;
	shown = h->maps >= 0 ? shows_region(h->maps, h->mapped_at, h->inode) : NO_MEMORY;
	/* an ended thread has an empty map */
	if (shown == NO_MEMORY) {
		int now = open_present_maps(h, &shown);

		if (h->maps >= 0 && now >= 0)
			(void)close(h->maps);
		if (now >= 0)
			h->maps = now;
	}
	switch (shown) {
	case NO_MEMORY:
		return -ESRCH;
	case NOT_SHOWN:
		return -EPERM;
	case SHOWN:
	case UNKNOWN:
		break;
	}
	return 0;
}

/*
 * A joining process may hand over the folder of another process with more rights. The kernel tells
 * us the number of the joining process, and we compare. Only if the numbers in /proc differ from
 * ours, we have to trust the folder.
 */
static bool is_own_folder(const struct sp_host_descriptors *fds, bool numbers_ours)
{
	return !fds->joined || (!numbers_ours && !has_rights_to_lose());
}

/*
 * The process that started us may be gone before we look: a signal or a filter killed it, it was
 * told not to wait, or it has executed another program. We send the samples in its region all the
 * same, but read nothing else of it, because its number may be another process's by now. A joining
 * process waits for us, and has to be there.
 */
static int is_gone(struct sp_host *h, int err)
{
	sp_host_close(h);
	h->ended = !h->joined;
	return h->ended ? 0 : err;
}

int sp_host_open(struct sp_host *h, const struct sp_view *v, const struct sp_host_descriptors *fds)
{
	bool numbers_ours = numbers_are_ours();
	char path[32];
	int err;

	/* Checked before any file is opened, because the next file might get these numbers. */
	*h = (struct sp_host){.pid = v->pid,
			      .joined = fds->joined,
			      .proc = take(fds->folder, S_IFDIR),
			      .maps = take(fds->maps, S_IFREG),
			      .mapped_at = v->mapped_at,
			      .inode = v->inode};
	h->pidfd = (int)syscall(PIDFD_OPEN_NR, (pid_t)v->pid, 0);
	if (h->pidfd < 0 && errno == ESRCH)
		return is_gone(h, -ESRCH);
	if (h->proc >= 0 && !is_own_folder(fds, numbers_ours)) {
		(void)close(h->proc);
		h->proc = -1;
	}
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32, v->pid);
	if (h->proc < 0 && numbers_ours)
		h->proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = prove(h, fds->joined);
	/* It lives after that, so pidfd and folder belong to the same process. */
	if (err == 0 && !sp_host_lives(h))
		err = -ESRCH;
	if (err == -ESRCH || err == -EPERM)
		return is_gone(h, err);
	if (err != 0)
		sp_host_close(h);
	else if (clock_getcpuclockid((pid_t)h->pid, &h->clock) != 0)
		h->clock = 0;
	if (err == 0)
		sp_confinement_read(h->proc, NULL, &h->confinement);
	return err;
}

void sp_host_close(struct sp_host *h)
{
	if (h->pidfd >= 0)
		(void)close(h->pidfd);
	if (h->proc >= 0)
		(void)close(h->proc);
	if (h->maps >= 0)
		(void)close(h->maps);
	h->pidfd = h->proc = h->maps = -1;
}

/*
 * Paths with the number of the folder's descriptor are in use, so no other file may get that
 * number: it now refers to something that is not a folder.
 */
void sp_host_bar(const struct sp_host *h)
{
	int nothing = h->pidfd >= 0 ? h->pidfd : STDIN_FILENO;

	if (h->proc >= 0)
		(void)dup3(nothing, h->proc, O_CLOEXEC);
	if (h->maps >= 0)
		(void)dup3(nothing, h->maps, O_CLOEXEC);
}

/*
 * The zombie of the first thread stays while other threads live, and after them until the process
 * is reaped.
 */
static bool has_other_threads(const struct sp_host *h)
{
	DIR *folder = open_tasks(h);
	uint32_t tid = 0;

	while ((tid = next_task(folder)) == h->pid)
		;
	if (folder != NULL)
		(void)closedir(folder);
	return tid != 0;
}

bool sp_host_lives(const struct sp_host *h)
{
	struct pollfd p = {.fd = h->pidfd, .events = POLLIN};
	char text[1024];
	char state;

	if (h->ended)
		return false;
	if (h->pidfd >= 0)
		return poll(&p, 1, 0) != 1;
	if (h->proc < 0)
		return syscall(SYS_kill, (pid_t)h->pid, 0) == 0 || errno != ESRCH;
	if (sp_host_read(h, "stat", text, sizeof(text)) <= 0)
		return false;
	(void)sp_proc_stat(text, SP_STAT_START, &state);
	return (state != 'Z' && state != 'X') || has_other_threads(h);
}

uint64_t sp_host_cpu_ns(const struct sp_host *h)
{
	return h->clock != 0 ? sp_clock_ns(h->clock) : 0;
}

uint64_t sp_host_stack(const struct sp_host *h)
{
	char text[1024];
	char state;

	return sp_host_read(h, "stat", text, sizeof(text)) > 0
		       ? sp_proc_stat(text, SP_STAT_STACK, &state)
		       : 0;
}

/*
 * If the present map may be read, it decides, because another process may still have the old
 * memory. Otherwise the map that was opened at the beginning decides: it reads as empty once no process
 * has that memory.
 */
int sp_host_has_image(const struct sp_host *h)
{
	enum shown shown;
	int now = open_present_maps(h, &shown);

	if (now >= 0)
		(void)close(now);
	if (shown == UNKNOWN && h->maps >= 0)
		shown = shows_region(h->maps, h->mapped_at, h->inode);
	return shown == SHOWN ? 1 : shown == UNKNOWN ? -1 : 0;
}
