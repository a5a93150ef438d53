/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans /proc/self/task. Threads that existed before the first recorded span, and threads made by
 * raw clone(), never passed a hook; the scan enrols them, and frees the blocks of threads that are
 * gone. It uses raw system calls instead of opendir(), which would allocate in the middle of a call
 * of the host.
 *
 * A thread without a timer costs some 5 us, and a thread of the host waits meanwhile. So a call goes
 * on where the last one ended, and makes so many timers at most.
 *
 * Context: APP, one thread at a time, at activation and when the exporter asks for it.
 */
#include "sampler/thread/thread_scan.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/thread/thread.h"
#include "sampler/thread/thread_timer.h"

/* linux/dirent.h: struct linux_dirent64 up to its name. */
struct dirent64_head {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static uint32_t parse_tid(const char *s)
{
	uint64_t n;

	return sp_text_number(&s, 10, &n) && *s == '\0' && n <= SP_TID_MAX ? (uint32_t)n : 0;
}

/* After pthread_exit() the thread group leader stays in the list as a zombie. */
static bool is_zombie(int dir, const char *tid)
{
	char path[32];
	char buf[128];
	ssize_t got;
	int fd;

	(void)sp_fmt_snprintf(path, sizeof(path), "%s/stat", tid);
	fd = (int)sp_syscall(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = sp_syscall(SYS_read, fd, buf, sizeof(buf));
	(void)sp_syscall(SYS_close, fd);
	/* "pid (comm) S ...": comm is at most 15 bytes and may hold anything but ends at the last ) */
	for (ssize_t i = got - 3; i > 0; i--) {
		if (buf[i] == ')' && buf[i + 1] == ' ')
			return buf[i + 2] == 'Z' || buf[i + 2] == 'X';
	}
	return false;
}

struct scan {
	int dir;
	uint32_t self;
	uint32_t leader;
	uint32_t looked; /* threads that had no timer */
};

/* Where the scan of that process goes on, as lseek(2) takes it; 0 = at the beginning. */
static struct {
	uint32_t pid;
	int64_t at;
} rest;

static void visit(struct scan *s, const char *name)
{
	uint32_t tid = parse_tid(name);

	if (tid == 0 || tid == s->self || (tid == s->leader && is_zombie(s->dir, name)))
		return;
	s->looked += sp_thread_enrol(tid);
}

/*
 * False if threads are left. When threads end meanwhile, others move up in the list and may be
 * passed over; the exporter sees that they have no timer, and asks for another scan.
 */
static bool visit_all(struct scan *s)
{
	union {
		struct dirent64_head align;
		char bytes[2048];
	} buf;
	long got;

	if (rest.at != 0)
		(void)sp_syscall(SYS_lseek, s->dir, rest.at, SEEK_SET);
	while ((got = sp_syscall(SYS_getdents64, s->dir, buf.bytes, sizeof(buf.bytes))) > 0) {
		for (long at = 0; at < got;) {
			const struct dirent64_head *d = (const void *)(buf.bytes + at);

			if (s->looked == SP_THREAD_SCAN_MAX)
				return false;
			visit(s, d->name);
			rest.at = d->off;
			at += d->reclen;
		}
	}
	return true;
}

/*
 * If the process is in a pid namespace for which nobody has mounted a /proc, the numbers in /proc
 * are those of other processes.
 */
static bool numbers_are_ours(void)
{
	char text[16];
	ssize_t len = sp_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text) - 1);

	if (len <= 0)
		return false;
	text[len] = '\0';
	return parse_tid(text) == (uint32_t)sp_syscall(SYS_getpid);
}

bool sp_thread_scan(void)
{
	struct scan s = {
		.self = (uint32_t)sp_syscall(SYS_gettid),
		.leader = (uint32_t)sp_syscall(SYS_getpid),
	};

	if (rest.pid != s.leader)
		rest.at = 0;
	rest.pid = s.leader;
	if (rest.at == 0)
		sp_timer_limit_look();
	if (!numbers_are_ours())
		return true;
	s.dir = (int)sp_syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.dir < 0)
		return true;
	if (visit_all(&s))
		rest.at = 0;
	(void)sp_syscall(SYS_close, s.dir);
	if (rest.at == 0)
		sp_thread_reap();
	return rest.at == 0;
}
