/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining an exporter, or the place where others can. By raw system calls: the C library's functions
 * for sockets are what hosts wrap, and are points where a thread may be cancelled.
 */
#include "preload/exporter/exporter_family.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/fmt.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/region.h"

/* The kernel allows as many as net.core.somaxconn: 4,096, before Linux 5.4 128. */
#define JOINS_WAITING 4096
/* On a busy machine another process may be preempted for long between its bind and its listen. */
#define BIND_WAIT_NS (200 * SP_NS_PER_MS)
/* Region, folder, memory map. */
#define DESCRIPTORS 3U

/* When the program was loaded: a forked child has it from its parent. */
static uint64_t loaded_ns;
static int32_t program_pid; /* who executed it; 0 = not noted */

/* The user whose exporter does not serve us; -1 = none. Also written by who waits for a flush. */
static _Atomic int64_t left_user = -1;

/* Where we joined: the effective user may be another one by now. */
static struct {
	_Atomic int64_t user;
	struct sockaddr_un address;
	socklen_t bytes;
} joined;

void sp_exporter_family_load(bool note_pid)
{
	loaded_ns = sp_monotonic_ns();
	program_pid = note_pid ? getpid() : 0;
}

bool sp_exporter_family_is_forked(void)
{
	return program_pid != 0 && program_pid != getpid();
}

static void make_address(uint32_t user)
{
	char *name = joined.address.sun_path + 1;
	size_t room = sizeof(joined.address.sun_path) - 1;

	atomic_store_explicit(&joined.user, user, memory_order_relaxed);
	memset(&joined.address, 0, sizeof(joined.address));
	joined.address.sun_family = AF_UNIX;
	joined.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   sp_fmt_snprintf(name, room, SP_FAMILY_NAME,
						   (unsigned long long)loaded_ns, (unsigned)user));
}

/* A descriptor, or a negative errno. */
static int new_socket(void)
{
	int fd =
		(int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 ? fd : -errno;
}

/* 0 or a negative errno: -ECONNREFUSED where nobody listens, -EAGAIN where too many wait. */
static int connect_to(int fd)
{
	return syscall(SYS_connect, fd, &joined.address, joined.bytes) == 0 ? 0 : -errno;
}

/* The process that listens, if it is one of the same user; any other could be there, too. */
static bool read_peer(int fd, uint32_t user, int32_t *pid)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return false;
	*pid = peer.pid;
	/* In a pid namespace beside ours it has no number, and nobody could see it end. */
	return peer.uid == user && peer.pid > 0;
}

static bool send_join(int fd, const struct sp_exporter_start *start)
{
	const struct sp_family_join message = {
		.version = SP_REGION_VERSION,
		.pid = start->region->pid,
		.environment = sp_family_environment(start->environment),
	};
	const int descriptor[DESCRIPTORS] = {
		start->region_fd,
		start->folder_fd >= 0 ? start->folder_fd : start->region_fd,
		start->maps_fd >= 0 ? start->maps_fd : start->region_fd,
	};
	union {
		struct cmsghdr head; /* aligned as it needs */
		char bytes[CMSG_SPACE(sizeof(descriptor))];
	} control = {.bytes = {0}};
	struct iovec part = {.iov_base = (void *)(uintptr_t)&message, .iov_len = sizeof(message)};
	const struct msghdr all = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(descriptor));
	memcpy(CMSG_DATA(&control.head), descriptor, sizeof(descriptor));
	return syscall(SYS_sendmsg, fd, &all, MSG_NOSIGNAL | MSG_DONTWAIT) == (long)sizeof(message);
}

/*
 * 0 or a negative errno. It is the exporter that says at last which process it is, so our own word of it
 * must come before the message.
 */
static int join(const struct sp_exporter_start *start, uint32_t user)
{
	_Atomic int32_t *exporter = &start->region->exporter_pid;
	int fd = new_socket();
	int32_t pid = 0;
	int err = fd;

	if (fd < 0)
		return err;
	err = connect_to(fd);
	if (err == 0) {
		err = -EPERM;
		if (read_peer(fd, user, &pid)) {
			atomic_store_explicit(exporter, pid, memory_order_relaxed);
			err = send_join(fd, start) ? 0 : -EPIPE;
		}
		if (err != 0)
			atomic_store_explicit(exporter, 0, memory_order_relaxed);
	}
	(void)syscall(SYS_close, fd);
	return err;
}

/* A socket that listens, or a negative errno: -EADDRINUSE where another process's does. */
static int listen_there(void)
{
	int fd = new_socket();
	int err;

	if (fd < 0)
		return fd;
	if (syscall(SYS_bind, fd, &joined.address, joined.bytes) == 0 &&
	    syscall(SYS_listen, fd, JOINS_WAITING) == 0)
		return fd;
	err = -errno;
	(void)syscall(SYS_close, fd);
	return err;
}

static bool join_or_listen(struct sp_exporter_start *start, uint32_t user)
{
	uint64_t end = sp_monotonic_ns() + BIND_WAIT_NS;
	int err = join(start, user);

	/* -EPIPE: we were preempted for so long before we sent anything that we were given up. */
	while (err == -ECONNREFUSED || err == -EPIPE) {
		int fd = err == -ECONNREFUSED ? listen_there() : -EADDRINUSE;
		/* Anew each time: the kernel writes what is left. */
		struct timespec pause = {.tv_nsec = SP_NS_PER_MS};

		if (fd >= 0) {
			start->family_fd = fd;
			return false;
		}
		/* Another process was quicker, and will listen in a moment. */
		if (fd != -EADDRINUSE || sp_monotonic_ns() >= end)
			return false;
		/* Hundreds that wait with us must leave it the processor. A sleep that trial.c knows. */
		(void)syscall(SYS_ppoll, NULL, 0, &pause, NULL, 0);
		err = join(start, user);
	}
	return err == 0;
}

bool sp_exporter_family_join(struct sp_exporter_start *start)
{
	int saved = errno;
	uint32_t user = (uint32_t)syscall(SYS_geteuid);
	bool is_in;

	start->family_fd = -1;
	start->region->program_pid = sp_exporter_family_is_forked() ? program_pid : 0;
	make_address(user);
	is_in = atomic_load_explicit(&left_user, memory_order_relaxed) != (int64_t)user &&
		join_or_listen(start, user);
	errno = saved;
	return is_in;
}

void sp_exporter_family_leave(void)
{
	atomic_store_explicit(&left_user, atomic_load_explicit(&joined.user, memory_order_relaxed),
			      memory_order_relaxed);
}

void sp_exporter_family_forked(void)
{
	atomic_store_explicit(&left_user, -1, memory_order_relaxed);
}

bool sp_exporter_family_listens(void)
{
	int saved = errno;
	int fd = new_socket();
	/* Where no socket is to be had nothing is known. */
	bool refused = fd >= 0 && connect_to(fd) == -ECONNREFUSED;

	if (fd >= 0)
		(void)syscall(SYS_close, fd);
	errno = saved;
	return !refused;
}
