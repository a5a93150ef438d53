/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporter's process does between its clone and its execve. It runs in the memory of a
 * host whose thread is suspended meanwhile. A change of any variable, errno among them, would
 * appear in the host. So everything here is raw system calls: no libc, and no variables but struct
 * sp_exporter_birth.
 */
#include "preload/exporter/exporter_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "preload/exporter/raw_clone.h"
#include "sampler/base/arch_sig.h"

_Atomic bool sp_raw_clone_by_3;

#define SIGNALS 64
/* What the program needs: files that it reads, connections. */
#define DESCRIPTORS_NEEDED 256U
/* How many are tried if there is neither close_range nor /proc. */
#define DESCRIPTORS_TRIED 65536L

/* The kernel's view of struct sigaction; zero is SIG_DFL, no flags, an empty mask, on any processor. */
struct kernel_sigaction {
	unsigned long word[4];
};

/* The kernel's struct linux_dirent64, whose name begins at byte 19. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[5];
};

/*
 * At the exit of a process valgrind makes the C library free its memory (--run-libc-freeres), which
 * writes what the host has in the buffers of its streams, and then looks for leaks. The host will
 * do both itself. Valgrind does not notice a SIGKILL that is sent by this call.
 */
SP_RAW static void end_on_valgrind(void)
{
	siginfo_t info = {0};

	info.si_code = SI_QUEUE;
	(void)sp_arch_syscall(SYS_rt_sigqueueinfo, sp_arch_syscall(SYS_getpid, 0, 0, 0, 0), SIGKILL,
			      (long)&info, 0);
}

SP_RAW _Noreturn void sp_child_exit(int status)
{
	if (sp_arch_on_valgrind())
		end_on_valgrind();
	for (;;)
		(void)sp_arch_syscall(SYS_exit_group, status, 0, 0, 0);
}

SP_RAW static void reset_signals(void)
{
	const struct kernel_sigaction plain = {{0}};
	const uint64_t none = 0;

	for (long signo = 1; signo <= SIGNALS; signo++)
		(void)sp_arch_syscall(SYS_rt_sigaction, signo, (long)&plain, 0, sizeof(none));
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof(none));
}

/* The number of an entry of /proc/self/fd; -1 for "." and "..". */
SP_RAW static long number_of(const char *name)
{
	long n = 0;

	if (*name < '0' || *name > '9')
		return -1;
	for (; *name >= '0' && *name <= '9'; name++)
		n = n * 10 + (*name - '0');
	return n;
}

/* Closes descriptors by the list of open ones. False if there is no such list. */
SP_RAW static bool close_listed(long first)
{
	_Alignas(struct entry) char buffer[256] = {0};
	long folder = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/fd",
				      O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	long got;

	if (folder < 0)
		return false;
	/* The kernel continues the list by number, so closing entries on the way does no harm. */
	while ((got = sp_arch_syscall(SYS_getdents64, folder, (long)buffer, sizeof(buffer), 0)) >
	       0) {
		for (long at = 0; at < got;) {
			const struct entry *e = (const void *)(buffer + at);
			long fd = number_of(e->name);

			if (fd >= first && fd != folder)
				(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
			at += e->bytes;
		}
	}
	(void)sp_arch_syscall(SYS_close, folder, 0, 0, 0);
	return got == 0;
}

SP_RAW static void close_counted(long first)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	long end = DESCRIPTORS_TRIED;

	if (sp_arch_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit) == 0 &&
	    limit.rlim_max < (rlim_t)end)
		end = (long)limit.rlim_max;
	for (long fd = first; fd < end; fd++)
		(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
}

SP_RAW void sp_child_close_from(long first)
{
	/* gVisor refuses a last number above INT_MAX. */
	if (sp_arch_syscall(SP_CLOSE_RANGE_NR, first, INT_MAX, 0, 0) == 0)
		return;
	if (!close_listed(first))
		close_counted(first);
}

/*
 * The host may be limited to few descriptors. With too few, not even the loader can open a library.
 */
SP_RAW static void allow_descriptors(void)
{
	struct rlimit limit = {0};

	if (sp_arch_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit) != 0 ||
	    limit.rlim_cur >= DESCRIPTORS_NEEDED)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_NEEDED ? limit.rlim_max : DESCRIPTORS_NEEDED;
	(void)sp_arch_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&limit, 0);
}

/*
 * Puts the descriptors that we hand over at their numbers. They are first moved away from these
 * numbers, because one may be where another has to go. If the limit allows no other numbers, only
 * the region is handed over. Returns the first number behind them, or a negative errno if the
 * region could not be put in place.
 */
