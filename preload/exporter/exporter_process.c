/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the program spanprof-exporter from a host, watches whether it lives, and ends it.
 *
 * The exporter is a child of the keeper, a process that stays, so the exporter never gets another
 * parent. An orphan would become a child of pid 1 or of the nearest subreaper, which may be the
 * host itself or the supervisor of a container. The wait() of that process would find a child that
 * it never started, and its loop around wait() would not end before the exporter.
 *
 * The keeper is a child of the host with exit signal 0, which wait() does not see without __WCLONE
 * or __WALL. It shares the host's memory, so that making it costs no more in a large host. It
 * writes only to its own stack, to some words of struct keeper and to the region, has no descriptor
 * but a pidfd of the exporter, and reaps the exporter. It must never write oom_score_adj, change
 * credentials or execute a program: because it shares the memory, the kernel would change the host
 * as well. A seccomp filter allows the keeper a few calls, none of which does that.
 *
 * When a process ends, the kernel turns the exit signal of its children into SIGCHLD (Linux 6.18,
 * reparent_leader()). So exporter and keeper have to end, and the keeper has to be reaped, before
 * the host ends. If the host is killed, this is impossible. Then the keeper ends at once, because
 * the host's memory would stay in use as long as the keeper lives, and the exporter sends the
 * remaining samples.
 *
 * Keeper and exporter begin in the memory of the host, with the thread pointer of the thread that
 * made them, while that thread goes on. A change of any variable, errno among them, would appear in
 * the host. So the functions that run in them, marked SP_RAW, make raw system calls on stacks of
 * our own and use no libc. They write no variables but struct birth, the words of struct keeper
 * that are meant for them, and the region. The variables that they read do not change before the
 * keeper has ended.
 *
 * If no child can share the host's memory (valgrind, qemu-user), there is no keeper, and the
 * exporter is an orphan.
 */
#include "preload/exporter/exporter_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
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
#include "sampler/base/seccomp_filter.h"
#include "sampler/base/syscall.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"

#define BIT(signo) (UINT64_C(1) << ((signo)-1))

/* The memory of one start: guard, stack of the keeper, guard, stack of the exporter's process. */
#define STACK ((size_t)65536) /* a multiple of any page size */
#define BIRTH_BYTES (4 * STACK)

#define ALLOW_CALL(number) SP_FILTER_IF(number, 0, 1), SP_FILTER_ALLOW

/*
 * The system calls that the keeper may make once the exporter has started. The keeper has the
 * rights that the host had at its start, and the host, whose memory it shares, may give up rights
 * later. An attacker who takes over such a host can make the keeper run any code. With this filter
 * that code can only wait, and end the exporter.
 */
static const struct sock_filter of_keeper[] = {
	SP_FILTER_BEGIN,
	ALLOW_CALL(SYS_rt_sigtimedwait),
	ALLOW_CALL(SYS_wait4),
	ALLOW_CALL(SYS_getppid),
	ALLOW_CALL(SYS_rt_sigaction),
	ALLOW_CALL(SYS_futex),
	ALLOW_CALL(SYS_exit_group),
	SP_FILTER_IF(SYS_kill, 1, 0), /* or pidfd_send_signal(2): confine_keeper() */
	SP_FILTER_REFUSE,
	SP_FILTER_LOAD_ARG(1),
	SP_FILTER_IF(0, 2, 0),
	SP_FILTER_IF(SIGKILL, 1, 0),
	SP_FILTER_REFUSE,
	SP_FILTER_LOAD_ARG(0),
	SP_FILTER_IF(0, 0, 1), /* confine_keeper() writes the exporter's number into it */
	SP_FILTER_ALLOW,
	SP_FILTER_REFUSE,
};
#define OF_EXPORTER (SP_ARRAY_LEN(of_keeper) - 3)
#define OF_SIGNAL (SP_ARRAY_LEN(of_keeper) - 10)

/* One start. It is at the upper end of the keeper's stack, so it outlives keeper and exporter. */
struct birth {
	struct sp_exporter_start start;
	char *memory;
	void *child_stack;   /* its top; NULL with the flags of fork() */
	unsigned long flags; /* of the exporter's clone: SP_CHILD_SHARING, or those of fork() */
	long host;           /* process ids */
	long exporter;
	long pidfd; /* of the exporter, in the keeper; negative = the kernel has no pidfds */
	/* a copy of of_keeper[] with the exporter's number in it */
	struct sock_filter filter[SP_ARRAY_LEN(of_keeper)];

