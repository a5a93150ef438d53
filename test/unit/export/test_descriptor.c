/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of descriptors: real ones of this process, of a process that may not be asked, and for each kind of
 * wait.
 */
#define _GNU_SOURCE
#include "export/off_cpu/descriptor.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_double.h"
#include "export/off_cpu/wait_leaf.h"
#include "test/unit/descriptors.h"
#include "test/unit/emulated.h"
#include "test/unit/scratch.h"

#define PIDFD_GETFD_NR 438

static char text[SP_DESCRIPTOR_TEXT];
static struct sp_sockets sockets;

static void set_up(void)
{
	core_reset();
	core.ops.pid = (uint32_t)getpid();
	core.ops.proc = "/proc/self";
	sockets = (struct sp_sockets){.ops = &core.ops};
}

static void tear_down(void)
{
	free(sockets.kept);
}

TestSuite(descriptor, .init = set_up, .fini = tear_down, .timeout = 20);

static bool describe_in(uint64_t number, int fd, const void *address, size_t len)
{
	struct sp_task_place place = {
		.state = SP_TASK_CALLS,
		.number = number,
		.arg = {(uint64_t)fd, (uint64_t)(uintptr_t)address, len},
	};
	char link[SP_DESCRIPTOR_TEXT];

	cr_assert(sp_descriptor_link(core.ops.proc, (uint64_t)fd, link));
	return sp_descriptor_describe(&sockets, &place, link, text);
}

static const char *describe(int fd)
{
	cr_assert(describe_in(SYS_read, fd, NULL, 0));
	return text;
}

union both {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

/* Binds a socket of that kind to an address of this machine. */
static int bound(int family, int kind, union both *address)
{
	int s = socket(family, kind, 0);
	socklen_t len = family == AF_INET ? sizeof(address->four) : sizeof(address->six);

	memset(address, 0, sizeof(*address));
	address->any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		address->four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address->six.sin6_addr = in6addr_loopback;
	if (s < 0 || bind(s, &address->any, len) != 0)
		cr_skip_test("no such addresses here");
	cr_assert_eq(getsockname(s, &address->any, &len), 0);
	return s;
}

/* The program does not notice: no descriptor stays open, and no flag of its descriptors changes. */
static void expect_both_ends(int family, const char *shown)
{
	union both address;
	int listener = bound(family, SOCK_STREAM, &address);
	int client = socket(family, SOCK_STREAM, 0);
	char want[100];
	unsigned before;
	int accepted;

	(void)snprintf(want, sizeof(want), "tcp %s:%u", shown, ntohs(address.four.sin_port));
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(connect(client, &address.any, sizeof(address)), 0);
	accepted = accept(listener, NULL, NULL);
	before = open_descriptors();
	cr_expect_str_eq(describe(client), want);
	cr_expect_str_eq(describe(listener), want, "its own address");
	cr_expect_str_neq(describe(accepted), want);
	cr_expect_str_eq(describe(client), want, "it is known by now");
	cr_expect_eq(open_descriptors(), before);
	cr_expect_eq(fcntl(client, F_GETFL), O_RDWR);
	cr_expect_eq(fcntl(client, F_GETFD), 0);
	/* Closing one end closes the connection. */
	cr_assert_eq(close(client), 0);
	cr_expect_eq(read(accepted, want, 1), 0);
}

Test(descriptor, tcp_connection_is_its_other_end)
{
	if (!emulated())
		expect_both_ends(AF_INET, "127.0.0.1");
}

Test(descriptor, address_may_be_longer)
{
	if (!emulated())
		expect_both_ends(AF_INET6, "[::1]");
}

/* The program may connect a datagram socket to another address at any time. */
Test(descriptor, udp_socket_is_asked_each_time)
{
	union both first, second;
	int one, other, client;
	char want[100];

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	one = bound(AF_INET, SOCK_DGRAM, &first);
	other = bound(AF_INET, SOCK_DGRAM, &second);
	client = socket(AF_INET, SOCK_DGRAM, 0);
	cr_expect_str_eq(describe(client), "socket");
	cr_assert_eq(connect(client, &first.any, sizeof(first.four)), 0);
	(void)snprintf(want, sizeof(want), "udp 127.0.0.1:%u", ntohs(first.four.sin_port));
	cr_expect_str_eq(describe(client), want);
	cr_expect_str_eq(describe(one), want);
	cr_assert_eq(connect(client, &second.any, sizeof(second.four)), 0);
	(void)snprintf(want, sizeof(want), "udp 127.0.0.1:%u", ntohs(second.four.sin_port));
	cr_expect_str_eq(describe(client), want);
	cr_expect_str_eq(describe(other), want);
}

/* The socket does not know its address before it is connected. The host's memory may contain anything. */
Test(descriptor, is_whom_a_call_wants_to_reach)
{
	const struct sockaddr_in there = {
		.sin_family = AF_INET, .sin_port = htons(5432), .sin_addr = {htonl(0x0a000005)}};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert(describe_in(SYS_connect, s, &there, sizeof(there)));
	cr_expect_str_eq(text, "tcp 10.0.0.5:5432");
	for (size_t len = 0; len < sizeof(there); len++) {
		cr_assert(describe_in(SYS_connect, s, &there, len));
		cr_expect_str_eq(text, "socket", "%zu bytes", len);
	}
	cr_assert(describe_in(SYS_recvfrom, s, &there, sizeof(there)));
	cr_expect_str_eq(text, "socket", "it is what was received");
	cr_assert(describe_in(SYS_connect, s, NULL, sizeof(there)));
	cr_expect_str_eq(text, "socket");
	cr_assert(describe_in(SYS_connect, s, &there, SIZE_MAX));
	memset(local.sun_path, 'x', sizeof(local.sun_path));
	cr_assert(describe_in(SYS_connect, s, &local, sizeof(local)));
	cr_expect_eq(strlen(text), strlen("tcp ") + sizeof(local.sun_path));
	cr_assert(describe_in(SYS_connect, s, &local, sizeof(local.sun_family)));
	cr_expect_str_eq(text, "socket");
}

static int unix_listener(struct sockaddr_un *address, size_t path)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path);

	address->sun_family = AF_UNIX;
	cr_assert_eq(bind(s, (const struct sockaddr *)address, len), 0);
	cr_assert_eq(listen(s, 1), 0);
	return s;
}

