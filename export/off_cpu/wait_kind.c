/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that threads wait in (wait_kind.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/wait_kind.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

enum what {
	LOCK,
	TIMER,
	CHILD,
	EVENTS,
	SIGNAL,
	DESCRIPTOR, /* what the first argument is */
	SOCKET,
	FILE_LOCK,
	NONE,
};

struct call {
	uint64_t number;
	const char *name;
	enum what what;
};

#define CALL(name, what)                                                                           \
	{                                                                                          \
		SYS_##name, #name, what                                                            \
	}

/* Those of old that aarch64 never had are behind #ifdef. */
static const struct call calls[] = {
	CALL(futex, LOCK),
	CALL(nanosleep, TIMER),
	CALL(clock_nanosleep, TIMER),
	CALL(wait4, CHILD),
	CALL(waitid, CHILD),
	CALL(ppoll, EVENTS),
	CALL(pselect6, EVENTS),
	CALL(epoll_pwait, EVENTS),
#ifdef SYS_poll
	CALL(poll, EVENTS),
	CALL(select, EVENTS),
	CALL(epoll_wait, EVENTS),
	CALL(pause, SIGNAL),
#endif
#ifdef SYS_epoll_pwait2
	CALL(epoll_pwait2, EVENTS),
#endif
#ifdef SYS_futex_waitv
	CALL(futex_waitv, LOCK),
#endif
	CALL(io_getevents, EVENTS),
	CALL(rt_sigtimedwait, SIGNAL),
	CALL(rt_sigsuspend, SIGNAL),
	CALL(semop, LOCK),
	CALL(semtimedop, LOCK),
	CALL(msgrcv, NONE),
	CALL(msgsnd, NONE),
	CALL(mq_timedreceive, NONE),
	CALL(mq_timedsend, NONE),
	CALL(flock, FILE_LOCK),
	CALL(fcntl, FILE_LOCK),
	CALL(read, DESCRIPTOR),
	CALL(write, DESCRIPTOR),
	CALL(readv, DESCRIPTOR),
	CALL(writev, DESCRIPTOR),
	CALL(pread64, DESCRIPTOR),
	CALL(pwrite64, DESCRIPTOR),
	CALL(preadv, DESCRIPTOR),
	CALL(pwritev, DESCRIPTOR),
	CALL(sendfile, DESCRIPTOR),
	CALL(splice, DESCRIPTOR),
	CALL(fsync, DESCRIPTOR),
	CALL(fdatasync, DESCRIPTOR),
	CALL(ioctl, DESCRIPTOR),
	CALL(close, DESCRIPTOR),
	CALL(accept, SOCKET),
	CALL(accept4, SOCKET),
	CALL(connect, SOCKET),
	CALL(recvfrom, SOCKET),
	CALL(recvmsg, SOCKET),
	CALL(recvmmsg, SOCKET),
	CALL(sendto, SOCKET),
	CALL(sendmsg, SOCKET),
	CALL(sendmmsg, SOCKET),
	CALL(openat, NONE),
	CALL(mmap, NONE),
	CALL(munmap, NONE),
	CALL(mprotect, NONE),
	CALL(madvise, NONE),
	CALL(clone, NONE),
#ifdef SYS_clone3
	CALL(clone3, NONE),
#endif
	CALL(exit_group, NONE),
	CALL(sched_yield, NONE),
#ifdef SYS_vfork
	CALL(vfork, CHILD),
	CALL(fork, NONE),
	CALL(open, NONE),
#endif
#ifdef SYS_io_uring_enter
	CALL(io_uring_enter, EVENTS),
#endif
};

static const char *const words[] = {
	[LOCK] = "lock",      [TIMER] = "timer",   [CHILD] = "child",
	[EVENTS] = "events",  [SIGNAL] = "signal", [SOCKET] = "socket",
	[FILE_LOCK] = "lock", [DESCRIPTOR] = NULL, [NONE] = NULL,
};

/* A poll() or select() of nothing is a sleep. */
static bool waits_for_nothing(const struct sp_task_place *p, const char *name)
{
	if (strstr(name, "poll") != NULL && strncmp(name, "epoll", 5) != 0)
		return p->arg[1] == 0;
	return strstr(name, "select") != NULL && p->arg[0] == 0;
}

void sp_wait_kind_of(const struct sp_task_place *place, struct sp_wait_kind *out)
{
	*out = (struct sp_wait_kind){.name = NULL};
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const struct call *c = &calls[i];

		if (c->number != place->number)
			continue;
		out->name = c->name;
		out->kind = words[c->what];
		out->by_descriptor =
			c->what == DESCRIPTOR || c->what == SOCKET || c->what == FILE_LOCK;
		if (c->what == EVENTS && waits_for_nothing(place, c->name))
			out->kind = words[TIMER];
		return;
	}
}

enum sp_waited sp_wait_kind_waited(const char *kind)
{
	static const char *const io[] = {"socket", "pipe", "file", "terminal", "events"};

	if (kind == NULL)
		return SP_WAITED_OTHER;
	if (strcmp(kind, "lock") == 0)
		return SP_WAITED_LOCK;
	for (size_t i = 0; i < sizeof(io) / sizeof(io[0]); i++)
		if (strcmp(kind, io[i]) == 0)
			return SP_WAITED_IO;
	return SP_WAITED_OTHER;
}

const char *sp_wait_kind_of_link(const char *link)
{
	static const struct {
		const char *begin;
		const char *kind;
	} links[] = {
		{"socket:[", "socket"},
		{"pipe:[", "pipe"},
		{"anon_inode:[timerfd]", "timer"},
		{"anon_inode:", "events"},
		{"/dev/pts/", "terminal"},
		{"/dev/tty", "terminal"},
		{"/", "file"},
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (strncmp(link, links[i].begin, strlen(links[i].begin)) == 0)
			return links[i].kind;
	return NULL;
}
