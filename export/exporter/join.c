/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/exporter/join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "sampler/region/region.h"

#define BACKLOG 4096
#define HANDED 3U /* descriptors */
/* Of a process of our user that has connected and was preempted before it sent anything. */
#define PATIENCE_US 50000

int sp_join_listen(int fd)
{
	int on = 0;
	int type = 0;
	socklen_t len = sizeof(on);

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on != 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
	    listen(fd, BACKLOG) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
	    fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* What came with a message, if that is a whole one; else all of it is closed. */
static int take_descriptors(struct msghdr *m, int fd[HANDED])
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		const unsigned char *at = CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t have = c->cmsg_len - CMSG_LEN(0); have >= sizeof(int);
		     have -= sizeof(int), at += sizeof(int)) {
			int one;

			memcpy(&one, at, sizeof(one));
			if (n < HANDED)
				fd[n++] = one;
			else
				(void)close(one);
		}
	}
	if (n == HANDED && (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return 0;
	while (n != 0)
		(void)close(fd[--n]);
	return -EPROTO;
}

static int receive(int connection, struct sp_family_join *message, int fd[HANDED])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
	struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(connection, &m, MSG_CMSG_CLOEXEC);

	if (got < 0)
		return -errno;
	if (take_descriptors(&m, fd) != 0)
		return -EPROTO;
	if (got == (ssize_t)sizeof(*message) && message->version == SP_REGION_VERSION)
		return 0;
	for (unsigned i = 0; i < HANDED; i++)
		(void)close(fd[i]);
	return -EPROTO;
}

static int take(int connection, uint64_t environment, struct sp_join *out)
{
	const struct timeval patience = {.tv_usec = PATIENCE_US};
	struct sp_family_join message;
	struct ucred who = {.pid = 0};
	socklen_t len = sizeof(who);
	int fd[HANDED];
	int err;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
		return -errno;
	/*
	 * Of strangers nothing is received: to close a descriptor of a file system in user space is to
	 * wait for the process that serves it. Never received, it is dropped without asking that one.
	 */
	if (who.uid != geteuid())
		return -EPERM;
	if (setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
		return -errno;
	err = receive(connection, &message, fd);
	if (err != 0)
		return err;
	*out = (struct sp_join){
		.fds = {.region = fd[0], .folder = fd[1], .maps = fd[2], .joined = true},
		.pid = (uint32_t)who.pid,
		/* In another pid namespace it would have another number there. */
		.is_of_family = who.pid > 0 && (uint32_t)who.pid == message.pid &&
				message.environment == environment,
	};
	return 0;
}

int sp_join_take(int listener, uint64_t environment, struct sp_join *out)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int err;

	if (connection < 0 && (errno == EINTR || errno == ECONNABORTED))
		return -EPROTO;
	/* Shut down, it says EINVAL when nobody is left in it. */
	if (connection < 0)
		return errno == EAGAIN || errno == EINVAL ? -EAGAIN : -EMFILE;
	err = take(connection, environment, out);
	(void)close(connection);
	return err != 0 ? -EPROTO : 0;
}
