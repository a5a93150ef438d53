/* SPDX-License-Identifier: Apache-2.0 */
/* What descriptors are, out of the tables of the kernel, and kinds of waits. */
#define _GNU_SOURCE
#include "export/off_cpu/descriptor.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export/off_cpu/wait_kind.h"

static char text[SP_DESCRIPTOR_TEXT];

TestSuite(descriptor, .timeout = 20);

Test(descriptor, tcp_connection_is_its_other_end)
{
	static const char row[] =
		"   3: 0100007F:9C40 0500000A:1538 01 00000000:00000000 00:00000000 00000000  "
		"1000        0 4711 1 0000000000000000 20 4 30 10 -1\n";

	cr_assert(sp_descriptor_inet_row(row, false, 4711, text, sizeof(text)));
	cr_expect_str_eq(text, "10.0.0.5:5432");
	cr_expect_not(sp_descriptor_inet_row(row, false, 4712, text, sizeof(text)));
	cr_expect_not(sp_descriptor_inet_row(row, true, 4711, text, sizeof(text)));
}

Test(descriptor, listener_is_its_own_address)
{
	static const char row[] =
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  "
		"   0        0 99 1 0000000000000000 100 0 0 10 0\n";

	cr_assert(sp_descriptor_inet_row(row, false, 99, text, sizeof(text)));
	cr_expect_str_eq(text, "0.0.0.0:8080");
}

Test(descriptor, address_may_be_longer)
{
	static const char row[] =
		"   1: 00000000000000000000000001000000:9C40 B80D0120000000000000000001000000:01BB "
		"01 "
		"00000000:00000000 00:00000000 00000000  1000        0 5 1 0 20 4 30 10 -1\n";

	cr_assert(sp_descriptor_inet_row(row, true, 5, text, sizeof(text)));
	cr_expect_str_eq(text, "[2001:db8::1]:443");
}

Test(descriptor, unix_socket_is_its_path)
{
	cr_assert(sp_descriptor_unix_row(
		"0000000000000000: 00000002 00000000 00010000 0001 01 23456 /run/a b.sock\n", 23456,
		text, sizeof(text)));
	cr_expect_str_eq(text, "/run/a b.sock");
	cr_expect_not(sp_descriptor_unix_row(
		"0000000000000000: 00000003 00000000 00000000 0001 03 23456\n", 23456, text,
		sizeof(text)));
}

Test(descriptor, rows_that_are_none_are_refused)
{
	static const char *const bad[] = {
		"",
		"\n",
		"  sl  local_address rem_address   st tx_queue rx_queue\n",
		"   3: 0100007F 0500000A 01 0:0 0:0 0 1 0 4711\n",
		"   3: ZZZZZZZZ:9C40 ZZZZZZZZ:1538 01 0:0 0:0 0 1 0 4711\n",
		"   3: 0100007F:9C40 0500000A:1538 01 0:0 0:0 0 1 0\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_not(sp_descriptor_inet_row(bad[i], false, 4711, text, sizeof(text)), "%s",
			      bad[i]);
		cr_expect_not(sp_descriptor_unix_row(bad[i], 4711, text, sizeof(text)));
	}
}

Test(descriptor, names_fit_into_their_room)
{
	char row[600];
	char small[8];

	memset(row, 'x', sizeof(row));
	memcpy(row, "0: 1 0 0 1 1 7 /", 16);
	row[sizeof(row) - 1] = '\0';
	cr_assert(sp_descriptor_unix_row(row, 7, small, sizeof(small)));
	cr_expect_eq(strlen(small), sizeof(small) - 1);
}

/* Of this process. */
static const char *describe(int fd)
{
	char link[SP_DESCRIPTOR_TEXT];

	cr_assert(sp_descriptor_link("/proc/self", (uint64_t)fd, link));
	sp_descriptor_describe("/proc/self", link, text);
	return sp_wait_kind_of_link(link);
}

Test(descriptor, is_told_of_a_real_process)
{
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	cr_expect_str_eq(describe(fd[0]), "pipe");
	cr_expect_str_eq(text, "pipe");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	cr_expect_str_eq(describe(fd[0]), "socket");
	cr_expect_str_eq(text, "socket");
	cr_expect_not(sp_descriptor_link("/proc/self", 1000000, text));
	cr_expect_not(sp_descriptor_link("/proc/self", UINT64_MAX, text));
}

static const char *leaf_of(uint64_t number, uint64_t first, uint64_t second)
{
	static struct sp_wait_leaf leaf;
	const struct sp_task_place place = {
		.state = SP_TASK_CALLS, .number = number, .arg = {first, second}};

	sp_wait_leaf("/proc/self", &place, false, &leaf);
	return leaf.text;
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

Test(wait_leaf, is_for_a_lock_or_for_io_or_for_neither)
{
	cr_expect_eq(sp_wait_kind_waited("lock"), SP_WAITED_LOCK);
	cr_expect_eq(sp_wait_kind_waited("socket"), SP_WAITED_IO);
	cr_expect_eq(sp_wait_kind_waited("events"), SP_WAITED_IO);
	cr_expect_eq(sp_wait_kind_waited("timer"), SP_WAITED_OTHER);
	cr_expect_eq(sp_wait_kind_waited(NULL), SP_WAITED_OTHER);
}

Test(wait_leaf, says_that_the_kernel_blocks_without_a_call)
{
	const struct sp_task_place place = {.state = SP_TASK_IN_KERNEL};
	struct sp_wait_leaf leaf;

	sp_wait_leaf("/proc/self", &place, true, &leaf);
	cr_expect_not(leaf.is_target);
	cr_expect_eq(leaf.waited, SP_WAITED_OTHER);
	cr_expect_str_eq(leaf.text, "[blocked in the kernel]");
}