	/* Written by the children. The host sees them only if they share its memory. */
	_Atomic uint32_t shared; /* 1 = the child shares our memory */
	_Atomic int32_t result;  /* 0, or a negative errno */
};

/* --- Clones without libc ------------------------------------------------------------------------- */

/*
 * The C library's clone() is not used for two reasons. The host may have replaced it by its own.
 * And it stores function and argument in the first words of the new stack: if an emulator forks
 * instead, the child continues on its parent's stack and does not find them. Here function and
 * argument are in registers that the system call preserves.
 */

#define CLONE3_NR 435L /* the same on all architectures; headers may be older */
#define CLONE_SIGNAL 0xffUL

/* The argument of clone3(2), since Linux 5.3. */
struct clone3_args {
	uint64_t flags;
	uint64_t pidfd;
	uint64_t child_tid;
	uint64_t parent_tid;
	uint64_t exit_signal;
	uint64_t stack; /* its lowest address */
	uint64_t stack_size;
	uint64_t tls;
};

_Atomic bool sp_raw_clone_by_3;

/* `call` is SYS_clone or CLONE3_NR; `first` and `second` are its first two arguments. */
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
	/* The kernel adds stack and stack_size. */
	const uint64_t some = stack_top != NULL ? 16 : 0;
	const struct clone3_args args = {.flags = flags & ~CLONE_SIGNAL,
					 .exit_signal = flags & CLONE_SIGNAL,
					 .stack = (uint64_t)(uintptr_t)stack_top - some,
					 .stack_size = some};

	if (atomic_load_explicit(&sp_raw_clone_by_3, memory_order_relaxed)) {
		long rc = clone_by(CLONE3_NR, (unsigned long)(uintptr_t)&args, (void *)sizeof(args),
				   run, arg);

		/* The C library falls back to clone(2) here, too. */
		if (rc != -ENOSYS)
			return rc;
		atomic_store_explicit(&sp_raw_clone_by_3, false, memory_order_relaxed);
	}
	return clone_by(SYS_clone, flags, stack_top, run, arg);
}

/* --- The exporter's process, from its clone to its execve ---------------------------------------- */

#define SIGNALS 64
/* The number of descriptors that the exporter needs, for files that it reads, and connections. */
#define DESCRIPTORS_NEEDED 256U

/*
 * The kernel's struct sigaction. All zero means SIG_DFL, no flags and an empty mask, on any
 * processor.
 */
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
 * Valgrind makes the C library free its memory at the exit of a process (--run-libc-freeres), which
 * writes out the buffers of the host's streams, and then looks for leaks. The host will do both
 * itself. Valgrind does not notice a SIGKILL that is sent by this call.
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

/* The descriptor that an entry of /proc/self/fd names; -1 for "." and "..". */
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
 * Before Linux 5.9 there is no close_range(), and the open descriptors are read from /proc/self/fd.
 * Without /proc they stay open, and the exporter, which needs /proc, ends at once.
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
 * Raises the soft limit of descriptors. The host's limit may be so low that not even the loader can
 * open a library.
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
 * Moves the descriptors that we hand over to their numbers, by way of higher numbers, because one
 * descriptor may have the number that another needs. If the limit allows no higher numbers, only
 * the region is handed over. Returns the first number behind them, or a negative errno if the
 * region's descriptor could not be moved.
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

/*
 * Puts the descriptors that are handed over at their numbers and /dev/null at 0 to 2, and closes
 * all others.
 */
