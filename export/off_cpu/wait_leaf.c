/* SPDX-License-Identifier: Apache-2.0 */
/* Names the place where a thread waits (wait_leaf.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/wait_leaf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum what {
	LOCK,
	TIMER,
	CHILD,
	EVENTS,
	SIGNAL,
	DESCRIPTOR, /* the kind of the first argument */
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

/* Old system calls that aarch64 never had are behind #ifdef. */
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

/* A poll() or select() without descriptors is a sleep. */
static bool waits_for_nothing(const struct sp_task_place *p, const char *name)
{
	if (strstr(name, "poll") != NULL && strncmp(name, "epoll", 5) != 0)
		return p->arg[1] == 0;
	return strstr(name, "select") != NULL && p->arg[0] == 0;
}

static const struct call *call_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

/* The kind of a descriptor, by its link in /proc/PID/fd; NULL = a kind without a name here. */
static const char *kind_of_link(const char *link)
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

void sp_wait_leaf(struct sp_sockets *targets, const char *proc, const struct sp_task_place *place,
		  char text[SP_WAIT_LEAF])
{
	const struct call *c = call_of(place->number);
	char link[SP_DESCRIPTOR_TEXT] = "";
	char target[SP_DESCRIPTOR_TEXT];
	const char *kind;

	if (place->state == SP_TASK_IN_KERNEL) {
		(void)snprintf(text, SP_WAIT_LEAF, "[blocked in the kernel]");
		return;
	}
	if (c == NULL) {
		(void)snprintf(text, SP_WAIT_LEAF, "system call %" PRIu64, place->number);
		return;
	}
	kind = words[c->what == EVENTS && waits_for_nothing(place, c->name) ? TIMER : c->what];
	if ((c->what == DESCRIPTOR || c->what == SOCKET || c->what == FILE_LOCK) &&
	    sp_descriptor_link(proc, place->arg[0], link) && kind == NULL)
		kind = kind_of_link(link);
	if (targets != NULL && link[0] != '\0' &&
	    sp_descriptor_describe(targets, place, link, target))
		(void)snprintf(text, SP_WAIT_LEAF, "%s %s", c->name, target);
	else if (kind != NULL)
		(void)snprintf(text, SP_WAIT_LEAF, "%s (%s)", c->name, kind);
	else
		(void)snprintf(text, SP_WAIT_LEAF, "%s", c->name);
}