SP_RAW static long hand_over(const struct sp_exporter_start *start)
{
	const long from[] = {start->region_fd, start->folder_fd, start->maps_fd, start->family_fd};
	const long end = SP_FAMILY_FD + 1;
	long away[4];
	long rc;

	for (long i = 0; i < end - SP_REGION_FD; i++)
		away[i] = from[i] >= 0 ? sp_arch_syscall(SYS_fcntl, from[i], F_DUPFD, end, 0) : -1;
	for (long i = 0; away[0] >= 0 && i < end - SP_REGION_FD; i++) {
		if (away[i] < 0)
			rc = sp_arch_syscall(SYS_close, SP_REGION_FD + i, 0, 0, 0);
		else
			rc = sp_arch_syscall(SYS_dup3, away[i], SP_REGION_FD + i, 0, 0);
		if (i == 0 && rc < 0)
			return rc;
	}
	if (away[0] >= 0)
		return end;
	rc = from[0] == SP_REGION_FD ? sp_arch_syscall(SYS_fcntl, from[0], F_SETFD, 0, 0)
				     : sp_arch_syscall(SYS_dup3, from[0], SP_REGION_FD, 0, 0);
	return rc < 0 ? rc : SP_REGION_FD + 1;
}

/* The descriptors that are handed over at their numbers, /dev/null at 0 to 2, all others closed. */
SP_RAW static long arrange_descriptors(const struct sp_exporter_start *start)
{
	long rc = hand_over(start);

	if (rc < 0)
		return rc;
	sp_child_close_from(rc);
	/*
	 * Closed first, because the limit may allow no other numbers. The next file that is opened
	 * is then 0.
	 */
	for (long fd = 0; fd < SP_REGION_FD; fd++)
		(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	rc = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR, 0);
	if (rc < 0)
		rc = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/", O_PATH, 0);
	for (long fd = 1; rc == 0 && fd < SP_REGION_FD; fd++)
		(void)sp_arch_syscall(SYS_dup3, 0, fd, 0, 0);
	return 0;
}

/* In the new process. */
SP_RAW static void become_exporter(void *arg)
{
	struct sp_exporter_birth *birth = arg;
	const struct sp_exporter_start *start = &birth->start;
	char name[] = "spanprof-exporter";
	char *const argv[] = {name, NULL};
	long rc;

	atomic_store_explicit(&birth->shared, 1, memory_order_relaxed);
	reset_signals();
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	(void)sp_raw_prctl(PR_SET_PDEATHSIG, 0);
	allow_descriptors();
	rc = arrange_descriptors(start);
	if (rc >= 0) {
		/* Before the program runs, because it may read this at once. */
		atomic_store_explicit(&start->region->exporter_pid,
				      (int32_t)sp_arch_syscall(SYS_getpid, 0, 0, 0, 0),
				      memory_order_relaxed);
		rc = sp_arch_syscall(SYS_execve, (long)start->path, (long)argv,
				     (long)start->environment, 0);
	}
	atomic_store_explicit(&start->region->exporter_pid, 0, memory_order_relaxed);
	/* Release: whoever sees the error sees that the start has failed. */
	atomic_store_explicit(&start->region->exporter_error, (int32_t)-rc, memory_order_release);
	atomic_store_explicit(&birth->result, (int32_t)rc, memory_order_relaxed);
	sp_child_exit(1);
}

SP_RAW int sp_exporter_bear(struct sp_exporter_birth *birth)
{
	long child;
	long rc;

	/* The result if the process is killed before it can write another one. */
	atomic_store_explicit(&birth->result, -ECHILD, memory_order_relaxed);
	atomic_store_explicit(&birth->shared, 0, memory_order_relaxed);
	child = sp_raw_clone(birth->flags, birth->child_stack, become_exporter, birth);
	if (child < 0)
		return (int)child;
	birth->exporter = child;
	if (atomic_load_explicit(&birth->shared, memory_order_relaxed) == 0)
		return 0;
	/*
	 * The clone has returned, so the process has executed the program or is ending. After an
	 * execve its exit signal is SIGCHLD, and __WCLONE does not wait for such a child.
	 */
	do
		rc = sp_arch_syscall(SYS_wait4, child, 0, (long)__WCLONE, 0);
	while (rc == -EINTR);
	if (rc == -ECHILD)
		return 0;
	atomic_store_explicit(&birth->start.region->exporter_pid, 0, memory_order_relaxed);
	return atomic_load_explicit(&birth->result, memory_order_relaxed);
}