SP_RAW static long arrange_descriptors(const struct sp_exporter_start *start)
{
	long rc = hand_over(start);

	if (rc < 0)
		return rc;
	close_from(rc);
	/*
	 * These are closed first: the limit of descriptors may leave no free number above them. The
	 * next file that is opened then gets 0.
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

/*
 * The kernel sends this signal to the keeper when the thread that made the keeper ends. The keeper
 * has blocked the signal, and waits for it.
 */
#define PARENT_ENDED SIGHUP
/* The host sends this signal to make the keeper read `kills`. Blocked, too. */
#define LOOK_AT_WORDS SIGUSR1

static struct keeper {
	long host; /* the process that made the keeper; a forked child is not that process */
	long pid;
	char *memory; /* its stack */
	const struct sp_region *region;
	_Atomic uint32_t is_over; /* the keeper writes 1 when it is about to end. A futex */
	_Atomic uint32_t kills;   /* the host writes 1 when the exporter's time is over */
	/* the exporter writes its number before its program runs; 0 = not yet */
	_Atomic int32_t exporter;
} keeper;

#define PROGRAM_FD (SP_FAMILY_FD + 1)
#define PROGRAM_PATH "/proc/self/fd/7"
_Static_assert(PROGRAM_FD == 7, "PROGRAM_PATH names it");
#define COPY_BYTES (1L << 30) /* one call copies no more than 2 GiB */
/*
 * MFD_EXEC, Linux 6.3; headers may be older. Older kernels refuse it, and allow the execution of
 * every memfd.
 */
#define EXECUTABLE 0x10U
#define CAPABILITY(c) (~(UINT32_C(1) << (c)))

/* A descriptor of a copy of the program that nobody may read, or a negative errno. */
SP_RAW static long copy_program(const char *path)
{
	/*
	 * If the file limit is too low, the kernel sends SIGXFSZ, which may dump the host's memory.
	 */
	const struct kernel_sigaction ignore = {{(unsigned long)SIG_IGN}};
	const char name[] = "spanprof-exporter";
	long from = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
	long to;
	long rc;

	if (from < 0)
		return from;
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGXFSZ, (long)&ignore, 0, sizeof(uint64_t));
	to = sp_arch_syscall(SYS_memfd_create, (long)name, (long)(MFD_CLOEXEC | EXECUTABLE), 0, 0);
	if (to == -EINVAL)
		to = sp_arch_syscall(SYS_memfd_create, (long)name, MFD_CLOEXEC, 0, 0);
	rc = to;
	if (to >= 0)
		rc = sp_arch_syscall(SYS_fchmod, to, S_IXUSR, 0, 0);
	while (rc >= 0 && (rc = sp_arch_syscall(SYS_sendfile, to, from, 0, COPY_BYTES)) > 0)
		;
	if (rc == 0 && to != PROGRAM_FD)
		rc = sp_arch_syscall(SYS_dup3, to, PROGRAM_FD, O_CLOEXEC, 0);
	return rc;
}

/*
 * Gives up the capabilities by which root reads files that it has no permission to read. An
 * execve() gives them back to root.
 */
SP_RAW static void drop_reading(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};

	if (sp_arch_syscall(SYS_capget, (long)&head, (long)data, 0, 0) != 0)
		return;
	data[0].effective &= CAPABILITY(CAP_DAC_OVERRIDE) & CAPABILITY(CAP_DAC_READ_SEARCH);
	(void)sp_arch_syscall(SYS_capset, (long)&head, (long)data, 0, 0);
}

/*
 * The kernel, or the program itself (PR_SET_DUMPABLE), may have made a process non-dumpable: other
 * processes of the same user then cannot read its memory, descriptors and environment. execve()
 * makes the new program dumpable again, unless the process may not read the file that it executes.
 * The exporter of such a program has the same secrets from its first instruction on. So the process
 * executes a copy in memory that it may execute and not read. Returns only a negative errno.
 */
SP_RAW static long execute(const struct sp_exporter_start *start, char **argv)
{
	const char *path = start->path;
	long rc = 0;

	if (sp_arch_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0) != 1) {
		rc = copy_program(path);
		/* The exporter finds its folder by its first argument (scripts/carrier). */
		argv[0] = (char *)(uintptr_t)path;
		if (rc >= 0)
			path = PROGRAM_PATH;
		/* An exporter that we may not read needs no copy. */
		if (rc == -EACCES)
			rc = 0;
		drop_reading();
	}
	return rc < 0 ? rc
		      : sp_arch_syscall(SYS_execve, (long)path, (long)argv,
					(long)start->environment, 0);
}

/*
 * The start time of the calling process; 0 = unknown. Its name has up to 15 characters and may
 * contain spaces and brackets.
 */
SP_RAW static uint64_t own_start(void)
{
	char text[512];
	long fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/stat",
				  O_RDONLY | O_CLOEXEC, 0);
	long got = sp_arch_syscall(SYS_read, fd, (long)text, sizeof(text) - 1, 0);
	long at = got > 0 ? got - 1 : 0;
	unsigned field = 1;

	(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	text[got > 0 ? got : 0] = '\0';
	while (at > 0 && text[at] != ')')
		at--;
	/* The name is the second field. */
	for (field = 2; field < SP_STAT_START && text[at] != '\0'; at++)
		field += text[at] == ' ';
	return text[at] != '\0' ? (uint64_t)number_of(text + at) : 0;
}

