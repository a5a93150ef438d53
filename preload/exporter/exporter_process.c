/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the program spanprof-exporter from a host, watches that it lives, and sees to its end.
 *
 * The exporter is a child of the keeper, a process that stays, so that nobody else ever is its parent. An
 * orphan would become a child of pid 1 or of the nearest subreaper, which may be the host itself or the
 * supervisor of a container: its wait() would find a process that it never started, and a loop around
 * wait() would not end before that process does.
 *
 * The keeper is a child of the host with exit signal 0, which wait() does not see without __WCLONE or
 * __WALL. It shares the host's memory, so that making it costs the same in a large host, touches only its
 * own stack and the words meant for it, holds no descriptor, and reaps the exporter. It must never write
 * oom_score_adj, change credentials or execute anything: because it shares the memory, the kernel would
 * change the host as well.
 *
 * The kernel turns the exit signal of each process whose parent ends into SIGCHLD (Linux 6.18,
 * reparent_leader()). So exporter and keeper have to end, and the keeper has to be reaped, before the host
 * ends. When the host is killed that is impossible: the keeper then ends at once, because it would keep
 * the host's memory, and the exporter sends what is left.
 *
 * Both begin in the memory of the host, with the thread pointer of the thread that made them, which goes
 * on meanwhile. A change of any variable, errno among them, would appear in the host. So the functions
 * that run in them, marked SP_RAW, make raw system calls on stacks of our own and use no libc, and no
 * variables but struct birth, the words of struct keeper that are meant for it, and the region. What they read
 * does not change before the keeper has ended.
 *
 * Where no child can share the host's memory (valgrind, qemu-user), there is no keeper, and the exporter is
 * an orphan.
 */
#include "preload/exporter/exporter_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"

#define BIT(signo) (UINT64_C(1) << ((signo)-1))

/* The memory of one start: guard, stack of the keeper, guard, stack of the exporter's process. */
#define STACK ((size_t)65536) /* a multiple of any page size */
#define BIRTH_BYTES (4 * STACK)

/* One start. It lies at the upper end of the keeper's stack, so that it outlives each of the processes. */
struct birth {
	struct sp_exporter_start start;
	char *memory;
	void *child_stack;   /* its top; NULL with the flags of fork */
	unsigned long flags; /* of the exporter's clone: SP_CHILD_SHARING, or those of fork */
	long host;           /* process ids */
	long exporter;

	/* Written by children. Visible to others only if memory is shared. */
	_Atomic uint32_t shared; /* 1 = memory is shared */
	_Atomic int32_t result;  /* 0, or a negative errno */
};

/* --- Clones without libc ------------------------------------------------------------------------- */

/*
 * The C library's clone() is not used for two reasons: it may be replaced by the host's own, and it
 * stores function and argument in the first words of the new stack, which are wrong where an
 * emulator forks instead and the child goes on with its parent's stack. Here function and argument
 * are in registers that the system call preserves.
 */

#define CLONE3_NR 435L /* the same on all architectures; headers may be older */
#define CLONE_SIGNAL 0xffUL

/* As clone3(2) takes them, since Linux 5.3. */
struct clone3_args {
	uint64_t flags;
	uint64_t pidfd;
	uint64_t child_tid;
	uint64_t parent_tid;
	uint64_t exit_signal;
	uint64_t stack; /* its lowest byte */
	uint64_t stack_size;
	uint64_t tls;
};

_Atomic bool sp_raw_clone_by_3;

/* One of the two system calls, with two arguments. */
SP_RAW static long clone_by(long call, unsigned long first, void *second, void (*run)(void *),
			    void *arg)
{
#if defined(__x86_64__)
	long rc;
	register void (*keep_run)(void *) __asm__("r12") = run;
	register void *keep_arg __asm__("r13") = arg;
	register long child_tid __asm__("r10") = 0;
	register long tls __asm__("r8") = 0;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "andq $-16, %%rsp\n\t"
			 "movq %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(rc)
			 : "0"(call), "D"(first), "S"(second), "d"(0L), "r"(child_tid), "r"(tls),
			   "r"(keep_run), "r"(keep_arg)
			 : "rcx", "r11", "cc", "memory");
	return rc;