Test(descriptor, unix_socket_is_a_path_or_a_name)
{
	struct sockaddr_un path = {.sun_path = ""};
	struct sockaddr_un name = {.sun_path = ""};
	int client = socket(AF_UNIX, SOCK_STREAM, 0);
	int other = socket(AF_UNIX, SOCK_STREAM, 0);
	char want[200];
	int listener, pair[2];

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	scratch_make();
	(void)snprintf(path.sun_path, sizeof(path.sun_path), "%.80s/a b", scratch);
	(void)snprintf(want, sizeof(want), "unix %s", path.sun_path);
	listener = unix_listener(&path, strlen(path.sun_path));
	cr_assert_eq(connect(client, (const struct sockaddr *)&path, sizeof(path)), 0);
	cr_expect_str_eq(describe(client), want);
	cr_expect_str_eq(describe(listener), want);
	cr_expect_str_eq(describe(accept(listener, NULL, NULL)), want);

	(void)snprintf(name.sun_path + 1, 40, "spanprof-test-%d", getpid());
	(void)snprintf(want, sizeof(want), "unix @spanprof-test-%d", getpid());
	listener = unix_listener(&name, strlen(name.sun_path + 1) + 1);
	cr_assert_eq(connect(other, (const struct sockaddr *)&name,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					 strlen(name.sun_path + 1))),
		     0);
	cr_expect_str_eq(describe(other), want);
	cr_expect_str_eq(describe(listener), want);

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cr_expect_str_eq(describe(pair[0]), "socket");
	scratch_remove();
}

Test(descriptor, of_other_kinds_is_its_link)
{
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	cr_expect_str_eq(describe(fd[0]), "pipe");
	cr_expect_str_eq(describe(open("/dev/null", O_RDONLY)), "/dev/null");
	cr_expect_not(sp_descriptor_link("/proc/self", 1000000, text));
	cr_expect_not(sp_descriptor_link("/proc/self", UINT64_MAX, text));
}

/* Between the reading of the link and the question, the host may have closed the socket and opened another file. */
Test(descriptor, that_has_become_something_else_is_not_named)
{
	struct sp_task_place place = {.state = SP_TASK_CALLS, .number = SYS_read};
	union both address;
	char link[SP_DESCRIPTOR_TEXT];
	unsigned before;
	int fd[2];

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	place.arg[0] = (uint64_t)bound(AF_INET, SOCK_STREAM, &address);
	cr_assert(sp_descriptor_link("/proc/self", place.arg[0], link));
	cr_assert_eq(pipe(fd), 0);
	before = open_descriptors();
	cr_assert_eq(dup2(fd[0], (int)place.arg[0]), (int)place.arg[0]);
	cr_expect_not(sp_descriptor_describe(&sockets, &place, link, text));
	cr_assert_eq(dup2(socket(AF_INET, SOCK_STREAM, 0), (int)place.arg[0]), (int)place.arg[0]);
	cr_expect_not(sp_descriptor_describe(&sockets, &place, link, text));
	cr_assert_eq(close((int)place.arg[0]), 0);
	cr_expect_not(sp_descriptor_describe(&sockets, &place, link, text));
	cr_expect_eq(open_descriptors(), before, "the one is closed, and another was opened");
	cr_expect_str_eq(core.log, "");
}