/* The exporter's process runs this function. */
SP_RAW static void become_exporter(void *arg)
{
	struct birth *birth = arg;
	const struct sp_exporter_start *start = &birth->start;
	char proof[SP_PROOF_BYTES];
	char name[] = "spanprof-exporter";
	char *argv[] = {name, proof, NULL};
	long rc;

	atomic_store_explicit(&birth->shared, 1, memory_order_relaxed);
	reset_signals();
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	(void)sp_arch_syscall(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0);
	allow_descriptors();
	rc = arrange_descriptors(start);
	if (rc >= 0) {
		int32_t pid = (int32_t)sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);

		/* Written before the program runs, which may read it at once. */
		atomic_store_explicit(&start->region->exporter_pid, pid, memory_order_relaxed);
		atomic_store_explicit(&keeper.exporter, pid, memory_order_relaxed);
		sp_exporter_proof(start->secret, (uint64_t)pid, own_start(), proof);
		/* A process that connects before the execve() finds the proof here. */
		(void)sp_arch_syscall(SYS_prctl, PR_SET_NAME, (long)proof, 0, 0);
		if (start->family_fd >= 0)
			(void)sp_arch_syscall(SYS_listen, SP_FAMILY_FD, SP_JOINS_WAITING, 0, 0);
		rc = execute(start, argv);
	}
	atomic_store_explicit(&start->region->exporter_pid, 0, memory_order_relaxed);
	/* Release: a process that sees the error sees also that the start has failed. */
	atomic_store_explicit(&start->region->exporter_error, (int32_t)-rc, memory_order_release);
	atomic_store_explicit(&birth->result, (int32_t)rc, memory_order_relaxed);
	sp_child_exit(1);
}

/*
 * Runs in the exporter's parent. Makes the exporter's process and, if that process shares our
 * memory, waits until it executes the program. 0 or a negative errno. If it does not share our
 * memory, 0 says only that the process exists.
 */
SP_RAW static int bear(struct birth *birth)
{
	long child;
	long rc;

	/* The result if the process is killed before it can write one. */
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
	 * execve() its exit signal is SIGCHLD, and __WCLONE does not wait for such a child.
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
 * Waits for a signal, at most for `most`. SIGCHLD carries the exit status of the exporter, which
 * the kernel reaps.
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

/* A pidfd never means another process, but a number may, once the exporter has ended. */
SP_RAW static long signal_exporter(const struct birth *birth, long signo)
{
	return birth->pidfd >= 0
		       ? sp_arch_syscall(SP_PIDFD_SEND_SIGNAL_NR, birth->pidfd, signo, 0, 0)
		       : sp_arch_syscall(SYS_kill, birth->exporter, signo, 0, 0);
}

/*
 * For kernels without pidfds. From this call on the number belongs to the exporter until the keeper
 * reaps it, so no other process gets it. False: the exporter has ended.
 */
SP_RAW static bool holds_number(long exporter)
{
	const unsigned long plain[4] = {0};

	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)plain, 0, sizeof(uint64_t));
	return sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0) == 0;
}

/*
 * Waits until the exporter has ended and is reaped (true), or the host has ended (false). Writes
 * *status if the exporter's exit status is known.
 */
SP_RAW static bool wait_for_an_end(const struct birth *birth, int *status)
{
	const long exporter = birth->exporter;
	/*
	 * The time limit is for a host that has changed its user: then the kernel may not send
	 * PARENT_ENDED, and the host may not send LOOK_AT_WORDS.
	 */
	const struct timespec second = {.tv_sec = 1};
	const struct timespec now = {0};
	long rc;

	for (;;) {
		rc = sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0);
		/* A filter of the host may refuse the call. */
		if (rc == exporter || rc == -ECHILD ||
		    (rc != 0 && signal_exporter(birth, 0) == -ESRCH)) {
			/*
			 * The kernel sends SIGCHLD before it reaps the exporter, so the signal is
			 * pending.
			 */
			wait_for_signal(exporter, &now, status);
			return true;
		}
		/*
		 * The kernel sends PARENT_ENDED also when only the thread of the host that made the
		 * keeper ends.
		 */
		if (sp_arch_syscall(SYS_getppid, 0, 0, 0, 0) != birth->host)
			return false;
		if (atomic_load_explicit(&keeper.kills, memory_order_relaxed) != 0 &&
		    (birth->pidfd >= 0 || holds_number(exporter)))
			(void)signal_exporter(birth, SIGKILL);
		wait_for_signal(exporter, &second, status);
	}
}

/*
 * Writes the state that the exporter did not write itself, and wakes threads that wait for a flush
 * at flush_done.
 */