#elif defined(__aarch64__)
	register long number __asm__("x8") = call;
	register long x0 __asm__("x0") = (long)first;
	register void *x1 __asm__("x1") = second;
	register long parent_tid __asm__("x2") = 0;
	register long tls __asm__("x3") = 0;
	register long child_tid __asm__("x4") = 0;
	register void (*keep_run)(void *) __asm__("x19") = run;
	register void *keep_arg __asm__("x20") = arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x30, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(number), "r"(x1), "r"(parent_tid), "r"(tls), "r"(child_tid),
			   "r"(keep_run), "r"(keep_arg)
			 : "cc", "memory");
	return x0;
#else
#error "clone is written for x86-64 and aarch64"
#endif
}

SP_RAW long sp_raw_clone(unsigned long flags, void *stack_top, void (*run)(void *), void *arg)
{
	/* The kernel takes the sum of stack and stack_size. */
	const uint64_t some = stack_top != NULL ? 16 : 0;
	const struct clone3_args args = {.flags = flags & ~CLONE_SIGNAL,
					 .exit_signal = flags & CLONE_SIGNAL,
					 .stack = (uint64_t)(uintptr_t)stack_top - some,
					 .stack_size = some};

	if (atomic_load_explicit(&sp_raw_clone_by_3, memory_order_relaxed)) {
		long rc = clone_by(CLONE3_NR, (unsigned long)(uintptr_t)&args, (void *)sizeof(args),
				   run, arg);

		/* The C library, too, goes on with clone(2) then. */
		if (rc != -ENOSYS)
			return rc;
		atomic_store_explicit(&sp_raw_clone_by_3, false, memory_order_relaxed);
	}
	return clone_by(SYS_clone, flags, stack_top, run, arg);
}

/* --- The exporter's process, from its clone to its execve ---------------------------------------- */

#define SIGNALS 64
/* What the program needs: files that it reads, connections. */
#define DESCRIPTORS_NEEDED 256U

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

/*
 * By the list of open ones where the kernel has no call for it (before Linux 5.9). Without that and without /proc
 * they stay open, and the exporter, which needs /proc, ends at once.
 */
