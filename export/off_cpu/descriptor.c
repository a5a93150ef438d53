/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names descriptors of the host (descriptor.h). The kernel's tables of sockets (/proc/PID/net) have a row for each
 * connection of the machine, so on a busy server each wait would cost a pass through a long table. Instead the
 * exporter takes a descriptor of its own for the socket (pidfd_getfd), asks for its addresses, and closes it at once.
 *
 * If the host closes its socket while the exporter's descriptor is open, the other end learns it some microseconds
 * later. So the exporter takes a descriptor only if the link in /proc says that it is a socket, and uses it only for
 * two questions. By then the host may use that number for another file: the answer counts only if the inode is the
 * link's.
 *
 * The exporter needs the right to trace the host, as for stacks, and a container's seccomp filter may require
 * CAP_SYS_PTRACE as well. A filter may kill a process that makes a forbidden call. So if there is a filter, a child
 * process makes the call first.
 *
 * Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/off_cpu/descriptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/util/clock.h"

#define PIDFD_OPEN_NR 434L /* the same on all processors; headers may be older */
#define PIDFD_GETFD_NR 438L
#define RETRY_NS (2 * SP_NS_PER_S)
#define KEPT 1024U

struct sp_socket_end {
	uint64_t inode; /* 0 = none */
	char text[SP_DESCRIPTOR_TEXT];
};

bool sp_descriptor_link(const char *proc, uint64_t fd, char link[SP_DESCRIPTOR_TEXT])
{
	char path[SP_DESCRIPTOR_TEXT];
	ssize_t n;

	if (fd > INT32_MAX)
		return false;
	(void)snprintf(path, sizeof(path), "%s/fd/%" PRIu64, proc, fd);
	n = readlink(path, link, SP_DESCRIPTOR_TEXT - 1);
	link[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/*
 * 0: a seccomp filter that was there before us lets the call through, or refuses it without killing. -EAGAIN: the
 * answer is not known, because no child could be made just now.
 */
static int may_call(void)
{
	static bool is_known;
	static int answer;
	int status = -1;
	pid_t child;

	if (is_known)
		return answer;
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) {
		child = fork();
		if (child == 0) {
			(void)syscall(PIDFD_GETFD_NR, -1, -1, 0);
			_exit(0);
		}
		if (child < 0)
			return -EAGAIN;
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
			answer = -EPERM;
	}
	is_known = true;
	return answer;
}

/*
 * A descriptor of ours for a socket of the host, or a negative errno; -EBADF: the number belongs to another file by
 * now.
 */
static int borrow(uint32_t pid, uint64_t fd, uint64_t inode)
{
	int process = may_call();
	struct stat st;
	int ours;

	if (process < 0)
		return process;
	process = (int)syscall(PIDFD_OPEN_NR, (pid_t)pid, 0);
	if (process < 0)
		return -errno;
	ours = (int)syscall(PIDFD_GETFD_NR, process, (int)fd, 0);
	if (ours < 0)
		ours = -errno;
	(void)close(process);
	if (ours < 0 || (fstat(ours, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode))
		return ours;
	(void)close(ours);
	return -EBADF;
}

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un local;
};

/* "10.0.0.5:5432", "[2001:db8::1]:443", "/run/db.sock", "@abstract". False if the socket has no address. */
static bool put_address(const union address *a, socklen_t len, char *out, size_t cap)
{
	size_t path = len > offsetof(struct sockaddr_un, sun_path)
			      ? len - offsetof(struct sockaddr_un, sun_path)
			      : 0;
	char shown[INET6_ADDRSTRLEN] = "";

	switch (len >= sizeof(a->any.sa_family) ? a->any.sa_family : AF_UNSPEC) {
	case AF_INET:
		if (len < sizeof(a->four) || a->four.sin_port == 0)
			return false;
		(void)inet_ntop(AF_INET, &a->four.sin_addr, shown, sizeof(shown));
		(void)snprintf(out, cap, "%s:%u", shown, ntohs(a->four.sin_port));
		return true;
	case AF_INET6:
		if (len < sizeof(a->six) || a->six.sin6_port == 0)
			return false;
		(void)inet_ntop(AF_INET6, &a->six.sin6_addr, shown, sizeof(shown));
		(void)snprintf(out, cap, "[%s]:%u", shown, ntohs(a->six.sin6_port));
		return true;
	case AF_UNIX:
		if (path == 0 || path > sizeof(a->local.sun_path))
			return false;
		if (a->local.sun_path[0] == '\0')
			(void)snprintf(out, cap, "@%.*s", (int)path - 1, a->local.sun_path + 1);
		else
			(void)snprintf(out, cap, "%.*s", (int)path, a->local.sun_path);
		return true;
	default:
		return false;
	}
}

/* The address in the arguments of connect(): the socket itself has no other end before it is connected. */
static socklen_t read_wanted(uint32_t pid, const struct sp_task_place *place, union address *out)
{
	size_t len = place->arg[2] < sizeof(*out) ? place->arg[2] : sizeof(*out);
	struct iovec local = {.iov_base = out, .iov_len = len};
	struct iovec remote = {.iov_len = len};
	ssize_t got;

	memcpy(&remote.iov_base, &place->arg[1], sizeof(remote.iov_base));
	got = process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0);
	return got > 0 ? (socklen_t)got : 0;
}