SP_RAW static void tell(struct sp_region *region, uint32_t before, uint32_t state)
{
	(void)atomic_compare_exchange_strong_explicit(&region->exporter, &before, state,
						      memory_order_release, memory_order_relaxed);
	wake(&region->flush_done);
}

/*
 * Without CAP_SYS_ADMIN the kernel takes a filter only from a process with no_new_privs. A kernel
 * without seccomp refuses it, and the keeper works without a filter.
 */
SP_RAW static void confine_keeper(struct birth *birth)
{
	const struct sock_fprog program = {.len = SP_ARRAY_LEN(of_keeper), .filter = birth->filter};

	birth->filter[OF_EXPORTER].k =
		(uint32_t)(birth->pidfd >= 0 ? birth->pidfd : birth->exporter);
	if (birth->pidfd >= 0)
		birth->filter[OF_SIGNAL].k = SP_PIDFD_SEND_SIGNAL_NR;
	if (sp_arch_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) == 0)
		(void)sp_arch_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
				      (long)&program, 0);
}

/* The keeper runs this function. */
SP_RAW static void keep(void *arg)
{
	struct birth *birth = arg;
	struct sp_region *region = birth->start.region;
	/*
	 * With SA_NOCLDWAIT the kernel reaps the exporter and sends the signal nevertheless. If the
	 * keeper reaped it, the exporter's CPU time would be added to the keeper's, and then to the
	 * host's (RUSAGE_CHILDREN).
	 */
	const unsigned long discard[4] = {0, SA_NOCLDWAIT};
	const char name[16] = "spanprof-keeper";
	const uint64_t all = ~UINT64_C(0);
	int status = -1;
	int rc;

	/* SIGSYS, too, which is unblocked in the host's thread: its handler belongs to the host. */
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)discard, 0, sizeof(uint64_t));
	(void)sp_arch_syscall(SYS_prctl, PR_SET_PDEATHSIG, PARENT_ENDED, 0, 0);
	(void)sp_arch_syscall(SYS_prctl, PR_SET_NAME, (long)name, 0, 0);
	/*
	 * The keeper gets its own session: signals to the host's process group or from the host's
	 * terminal are not meant for it.
	 */
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	rc = bear(birth);
	/* After the execve(), because the program's path may be relative. */
	(void)sp_arch_syscall(SYS_chdir, (long)"/", 0, 0, 0);
	/*
	 * The keeper has copies of the host's descriptors. As long as one is open, the reader of a
	 * pipe does not see its end.
	 */
	close_from(0);
	/*
	 * The exporter may have ended by now, and another process may have its number.
	 * wait_for_an_end() checks that before it uses the pidfd: as long as the keeper has not
	 * reaped the exporter, the number is the exporter's.
	 */
	birth->pidfd = rc == 0 ? sp_arch_syscall(SP_PIDFD_OPEN_NR, birth->exporter, 0, 0, 0) : -1;
	confine_keeper(birth);
	if (rc != 0) {
		/* Before the state: a process that sees the state also sees the reason. */
		atomic_store_explicit(&region->exporter_error, -rc, memory_order_relaxed);
		tell(region, SP_EXPORTER_NONE, SP_EXPORTER_FAILED);
	} else if (wait_for_an_end(birth, &status)) {
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
/* A wait for the exporter's end checks at this interval whether the keeper was killed. */
#define LOOK_NS (20 * SP_NS_PER_MS)
/*
 * If the host has changed its user, it cannot signal the keeper, which checks `kills` once a
 * second.
 */
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
 * Its first child would be pid 1 there, and when that ends, no fork of the host succeeds any more.
 */
static bool children_live_elsewhere(void)
{
	static const char for_children[] = "/proc/thread-self/ns/pid_for_children";
	char own[NAMESPACE_NAME_MAX];
	char childrens[NAMESPACE_NAME_MAX];
	struct stat unused;

	if (!name_of("/proc/thread-self/ns/pid", own))
		return false; /* no /proc, or an old kernel: assume that it has not */
	if (name_of(for_children, childrens))
		return strcmp(own, childrens) != 0;
	/*
	 * Since Linux 4.12: if the link exists but cannot be read, it belongs to a namespace
	 * without a pid 1.
	 */
	return sp_arch_syscall(SYS_newfstatat, AT_FDCWD, (long)for_children, (long)&unused,
			       AT_SYMLINK_NOFOLLOW) == 0;
}

/* Maps the stacks and struct birth; NULL if there is no memory. */
static struct birth *new_birth(const struct sp_exporter_start *start)
{
	char *memory = (char *)sp_syscall_always(SYS_mmap, NULL, BIRTH_BYTES, PROT_NONE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						 (off_t)0);
	struct birth *birth;
	char *stack;

	if (memory == MAP_FAILED)
		return NULL;
	stack = memory + STACK;
	if (sp_syscall_always(SYS_mprotect, stack, STACK, PROT_READ | PROT_WRITE) != 0 ||
	    sp_syscall_always(SYS_mprotect, stack + 2 * STACK, STACK, PROT_READ | PROT_WRITE) !=
		    0) {
		(void)sp_syscall_always(SYS_munmap, memory, BIRTH_BYTES);
		return NULL;
	}
	/* A multiple of 64, so that the stack below birth is aligned to 16. */
	birth = (void *)(stack + STACK - (sizeof(*birth) + 63) / 64 * 64);
	birth->start = *start;
	birth->memory = memory;
	birth->child_stack = memory + BIRTH_BYTES;
	birth->flags = SP_CHILD_SHARING;
	birth->host = sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);
	memcpy(birth->filter, of_keeper, sizeof(of_keeper));
	return birth;
}