SP_RAW static void close_from(long first)
{
	_Alignas(struct entry) char buffer[256] = {0};
	long folder;
	long got;

	/* gVisor refuses a last number above INT_MAX. */
	if (sp_arch_syscall(SP_CLOSE_RANGE_NR, first, INT_MAX, 0, 0) == 0)
		return;
	folder = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/fd",
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	/* The kernel continues the list by number, so closing entries on the way does no harm. */
	while (folder >= 0 && (got = sp_arch_syscall(SYS_getdents64, folder, (long)buffer,
						     sizeof(buffer), 0)) > 0) {
		for (long at = 0; at < got;) {
			const struct entry *e = (const void *)(buffer + at);
			long fd = number_of(e->name);

			if (fd >= first && fd != folder)
				(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
			at += e->bytes;
		}
	}
	(void)sp_arch_syscall(SYS_close, folder, 0, 0, 0);
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
	close_from(rc);
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

/* Sent to the keeper when the thread that made it ends. It is blocked, and only waited for. */
#define PARENT_ENDED SIGHUP
/* From the host: look at the words. Blocked, too. */
#define LOOK_AT_WORDS SIGUSR1

static struct keeper {
	long host; /* the process that made it; a forked child is another one */
	long pid;
	char *memory; /* its stack */
	const struct sp_region *region;
	_Atomic uint32_t is_over; /* written by the keeper: it is about to end. A futex */
	_Atomic uint32_t kills;   /* written by the host: the exporter has had its time */
	_Atomic int32_t exporter; /* written by itself before its program runs; 0 = not yet */
} keeper;

/* In the new process. */
SP_RAW static void become_exporter(void *arg)
{
	struct birth *birth = arg;
	const struct sp_exporter_start *start = &birth->start;
	char name[] = "spanprof-exporter";
	char *const argv[] = {name, NULL};
	long rc;

	atomic_store_explicit(&birth->shared, 1, memory_order_relaxed);
	reset_signals();
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	(void)sp_arch_syscall(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0);
	allow_descriptors();
	rc = arrange_descriptors(start);
	if (rc >= 0) {
		int32_t pid = (int32_t)sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);

		/* Before the program runs, because it may read this at once. */
		atomic_store_explicit(&start->region->exporter_pid, pid, memory_order_relaxed);
		atomic_store_explicit(&keeper.exporter, pid, memory_order_relaxed);
		rc = sp_arch_syscall(SYS_execve, (long)start->path, (long)argv,
				     (long)start->environment, 0);
	}
	atomic_store_explicit(&start->region->exporter_pid, 0, memory_order_relaxed);
	/* Release: whoever sees the error sees that the start has failed. */
	atomic_store_explicit(&start->region->exporter_error, (int32_t)-rc, memory_order_release);
	atomic_store_explicit(&birth->result, (int32_t)rc, memory_order_relaxed);
	sp_child_exit(1);
}

/*
 * In the exporter's parent. Makes the process and, if memory is shared, waits until it executes the
 * program. 0 or a negative errno. If memory is not shared, 0 says only that there is a process.
 */
SP_RAW static int bear(struct birth *birth)
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

/* --- The keeper, from its clone to its end ------------------------------------------------------- */

SP_RAW static void wake(_Atomic uint32_t *word)
{
	(void)sp_arch_syscall(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0);
}

/*
 * Until a signal comes, or for that time. The kernel, which reaps the exporter, tells with SIGCHLD what the exporter
 * has exited with.
 */
SP_RAW static void wait_for_signal(long exporter, const struct timespec *most, int *status)
{
	const uint64_t signals = BIT(SIGCHLD) | BIT(PARENT_ENDED) | BIT(LOOK_AT_WORDS);
	siginfo_t info = {0};

	if (sp_arch_syscall(SYS_rt_sigtimedwait, (long)&signals, (long)&info, (long)most,
			    sizeof(signals)) == SIGCHLD &&
	    info.si_code == CLD_EXITED && info.si_pid == exporter)
		*status = info.si_status;
}

/*
 * Until the exporter has ended and is reaped, or the host has ended: then false. status is written where it is known
 * what the exporter has exited with.
 */
SP_RAW static bool wait_for_an_end(long exporter, long host, int *status)
{
	/*
	 * The time limit is for a host that has changed its user: the kernel may not send
	 * PARENT_ENDED then, and the host not LOOK_AT_WORDS.
	 */
	const struct timespec second = {.tv_sec = 1};
	const struct timespec now = {0};
	const unsigned long plain[4] = {0};
	long rc;

	for (;;) {
		rc = sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0);
		/* A filter of the host may refuse to answer. */
		if (rc == exporter || rc == -ECHILD ||
		    (rc != 0 && sp_arch_syscall(SYS_kill, exporter, 0, 0, 0) == -ESRCH)) {
			/* The signal comes before the exporter is reaped, so it is there. */
			wait_for_signal(exporter, &now, status);
			return true;
		}
		/* The end of a single thread of the host sends PARENT_ENDED, too. */
		if (sp_arch_syscall(SYS_getppid, 0, 0, 0, 0) != host)
			return false;
		/* From then on it stays until it is reaped here, so its number remains its own. */
		if (atomic_load_explicit(&keeper.kills, memory_order_relaxed) != 0) {
			(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)plain, 0,
					      sizeof(uint64_t));
			if (sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0) ==
			    0)
				(void)sp_arch_syscall(SYS_kill, exporter, SIGKILL, 0, 0);
		}
		wait_for_signal(exporter, &second, status);
	}
}

/* The exporter did not say this itself. Whoever waits for a flush sleeps on flush_done. */
SP_RAW static void tell(struct sp_region *region, uint32_t before, uint32_t state)
{
	(void)atomic_compare_exchange_strong_explicit(&region->exporter, &before, state,
						      memory_order_release, memory_order_relaxed);
	wake(&region->flush_done);
}

