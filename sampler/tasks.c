/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread's look at the process's threads: those we never saw being born are enrolled
 * here, and a process whose last own thread has ended is noticed. BG context; raw system calls, so
 * that no hidden allocation or locale is involved.
 */
#include "sampler/tasks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/fmt.h"
#include "sampler/headroom.h"
#include "sampler/thread.h"

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
	uint32_t n = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (n > SP_TID_MAX)
			return 0;
		n = n * 10 + (uint32_t)(*s - '0');
	}
	return *s == '\0' ? n : 0;
}

/* The thread group leader stays in the list after pthread_exit(), as a zombie. */
static bool is_zombie(int dir, const char *tid)
{
	char path[32];
	char buf[128];
	ssize_t got;
	int fd;

	(void)sp_fmt_snprintf(path, sizeof(path), "%s/stat", tid);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, buf, sizeof(buf));
	(void)close(fd);
	/* "pid (comm) S ...": comm is at most 15 bytes and may hold anything but ends at the last ) */
	for (ssize_t i = got - 3; i > 0; i--) {
		if (buf[i] == ')' && buf[i + 1] == ' ')
			return buf[i + 2] == 'Z' || buf[i + 2] == 'X';
	}
	return false;
}

struct scan {
	uint32_t self;
	int others;
	uint32_t leader;
	char leader_name[16];
};

static void visit(struct scan *s, const char *name)
{
	uint32_t tid = parse_tid(name);

	if (tid == 0 || tid == s->self)
		return;
	s->others++;
	if (tid == s->leader) {
		strncpy(s->leader_name, name, sizeof(s->leader_name) - 1);
		return;
	}
	sp_thread_enrol(tid);
}

/* In a pid namespace that nobody has mounted a /proc for, threads have other numbers there. */
static bool numbers_are_ours(void)
{
	char text[16];
	ssize_t len = readlink("/proc/self", text, sizeof(text) - 1);

	if (len <= 0)
		return false;
	text[len] = '\0';
	return parse_tid(text) == (uint32_t)getpid();
}

int sp_tasks_scan(uint32_t self)
{
	struct scan s = {.self = self, .leader = (uint32_t)getpid()};
	union {
		struct dirent64_head align;
		char bytes[4096];
	} buf;
	int dir;
	long got;

	sp_headroom_look();
	if (!numbers_are_ours())
		return -1;
	dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	while ((got = syscall(SYS_getdents64, dir, buf.bytes, sizeof(buf.bytes))) > 0) {
		for (long at = 0; at < got;) {
			const struct dirent64_head *d = (const void *)(buf.bytes + at);

			visit(&s, d->name);
			at += d->reclen;
		}
	}
	if (s.leader_name[0] != '\0') {
		if (s.others == 1 && is_zombie(dir, s.leader_name))
			s.others = 0;
		else
			sp_thread_enrol(s.leader);
	}
	(void)close(dir);
	sp_thread_reap();
	return s.others;
}