/* Without shared memory the first child runs this: it makes the exporter's process and ends. */
SP_RAW static void bear_and_end(void *arg)
{
	(void)bear(arg);
	sp_child_exit(0);
}

/*
 * Removes the pending SIGCHLD of our own child that has ended, and no other. The caller has blocked
 * SIGCHLD.
 */
static void take_back_sigchld(long child)
{
	const uint64_t chld = BIT(SIGCHLD);
	const struct timespec now = {0};
	siginfo_t taken = {0};
	siginfo_t waiting = {0};

	if (sp_arch_syscall(SYS_rt_sigtimedwait, (long)&chld, (long)&taken, (long)&now,
			    sizeof(chld)) != SIGCHLD)
		return;
	/* One pending signal stands for all children that have ended since it was sent. */
	if (taken.si_pid == child &&
	    (sp_syscall_always(SYS_waitid, P_ALL, 0, &waiting,
			       WEXITED | WSTOPPED | WNOHANG | WNOWAIT, NULL) != 0 ||
	     waiting.si_pid == 0))
		return;
	(void)sp_syscall_always(SYS_rt_sigqueueinfo, sp_syscall_always(SYS_getpid), SIGCHLD,
				&taken);
}

/*
 * Starts the exporter without a keeper if no child can share our memory: valgrind makes a fork of
 * each clone that is not a thread, and qemu-user refuses a clone with another exit signal than
 * SIGCHLD. The first of two forked children ends at once, and the exporter is an orphan.
 */
static int start_forked(struct birth *birth)
{
	uint64_t pending = 0;
	int subreaper = 0;
	long child;
	long rc;

	/* The orphan would become a child of the host. */
	(void)sp_syscall_always(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0L, 0L, 0L);
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

/*
 * Makes the keeper. 0 or a negative errno: -EINVAL if no child can share our memory. After 0, birth
 * belongs to the keeper.
 */
static int start_keeper(struct birth *birth)
{
	long child;

	if (sp_arch_on_valgrind())
		return -EINVAL;
	atomic_store_explicit(&keeper.is_over, 0, memory_order_relaxed);
	atomic_store_explicit(&keeper.kills, 0, memory_order_relaxed);
	atomic_store_explicit(&keeper.exporter, 0, memory_order_relaxed);
	keeper.region = birth->start.region;
	/* The keeper's stack is below birth. */
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
	 * All but SIGSYS: if a seccomp filter of the host raises SIGSYS while that is blocked, the
	 * kernel kills the process.
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
		(void)sp_syscall_always(SYS_munmap, birth->memory, BIRTH_BYTES);
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
	/* After the exporter's end another process may have its number. */
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
 * Reaps the keeper. One thread at a time. False if there is a keeper that has not ended. A keeper
 * that has ended has written before that the exporter has ended, or it was killed.
 *
 * The host may have reaped the keeper with __WALL, and a filter of the host may refuse wait4(). The
 * keeper's stack is unmapped only when it certainly has ended: without its stack the keeper would
 * die by a signal, and the kernel may dump the core of all processes that share its memory.
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
 * Whether an exporter lives that is not a child of our keeper: one that this process has joined, or
 * the orphan on an emulator. Another process may have got its number; the start time shows that,
 * unless /proc hides it (hidepid).
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
		/* Once is_over is set the keeper still has to make some system calls. */
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
