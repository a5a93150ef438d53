/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls in which threads wait, by each processor's numbers. */
#include "export/off_cpu/wait_leaf.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__aarch64__)
#define NUMBER(x86_64, aarch64) (aarch64)
#else
#define NUMBER(x86_64, aarch64) (x86_64)
#endif
#define NEVER (-1)

/* From arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. */
static const struct {
	int number;
	const char *leaf; /* for a descriptor that does not exist */
} calls[] = {
	{NUMBER(202, 98), "futex (lock)"},
	{NUMBER(65, 193), "semop (lock)"},
	{NUMBER(220, 192), "semtimedop (lock)"},
	{NUMBER(73, 32), "flock (lock)"},
	{NUMBER(72, 25), "fcntl (lock)"},
	{NUMBER(35, 101), "nanosleep (timer)"},
	{NUMBER(230, 115), "clock_nanosleep (timer)"},
	{NUMBER(61, 260), "wait4 (child)"},
	{NUMBER(247, 95), "waitid (child)"},
	{NUMBER(58, NEVER), "vfork (child)"},
	{NUMBER(7, NEVER), "poll (events)"},
	{NUMBER(23, NEVER), "select (events)"},
	{NUMBER(232, NEVER), "epoll_wait (events)"},
	{NUMBER(271, 73), "ppoll (events)"},
	{NUMBER(270, 72), "pselect6 (events)"},
	{NUMBER(281, 22), "epoll_pwait (events)"},
	{NUMBER(441, 441), "epoll_pwait2 (events)"},
	{NUMBER(208, 4), "io_getevents (events)"},
	{NUMBER(426, 426), "io_uring_enter (events)"},
	{NUMBER(128, 137), "rt_sigtimedwait (signal)"},
	{NUMBER(42, 203), "connect (socket)"},
	{NUMBER(43, 202), "accept (socket)"},
	{NUMBER(288, 242), "accept4 (socket)"},
	{NUMBER(44, 206), "sendto (socket)"},
	{NUMBER(45, 207), "recvfrom (socket)"},
	{NUMBER(46, 211), "sendmsg (socket)"},
	{NUMBER(47, 212), "recvmsg (socket)"},
	{NUMBER(299, 243), "recvmmsg (socket)"},
	{NUMBER(307, 269), "sendmmsg (socket)"},
	{NUMBER(0, 63), "read"},
	{NUMBER(1, 64), "write"},
	{NUMBER(19, 65), "readv"},
	{NUMBER(20, 66), "writev"},
	{NUMBER(17, 67), "pread64"},
	{NUMBER(18, 68), "pwrite64"},
	{NUMBER(40, 71), "sendfile"},
	{NUMBER(275, 76), "splice"},
	{NUMBER(74, 82), "fsync"},
	{NUMBER(75, 83), "fdatasync"},
	{NUMBER(16, 29), "ioctl"},
	{NUMBER(257, 56), "openat"},
	{NUMBER(9, 222), "mmap"},
	{NUMBER(11, 215), "munmap"},
	{NUMBER(28, 233), "madvise"},
	{NUMBER(56, 220), "clone"},
	{NUMBER(435, 435), "clone3"},
	{NUMBER(24, 124), "sched_yield"},
	{9999, "system call 9999"},
};

/* The place as the kernel shows it; the second argument is not 0, so that the call waits for events. */
static void read_leaf_with(struct sp_sockets *targets, int number, int fd, char leaf[SP_WAIT_LEAF])
{
	struct sp_task_place place;
	char text[SP_TASK_TEXT];

	(void)snprintf(text, sizeof(text),
		       "%d 0x%x 0x1 0x1 0x0 0x0 0x0 0x7ffd3a1b2c40 0x7f12deadbeef\n", number,
		       (unsigned)fd);
	cr_assert(sp_task_place_parse(text, &place));
	sp_wait_leaf(targets, "/proc/self", &place, leaf);
}

static void read_leaf(int number, int fd, char leaf[SP_WAIT_LEAF])
{
	read_leaf_with(NULL, number, fd, leaf);
}

Test(wait_leaf, is_known_by_the_number_of_the_call, .timeout = 20)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		char leaf[SP_WAIT_LEAF];

		if (calls[i].number == NEVER)
			continue;
		read_leaf(calls[i].number, INT_MAX, leaf);
		cr_expect_str_eq(leaf, calls[i].leaf);
	}
}

Test(wait_leaf, says_what_a_descriptor_is, .timeout = 20)
{
	char leaf[SP_WAIT_LEAF];
	int fd[2];

	cr_assert_eq(pipe(fd), 0);
	read_leaf(NUMBER(0, 63), fd[0], leaf);
	cr_expect_str_eq(leaf, "read (pipe)");
	read_leaf(NUMBER(45, 207), fd[0], leaf);
	cr_expect_str_eq(leaf, "recvfrom (socket)");
}

/* The first argument of many calls is no descriptor, but may be a number that a descriptor has. */
Test(wait_leaf, says_what_a_descriptor_is_of_calls_that_wait_for_one, .timeout = 20)
{
	struct sp_sockets targets = {0};
	char folder[128];
	char leaf[SP_WAIT_LEAF];
	char want[SP_WAIT_LEAF];
	int fd = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(folder, sizeof(folder), "/usr");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) - 1; i++) {
		const char *kind = strchr(calls[i].leaf, '(');
		bool is_lock = strncmp(calls[i].leaf, "flock", 5) == 0 ||
			       strncmp(calls[i].leaf, "fcntl", 5) == 0;

		if (calls[i].number == NEVER)
			continue;
		read_leaf_with(&targets, calls[i].number, fd, leaf);
		(void)snprintf(want, sizeof(want), "%s", calls[i].leaf);
		if (is_lock || (kind != NULL && strcmp(kind, "(socket)") == 0))
			(void)snprintf(want, sizeof(want), "%.*s %s",
				       (int)(kind - calls[i].leaf - 1), calls[i].leaf, folder);
		else if (kind == NULL && strncmp(leaf, calls[i].leaf, strlen(calls[i].leaf)) == 0)
			continue;
		cr_expect_str_eq(leaf, want);
	}
	close(fd);
}