/* Another user's process, and one that has made itself unreadable. The kind of a wait is known even then. */
Test(descriptor, that_may_not_be_asked_is_told_once)
{
	struct sp_task_place place = {.state = SP_TASK_CALLS, .number = SYS_recvfrom};
	char leaf[SP_WAIT_LEAF];
	int ready[2], ours[2];
	char byte;
	pid_t pid;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert_eq(pipe(ready), 0);
	cr_assert_eq(pipe(ours), 0);
	place.arg[0] = (uint64_t)socket(AF_INET, SOCK_STREAM, 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_DUMPABLE, 0);
		(void)!write(ready[1], "x", 1);
		/* This user may not end the other user's process by a signal. */
		(void)close(ours[1]);
		(void)!read(ours[0], &byte, 1);
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	core.ops.pid = (uint32_t)pid;
	if (geteuid() == 0)
		cr_assert_eq(syscall(SYS_setresuid, 65534, 65534, 65534), 0);
	/* The other process is a copy of this process, so the link is read here. */
	for (unsigned i = 0; i < 3; i++) {
		sp_wait_leaf(&sockets, "/proc/self", &place, leaf);
		cr_expect_str_eq(leaf, "recvfrom (socket)");
		sockets.retry_ns = 1;
	}
	cr_expect(core_logged("pidfd_getfd is refused: Operation not permitted"), "%s", core.log);
	cr_expect_eq(strchr(core.log, '\n'), strrchr(core.log, '\n'), "once: %s", core.log);
	(void)close(ours[1]);
	cr_expect_eq(waitpid(pid, NULL, 0), pid);
}

static void forbid(uint32_t answer)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PIDFD_GETFD_NR, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void expect_refusal(uint32_t answer, const char *why)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	forbid(answer);
	for (unsigned i = 0; i < 2; i++) {
		cr_expect_not(describe_in(SYS_read, s, NULL, 0));
		sockets.retry_ns = 1;
	}
	cr_expect(core_logged(why), "%s", core.log);
}

/* A child tries whether a filter kills for the call. There may be no room for the child just now. */
Test(descriptor, below_a_filter_is_asked_again_if_no_process_could_be_made)
{
	const struct rlimit none = {0, 64};
	const struct rlimit again = {64, 64};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	if (geteuid() != 0)
		cr_skip_test("only another user has no process");
	forbid(SECCOMP_RET_ALLOW);
	cr_assert_eq(setrlimit(RLIMIT_NPROC, &none), 0);
	cr_assert_eq(syscall(SYS_setresuid, 65533, 65533, 65533), 0);
	(void)prctl(PR_SET_DUMPABLE, 1);
	cr_expect_not(describe_in(SYS_read, s, NULL, 0));
	cr_expect_not(core_logged("refused"), "%s", core.log);

	cr_assert_eq(setrlimit(RLIMIT_NPROC, &again), 0);
	sockets.retry_ns = 1;
	cr_expect(describe_in(SYS_read, s, NULL, 0), "%s", core.log);
}

/* Containers and systemd units have such filters. */
Test(descriptor, below_a_filter_is_not_asked)
{
	expect_refusal(SECCOMP_RET_ERRNO | EPERM, "Operation not permitted");
}

Test(descriptor, below_a_filter_that_kills_is_not_asked)
{
	expect_refusal(SECCOMP_RET_KILL_PROCESS, "Operation not permitted");
}

static const char *leaf_of(uint64_t number, uint64_t first, uint64_t second)
{
	static char leaf[SP_WAIT_LEAF];
	const struct sp_task_place place = {
		.state = SP_TASK_CALLS, .number = number, .arg = {first, second}};

	sp_wait_leaf(NULL, "/proc/self", &place, leaf);
	return leaf;
}

Test(wait_leaf, says_the_call_and_the_kind)
{
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	cr_expect_str_eq(leaf_of(SYS_futex, 0, 0), "futex (lock)");
	cr_expect_str_eq(leaf_of(SYS_read, (uint64_t)fd[0], 0), "read (pipe)");
	cr_expect_str_eq(leaf_of(SYS_read, 1000000, 0), "read");
	cr_expect_str_eq(leaf_of(SYS_recvfrom, 1000000, 0), "recvfrom (socket)");
	cr_expect_str_eq(leaf_of(SYS_wait4, UINT64_MAX, 0), "wait4 (child)");
	cr_expect_str_eq(leaf_of(SYS_ppoll, 1, 3), "ppoll (events)");
	cr_expect_str_eq(leaf_of(SYS_ppoll, 0, 0), "ppoll (timer)");
	cr_expect_str_eq(leaf_of(SYS_pselect6, 0, 0), "pselect6 (timer)");
	cr_expect_str_eq(leaf_of(SYS_epoll_pwait, 0, 0), "epoll_pwait (events)");
	cr_expect_str_eq(leaf_of(54321, 0, 0), "system call 54321");
}

Test(wait_leaf, says_that_the_kernel_blocks_without_a_call)
{
	const struct sp_task_place place = {.state = SP_TASK_IN_KERNEL};
	char leaf[SP_WAIT_LEAF];

	sp_wait_leaf(NULL, "/proc/self", &place, leaf);
	cr_expect_str_eq(leaf, "[blocked in the kernel]");
}