/* In the keeper. */
SP_RAW static void keep(void *arg)
{
	struct birth *birth = arg;
	struct sp_region *region = birth->start.region;
	/*
	 * The kernel reaps, and sends the signal even so. If the keeper did, the exporter's CPU time
	 * would be the keeper's and then, when that is reaped, the host's (RUSAGE_CHILDREN).
	 */
	const unsigned long discard[4] = {0, SA_NOCLDWAIT};
	const char name[16] = "spanprof-keeper";
	const uint64_t all = ~UINT64_C(0);
	int status = -1;
	int rc;

	/* SIGSYS too, which is unblocked in the host's thread: its handler is the host's. */
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)discard, 0, sizeof(uint64_t));
	(void)sp_arch_syscall(SYS_prctl, PR_SET_PDEATHSIG, PARENT_ENDED, 0, 0);
	(void)sp_arch_syscall(SYS_prctl, PR_SET_NAME, (long)name, 0, 0);
	/* Signals to the host's process group or from its terminal are not meant for the keeper. */
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	rc = bear(birth);
	/* After the program was executed, because its path may be relative. */
	(void)sp_arch_syscall(SYS_chdir, (long)"/", 0, 0, 0);
	/*
	 * They are copies of the host's descriptors. As long as one of them is open, a pipe never
	 * ends.
	 */
	close_from(0);
	if (rc != 0) {
		/* Before the state: whoever sees that sees why. */
		atomic_store_explicit(&region->exporter_error, -rc, memory_order_relaxed);
		tell(region, SP_EXPORTER_NONE, SP_EXPORTER_FAILED);
	} else if (wait_for_an_end(birth->exporter, birth->host, &status)) {
		if (status == SP_EXPORTER_OTHER_BUILD) {
			atomic_store_explicit(&region->exporter_error, EPROTO,
					      memory_order_relaxed);
			tell(region, SP_EXPORTER_NONE, SP_EXPORTER_FAILED);
		}
		tell(region, SP_EXPORTER_WORKING, SP_EXPORTER_GONE);
	}
	atomic_store_explicit(&keeper.is_over, 1, memory_order_release);
	wake(&keeper.is_over);
	sp_child_exit(0);
}

/* --- In the host --------------------------------------------------------------------------------- */

/* Room for a name such as "pid:[4026531836]". */
#define NAMESPACE_NAME_MAX 64
/* How often a wait for the exporter's end looks whether its keeper was killed. */
#define LOOK_NS (20 * SP_NS_PER_MS)
/* The keeper of a host that is another user by now looks once a second whether it is to kill. */
#define KILL_NS (1500 * SP_NS_PER_MS)

static struct sp_try_lock under_way;

static bool name_of(const char *namespace, char name[NAMESPACE_NAME_MAX])
{
	long n = sp_arch_syscall(SYS_readlinkat, AT_FDCWD, (long)namespace, (long)name,
				 NAMESPACE_NAME_MAX - 1);

	name[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/*
 * Whether the calling thread has unshared the pid namespace, or entered another one with setns().
 * Its first child would be pid 1 there, and when that ends no fork of the host succeeds any more.
 */
static bool children_live_elsewhere(void)
{
	static const char for_children[] = "/proc/thread-self/ns/pid_for_children";
	char own[NAMESPACE_NAME_MAX];
	char childrens[NAMESPACE_NAME_MAX];
	struct stat unused;

	if (!name_of("/proc/thread-self/ns/pid", own))
		return false; /* no /proc, or an old one: assume that it has not */
	if (name_of(for_children, childrens))
		return strcmp(own, childrens) != 0;
	/*
	 * A link that exists and cannot be read is that of a namespace without a pid 1. Since Linux
	 * 4.12.
	 */
	return sp_arch_syscall(SYS_newfstatat, AT_FDCWD, (long)for_children, (long)&unused,
			       AT_SYMLINK_NOFOLLOW) == 0;
}

/* Stacks and birth; NULL if there is no memory. */
static struct birth *new_birth(const struct sp_exporter_start *start)
{
	char *memory = (char *)syscall(SYS_mmap, NULL, BIRTH_BYTES, PROT_NONE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, (off_t)0);
	struct birth *birth;
	char *stack;

	if (memory == MAP_FAILED)
		return NULL;
	stack = memory + STACK;
	if (syscall(SYS_mprotect, stack, STACK, PROT_READ | PROT_WRITE) != 0 ||
	    syscall(SYS_mprotect, stack + 2 * STACK, STACK, PROT_READ | PROT_WRITE) != 0) {
		(void)syscall(SYS_munmap, memory, BIRTH_BYTES);
		return NULL;
	}
	/* A multiple of 64, so the stack below stays aligned to 16. */
	birth = (void *)(stack + STACK - (sizeof(*birth) + 63) / 64 * 64);
	birth->start = *start;
	birth->memory = memory;
	birth->child_stack = memory + BIRTH_BYTES;
	birth->flags = SP_CHILD_SHARING;
	birth->host = sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);
	return birth;
}

/* The first child where no memory can be shared: it makes the exporter's process and ends. */
SP_RAW static void bear_and_end(void *arg)
{
	(void)bear(arg);
	sp_child_exit(0);
}

/* Removes the pending SIGCHLD of our own child that has ended, and no other. SIGCHLD is blocked. */
static void take_back_sigchld(long child)
{
	const uint64_t chld = BIT(SIGCHLD);
	const struct timespec now = {0};
	siginfo_t taken = {0};
	siginfo_t waiting = {0};

	if (sp_arch_syscall(SYS_rt_sigtimedwait, (long)&chld, (long)&taken, (long)&now,
			    sizeof(chld)) != SIGCHLD)
		return;
	/* One signal stands for all children that have ended since it was sent. */
	if (taken.si_pid == child && (syscall(SYS_waitid, P_ALL, 0, &waiting,
					      WEXITED | WSTOPPED | WNOHANG | WNOWAIT, NULL) != 0 ||
				      waiting.si_pid == 0))
		return;
	(void)syscall(SYS_rt_sigqueueinfo, getpid(), SIGCHLD, &taken);
}

/*
 * The start where no child can share our memory, and so none can be a keeper: valgrind makes a fork
 * of each clone that is not a thread, and qemu-user refuses one with another exit signal than
 * SIGCHLD. There the first of two forked children ends at once, and the exporter is an orphan.
 */
static int start_forked(struct birth *birth)
{
	uint64_t pending = 0;
	int subreaper = 0;
	long child;
	long rc;

	/* The orphan would become a child of the host. */
	(void)syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0L, 0L, 0L);
	if (subreaper != 0 || birth->host == 1)
		return -EOPNOTSUPP;
	birth->flags = SIGCHLD;
	birth->child_stack = NULL;
	(void)sp_arch_syscall(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0);
	child = sp_raw_clone(SIGCHLD, NULL, bear_and_end, birth);
	if (child < 0)
		return (int)child;
	do
		rc = sp_arch_syscall(SYS_wait4, child, 0, (long)__WALL, 0);
	while (rc == -EINTR);
	if ((pending & BIT(SIGCHLD)) == 0)
		take_back_sigchld(child);
	return -atomic_load_explicit(&birth->start.region->exporter_error, memory_order_relaxed);
}

