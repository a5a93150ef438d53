/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that threads wait in, by the numbers that the kernel of each processor has for them. */
#include "export/off_cpu/wait_kind.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#if defined(__aarch64__)
#define NUMBER(x86_64, aarch64) (aarch64)
#else
#define NUMBER(x86_64, aarch64) (x86_64)
#endif
#define NEVER (-1)

/* Of arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. */
static const struct {
	int number;
	const char *leaf; /* of a descriptor that does not exist */
	enum sp_waited waited;
} calls[] = {
	{NUMBER(202, 98), "futex (lock)", SP_WAITED_LOCK},
	{NUMBER(65, 193), "semop (lock)", SP_WAITED_LOCK},
	{NUMBER(220, 192), "semtimedop (lock)", SP_WAITED_LOCK},
	{NUMBER(73, 32), "flock (lock)", SP_WAITED_LOCK},
	{NUMBER(72, 25), "fcntl (lock)", SP_WAITED_LOCK},
	{NUMBER(35, 101), "nanosleep (timer)", SP_WAITED_OTHER},
	{NUMBER(230, 115), "clock_nanosleep (timer)", SP_WAITED_OTHER},
	{NUMBER(61, 260), "wait4 (child)", SP_WAITED_OTHER},
	{NUMBER(247, 95), "waitid (child)", SP_WAITED_OTHER},
	{NUMBER(58, NEVER), "vfork (child)", SP_WAITED_OTHER},
	{NUMBER(7, NEVER), "poll (events)", SP_WAITED_IO},
	{NUMBER(23, NEVER), "select (events)", SP_WAITED_IO},
	{NUMBER(232, NEVER), "epoll_wait (events)", SP_WAITED_IO},
	{NUMBER(271, 73), "ppoll (events)", SP_WAITED_IO},
	{NUMBER(270, 72), "pselect6 (events)", SP_WAITED_IO},
	{NUMBER(281, 22), "epoll_pwait (events)", SP_WAITED_IO},
	{NUMBER(441, 441), "epoll_pwait2 (events)", SP_WAITED_IO},
	{NUMBER(208, 4), "io_getevents (events)", SP_WAITED_IO},
	{NUMBER(426, 426), "io_uring_enter (events)", SP_WAITED_IO},
	{NUMBER(128, 137), "rt_sigtimedwait (signal)", SP_WAITED_OTHER},
	{NUMBER(42, 203), "connect (socket)", SP_WAITED_IO},
	{NUMBER(43, 202), "accept (socket)", SP_WAITED_IO},
	{NUMBER(288, 242), "accept4 (socket)", SP_WAITED_IO},
	{NUMBER(44, 206), "sendto (socket)", SP_WAITED_IO},
	{NUMBER(45, 207), "recvfrom (socket)", SP_WAITED_IO},
	{NUMBER(46, 211), "sendmsg (socket)", SP_WAITED_IO},
	{NUMBER(47, 212), "recvmsg (socket)", SP_WAITED_IO},
	{NUMBER(299, 243), "recvmmsg (socket)", SP_WAITED_IO},
	{NUMBER(307, 269), "sendmmsg (socket)", SP_WAITED_IO},
	{NUMBER(0, 63), "read", SP_WAITED_OTHER},
	{NUMBER(1, 64), "write", SP_WAITED_OTHER},
	{NUMBER(19, 65), "readv", SP_WAITED_OTHER},
	{NUMBER(20, 66), "writev", SP_WAITED_OTHER},
	{NUMBER(17, 67), "pread64", SP_WAITED_OTHER},
	{NUMBER(18, 68), "pwrite64", SP_WAITED_OTHER},
	{NUMBER(40, 71), "sendfile", SP_WAITED_OTHER},
	{NUMBER(275, 76), "splice", SP_WAITED_OTHER},
	{NUMBER(74, 82), "fsync", SP_WAITED_OTHER},
	{NUMBER(75, 83), "fdatasync", SP_WAITED_OTHER},
	{NUMBER(16, 29), "ioctl", SP_WAITED_OTHER},
	{NUMBER(257, 56), "openat", SP_WAITED_OTHER},
	{NUMBER(9, 222), "mmap", SP_WAITED_OTHER},
	{NUMBER(11, 215), "munmap", SP_WAITED_OTHER},
	{NUMBER(28, 233), "madvise", SP_WAITED_OTHER},
	{NUMBER(56, 220), "clone", SP_WAITED_OTHER},
	{NUMBER(435, 435), "clone3", SP_WAITED_OTHER},
	{NUMBER(24, 124), "sched_yield", SP_WAITED_OTHER},
	{9999, "system call 9999", SP_WAITED_OTHER},
};

/* As the kernel shows it; the second argument is not 0, so that events are waited for. */
static void read_leaf(int number, struct sp_wait_leaf *leaf)
{
	struct sp_task_place place;
	char text[SP_TASK_TEXT];

	(void)snprintf(text, sizeof(text),
		       "%d 0x7fffffff 0x1 0x1 0x0 0x0 0x0 0x7ffd3a1b2c40 0x7f12deadbeef\n", number);
	cr_assert(sp_task_place_parse(text, &place));
	sp_wait_leaf(NULL, "/proc/self", &place, leaf);
}

Test(wait_kind, is_known_by_the_number_of_the_call, .timeout = 20)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct sp_wait_leaf leaf;

		if (calls[i].number == NEVER)
			continue;
		read_leaf(calls[i].number, &leaf);
		cr_expect_str_eq(leaf.text, calls[i].leaf);
		cr_expect_eq(leaf.waited, calls[i].waited, "%s", calls[i].leaf);
	}
}