static const char *kind_of(int socket)
{
	int domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	(void)getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	(void)getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
	if (domain == AF_UNIX)
		return "unix";
	if (domain != AF_INET && domain != AF_INET6)
		return NULL;
	return protocol == IPPROTO_TCP ? "tcp" : protocol == IPPROTO_UDP ? "udp" : NULL;
}

/*
 * Writes the address of the other end, or the socket's own if there is no other end (a listener). True: the answer
 * holds as long as the socket exists.
 */
static bool ask(int socket, uint32_t pid, const struct sp_task_place *place,
		char text[SP_DESCRIPTOR_TEXT])
{
	const char *kind = kind_of(socket);
	union address a = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t len = sizeof(a);
	char end[SP_DESCRIPTOR_TEXT - 8];
	bool is_other = kind != NULL && getpeername(socket, &a.any, &len) == 0;
	bool is_named = is_other && put_address(&a, len, end, sizeof(end));

	if (!is_named && kind != NULL && place->number == SYS_connect) {
		len = read_wanted(pid, place, &a);
		is_named = put_address(&a, len, end, sizeof(end));
	}
	if (!is_named && kind != NULL) {
		len = sizeof(a);
		is_named = getsockname(socket, &a.any, &len) == 0 &&
			   put_address(&a, len, end, sizeof(end));
	}
	if (is_named)
		(void)snprintf(text, SP_DESCRIPTOR_TEXT, "%s %s", kind, end);
	else
		(void)snprintf(text, SP_DESCRIPTOR_TEXT, "socket");
	/* The program may connect a datagram socket to another address. */
	return is_other && strncmp(kind, "udp", 3) != 0;
}

static void refuse(struct sp_sockets *s, int err)
{
	char text[240];

	s->retry_ns = sp_clock_mono_ns() + RETRY_NS;
	if (s->is_told)
		return;
	s->is_told = true;
	(void)snprintf(text, sizeof(text),
		       "waits are shown without the other ends of sockets "
		       "(SPANPROF_OFF_CPU_TARGETS): pidfd_getfd "
		       "is refused: %s; in a container it may need CAP_SYS_PTRACE",
		       strerror(-err));
	s->ops->log(s->ops->arg, SP_LOG_WARN, text);
}

static bool describe_socket(struct sp_sockets *s, const struct sp_task_place *place, uint64_t inode,
			    char text[SP_DESCRIPTOR_TEXT])
{
	struct sp_socket_end *kept;
	int ours;

	if (s->kept == NULL)
		s->kept = calloc(KEPT, sizeof(*s->kept));
	kept = s->kept != NULL ? &s->kept[inode % KEPT] : NULL;
	if (kept != NULL && kept->inode == inode) {
		memcpy(text, kept->text, SP_DESCRIPTOR_TEXT);
		return true;
	}
	if (s->retry_ns != 0 && sp_clock_mono_ns() < s->retry_ns)
		return false;
	ours = borrow(s->ops->pid, place->arg[0], inode);
	if (ours == -EPERM || ours == -EACCES || ours == -ENOSYS)
		refuse(s, ours);
	if (ours == -EAGAIN)
		s->retry_ns = sp_clock_mono_ns() + RETRY_NS;
	if (ours < 0)
		return false;
	if (ask(ours, s->ops->pid, place, text) && kept != NULL) {
		kept->inode = inode;
		memcpy(kept->text, text, SP_DESCRIPTOR_TEXT);
	}
	(void)close(ours);
	return true;
}

bool sp_descriptor_describe(struct sp_sockets *s, const struct sp_task_place *place,
			    const char *link, char text[SP_DESCRIPTOR_TEXT])
{
	if (strncmp(link, "socket:[", 8) == 0)
		return describe_socket(s, place, strtoull(link + 8, NULL, 10), text);
	(void)snprintf(text, SP_DESCRIPTOR_TEXT, "%.*s",
		       (int)strcspn(link, link[0] == '/' ? "" : ":"), link);
	return true;
}