/* 0 or a negative errno: -EINVAL where no child can share our memory. After 0 birth is the keeper's. */
static int start_keeper(struct birth *birth)
{
	long child;

	if (sp_arch_on_valgrind())
		return -EINVAL;
	atomic_store_explicit(&keeper.is_over, 0, memory_order_relaxed);
	atomic_store_explicit(&keeper.kills, 0, memory_order_relaxed);
	atomic_store_explicit(&keeper.exporter, 0, memory_order_relaxed);
	keeper.region = birth->start.region;
	/* Its stack lies below birth. */
	child = sp_raw_clone(CLONE_VM | CLONE_UNTRACED, birth, keep, birth);
	if (child < 0)
		return (int)child;
	keeper.host = birth->host;
	keeper.pid = child;
	keeper.memory = birth->memory;
	return 0;
}

static int start_at_all(const struct sp_exporter_start *start)
{
	struct birth *birth = new_birth(start);
	/*
	 * All but SIGSYS: if a seccomp filter of the host answers with SIGSYS while that is
	 * blocked, the kernel kills the process.
	 */
	const uint64_t all = ~BIT(SIGSYS);
	uint64_t before;
	bool kept;
	int rc;

	if (birth == NULL)
		return -ENOMEM;
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before,
			      sizeof(all));
	rc = start_keeper(birth);
	kept = rc == 0;
	if (rc == -EINVAL)
		rc = start_forked(birth);
	if (!kept)
		(void)syscall(SYS_munmap, birth->memory, BIRTH_BYTES);
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	return rc;
}

static bool is_of_this_process(void)
{
	return keeper.host == sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);
}

bool sp_keeper_made(const struct sp_region *region)
{
	return keeper.region == region && is_of_this_process();
}

const struct sp_region *sp_keeper_region(void)
{
	return keeper.region;
}

int32_t sp_keeper_exporter(const struct sp_region *region)
{
	/* The number of one that has ended may be another process's. */
	return sp_keeper_made(region) &&
			       atomic_load_explicit(&keeper.is_over, memory_order_relaxed) == 0
		       ? atomic_load_explicit(&keeper.exporter, memory_order_relaxed)
		       : 0;
}

bool sp_keeper_is_there(void)
{
	return keeper.pid != 0 && is_of_this_process();
}

/*
 * One thread at a time. False if there is a keeper that has not ended. One that has says that the exporter has
 * ended, or that the keeper was killed.
 *
 * The host may have reaped it with __WALL, and a filter of the host may refuse to answer. Its stack goes only
 * when it certainly has: without it the keeper would die, and the kernel may dump the core of all that share
 * its memory.
 */
static bool reap(void)
{
	long rc;

	if (!sp_keeper_is_there())
		return true;
	rc = sp_arch_syscall(SYS_wait4, keeper.pid, 0, (long)(WNOHANG | __WCLONE), 0);
	if (rc == 0 || (rc != keeper.pid && rc != -ECHILD &&
			atomic_load_explicit(&keeper.is_over, memory_order_acquire) == 0))
		return false;
	if (rc == keeper.pid || sp_arch_syscall(SYS_kill, keeper.pid, 0, 0, 0) == -ESRCH)
		(void)sp_arch_syscall(SYS_munmap, (long)keeper.memory, (long)BIRTH_BYTES, 0, 0);
	keeper.pid = 0;
	return true;
}

int sp_exporter_process_start(const struct sp_exporter_start *start)
{
	int saved = errno;
	int rc = -EBUSY;

	if (!sp_try_lock_once(&under_way))
		return rc;
	if (reap()) {
		atomic_store_explicit(&start->region->exporter_pid, 0, memory_order_relaxed);
		atomic_store_explicit(&start->region->exporter_error, 0, memory_order_relaxed);
		rc = children_live_elsewhere() ? -EXDEV : start_at_all(start);
	}
	sp_unlock(&under_way);
	errno = saved;
	return rc;
}

/*
 * A joined exporter, which another process has started, or that of an emulator. Its number may be that of
 * another process by now, which began at another moment; that is unknown where /proc does not show it
 * (hidepid).
 */
static bool other_exporter_lives(const struct sp_region *region)
{
	long pid = atomic_load_explicit(&region->exporter_pid, memory_order_relaxed);
	uint64_t own = atomic_load_explicit(&region->exporter_began, memory_order_relaxed);
	uint64_t now = 0;
	char state = '?';
	char text[512];
	long rc = pid > 0 ? sp_arch_syscall(SYS_kill, pid, 0, 0, 0) : -ESRCH;
	long fd;

	if (rc != 0 && rc != -EPERM)
		return false;
	(void)sp_fmt_snprintf(text, sizeof(text), "/proc/%ld/stat", pid);
	fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)text, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		rc = sp_arch_syscall(SYS_read, fd, (long)text, sizeof(text) - 1, 0);
		(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
		text[rc > 0 ? rc : 0] = '\0';
		now = sp_proc_stat(text, SP_STAT_START, &state);
	}
	return state != 'Z' && state != 'X' && (own == 0 || now == 0 || own == now);
}

bool sp_exporter_process_may_start(void)
{
	bool is_free = false;

	if (sp_try_lock_once(&under_way)) {
		is_free = reap();
		sp_unlock(&under_way);
	}
	return is_free;
}

bool sp_exporter_process_alive(const struct sp_region *region)
{
	/* The keeper ends with the exporter. */
	return sp_keeper_made(region) ? !sp_exporter_process_may_start()
				      : other_exporter_lives(region);
}

bool sp_exporter_process_end(uint64_t end_ns)
{
	uint64_t killed_ns = 0;
	uint64_t now;

	while (!sp_exporter_process_may_start()) {
		now = sp_monotonic_ns();
		if (now >= end_ns && killed_ns == 0) {
			atomic_store_explicit(&keeper.kills, 1, memory_order_relaxed);
			if (sp_keeper_is_there())
				(void)sp_arch_syscall(SYS_kill, keeper.pid, LOOK_AT_WORDS, 0, 0);
			killed_ns = now;
		}
		if (killed_ns != 0 && now - killed_ns > KILL_NS)
			return false;
		/* When the word is set the process has some system calls left. */
		if (atomic_load_explicit(&keeper.is_over, memory_order_acquire) != 0) {
			(void)sp_arch_syscall(SYS_sched_yield, 0, 0, 0, 0);
		} else {
			const struct timespec look = {
				.tv_nsec = now < end_ns && end_ns - now < LOOK_NS
						   ? (long)(end_ns - now)
						   : (long)LOOK_NS,
			};

			(void)sp_arch_syscall(SYS_futex, (long)&keeper.is_over, FUTEX_WAIT, 0,
					      (long)&look);
		}
	}
	return true;
}
