/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process may have a seccomp filter that was installed before the program began, as in a
 * container or a systemd unit. A system call that this filter does not allow may kill the process,
 * and nobody can ask the kernel which calls these are. So before our first system call, a
 * short-lived child makes all of them, with arguments for which they do nothing.
 *
 * The call that makes the child cannot be tried in the same way. So we start nothing before the
 * process itself has made a thread or a fork: then the filter lets that call pass. glibc makes
 * threads by clone3(2) if it knows this call, and forks by clone(2). We make the child by the call
 * that we have seen. A filter that judges clone(2) by its flags may still treat our call
 * differently.
 *
 * The child shares our memory while the calling thread waits, as at the start of the exporter. On
 * Linux before 5.16, a SIGSYS that ends one of several processes with the same memory and writes a
 * core ends all of them; our own call would have ended the host there just the same.
 * Context: APP.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_process.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/config/config_table.h"

#define BIT(signo) (UINT64_C(1) << ((signo)-1))
#define NO_FD (-1L)
#define NOBODY 0x7fffffffL /* no process, no timer and no clock has that number */
#define BAD 1L             /* no address, and none that is aligned */

struct call {
	long number;
	long arg[4];
};

/*
 * The first call is the one by which the host waits for the child; the next ones write a message.
 */
static const struct call calls[] = {
	{SYS_wait4, {NOBODY, 0, WNOHANG, 0}},
	{SYS_getpid, {0}},
	{SYS_newfstatat, {NO_FD, 0, 0, 0}},
	{SYS_fcntl, {NO_FD, F_GETFL}},
	{SYS_ppoll, {0, 0, BAD, 0}},
	{SYS_rt_sigprocmask, {-1, 0, 0, sizeof(uint64_t)}},
	{SYS_rt_sigpending, {0, 0}},
	{SYS_write, {NO_FD, 0, 0}},
	{SYS_sendmsg, {NO_FD, 0, 0}}, /* also on a socket, to join an exporter */
#define CALLS_OF_A_MESSAGE 9
	/* the region */
	{SYS_memfd_create, {0, 0}},
	{SYS_ftruncate, {NO_FD, 0}},
	{SYS_mmap, {0, 0, 0, 0}},
	{SYS_munmap, {BAD, 0}},
	{SYS_mprotect, {BAD, 0, 0}},
	{SYS_madvise, {BAD, 0, MADV_DONTNEED}},
	{SYS_madvise, {BAD, 0, MADV_WIPEONFORK}},
	{SYS_madvise, {BAD, 0, MADV_NOHUGEPAGE}},
	{SYS_prlimit64, {0, RLIMIT_FSIZE, 0, 0}},
	{SYS_close, {NO_FD}},
	/* reading /proc */
	{SYS_openat, {NO_FD, 0, 0}},
	{SYS_read, {NO_FD, 0, 0}},
	{SYS_pread64, {NO_FD, 0, 0, 0}},
	{SYS_readlinkat, {NO_FD, 0, 0, 0}},
	{SYS_getdents64, {NO_FD, 0, 0}},
	{SYS_lseek, {NO_FD, 0, 0}},
	{SYS_sched_getaffinity, {0, 0, 0}}, /* the C library's way to count processors */
	/* threads, timers and signals */
	{SYS_gettid, {0}},
	{SYS_get_robust_list, {NOBODY, 0, 0}},
	{SYS_tgkill, {0, 0, 0}},
	{SYS_kill, {NOBODY, 0}},
	{SYS_timer_create, {NOBODY, 0, 0}},
	{SYS_timer_settime, {NOBODY, 0, 0, 0}},
	{SYS_timer_delete, {NOBODY}},
	{SYS_clock_gettime, {CLOCK_THREAD_CPUTIME_ID, 0}},
	{SYS_getrusage, {RUSAGE_THREAD, BAD}},
	{SYS_rt_sigaction, {0, 0, 0, sizeof(uint64_t)}},
	{SYS_rt_sigtimedwait, {0, 0, 0, sizeof(uint64_t)}},
	{SYS_sigaltstack, {0, 0}},
	{SYS_prctl, {PR_GET_NAME, 0}},
	{SYS_prctl, {SP_MEMORY_NAME_OPTION, SP_MEMORY_NAME_ANON, BAD, 0}}, /* names a mapping */
	/* of the keeper; the kernel refuses it, because the argument is not 1 */
	{SYS_prctl, {PR_SET_NO_NEW_PRIVS, 0, 0, 0}},
	{SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0}},
	{SYS_getrandom, {0, 0, 0}},
	{SYS_rt_sigqueueinfo, {0, 0, 0}},
	{SYS_rt_tgsigqueueinfo, {0, 0, 0, 0}},
	{SYS_futex, {0, FUTEX_WAKE, 0}},
	{SYS_sched_yield, {0}},
	/* joining an exporter, and the exporter's process before its execve() */
	{SYS_geteuid, {0}},
	{SYS_getuid, {0}},
	{SYS_statfs, {0, 0}},
	{SYS_socket, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, -1}},
	{SYS_connect, {NO_FD, 0, 0}},
	{SYS_getsockopt, {NO_FD, SOL_SOCKET, SO_PEERCRED, 0}},
	{SYS_bind, {NO_FD, 0, 0}},
	{SYS_listen, {NO_FD, 0}},
	{SYS_waitid, {P_PID, NOBODY, 0, WEXITED | WNOHANG}},
	{SYS_getppid, {0}},
	{SYS_setsid, {0}},
	{SYS_chdir, {0}},
	{SYS_dup3, {NO_FD, NO_FD, 0}},
	{SP_CLOSE_RANGE_NR, {1, 0, 0}},
	{SP_PIDFD_OPEN_NR, {NOBODY, 0}},
	{SP_PIDFD_SEND_SIGNAL_NR, {NO_FD, 0, 0, 0}},
	{SYS_fchmod, {NO_FD, 0}},
	{SYS_sendfile, {NO_FD, NO_FD, 0, 0}},
	{SYS_capget, {0, 0}},
	{SYS_capset, {0, 0}},
};

static struct {
	_Alignas(16) char stack[4096];
	_Atomic uint32_t made;
} trial;

/* The child runs this. */
SP_RAW static void make_all(void *unused)
{
	/*
	 * The handler of SIGSYS belongs to the host. While the signal is blocked, it ends the
	 * process without the handler.
	 */
	const uint64_t sigsys = BIT(SIGSYS);
	/*
	 * No core dump, which would contain the host's memory. A limit of 1 stops also a program
	 * that the kernel pipes cores to (core(5)).
	 */
	const uint64_t one[2] = {1, 1};

	(void)unused;
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&sigsys, 0, sizeof(sigsys));
	(void)sp_arch_syscall(SYS_prlimit64, 0, RLIMIT_CORE, (long)one, 0);
	for (uint32_t i = 0; i < SP_ARRAY_LEN(calls); i++) {
		const long *a = calls[i].arg;

		(void)sp_arch_syscall(calls[i].number, a[0], a[1], a[2], a[3]);
		atomic_store_explicit(&trial.made, i + 1, memory_order_relaxed);
	}
	sp_child_exit(0);
}

/*
 * The wait status of the child, which has ended when the clone returns; 0 if no child could be
 * made.
 */
static int try_all(void)
{
	int status = 0;
	long child;
	long rc;

	atomic_store_explicit(&trial.made, 0, memory_order_relaxed);
	child = sp_raw_clone(SP_CHILD_SHARING, trial.stack + sizeof(trial.stack), make_all, NULL);
	if (child < 0)
		return 0;
	/*
	 * The filter killed the child at its first call, wait4(), and would kill us at the same
	 * call. So nobody waits for the child, and it stays a zombie until the host ends. Only a
	 * wait with __WALL or __WCLONE finds it.
	 */
	if (atomic_load_explicit(&trial.made, memory_order_relaxed) == 0 && !sp_arch_on_valgrind())
		return SIGSYS;
	do
		rc = sp_arch_syscall(SYS_wait4, child, (long)&status, (long)__WALL, 0);
	while (rc == -EINTR);
	return status;
}

#define SECCOMP "Seccomp:" /* as in task_seccomp() of fs/proc/array.c; a tab and a digit follow */

/*
 * Whether the calling thread has a filter. The answer is in /proc: the filter may kill for prctl(),
 * but it lets the calls that read /proc pass, which the loader has made, too. Only without /proc,
 * prctl() is asked.
 */
static bool may_have_filter(void)
{
	char line[SP_PROC_STATUS_LINE];
	int found = sp_proc_line("/proc/thread-self/status", SECCOMP, line, sizeof(line));

	if (found < 0)
		return sp_arch_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) > 0;
	return found > 0 && strcmp(line, SECCOMP "\t0") != 0;
}

_Atomic uint32_t sp_trial_seen;
/* A program may record spans much faster than files can be read. */
#define LOOK_AGAIN_NS (20 * SP_NS_PER_MS)

/* when we check again, by the coarse clock; 0 = the answer was never SP_TRIAL_UNKNOWN */
static _Atomic uint64_t look_again;

#define THREADS "Threads:"

static bool has_threads(void)
{
	char line[SP_PROC_STATUS_LINE];

	return sp_proc_line("/proc/thread-self/status", THREADS, line, sizeof(line)) > 0 &&
	       strcmp(line, THREADS "\t1") != 0;
}

/* Weak, because other C libraries do not have it: a program with such a library would not start. */
const char *gnu_get_libc_version(void) __attribute__((weak));

/* Whether the C library makes threads by clone3(2): since 2.34, on aarch64 since 2.37. */
static bool is_clone3_known(void)
{
#if defined(__x86_64__)
	const uint64_t since = 34;
#else
	const uint64_t since = 37;
#endif
	const char *version = gnu_get_libc_version != NULL ? gnu_get_libc_version() : "";
	uint64_t major;
	uint64_t minor;

	return sp_text_number(&version, 10, &major) && *version++ == '.' &&
	       sp_text_number(&version, 10, &minor) &&
	       (major > 2 || (major == 2 && minor >= since));
}

/*
 * Whether we have seen the process pass the filter by a clone. Stores for sp_raw_clone() which of
 * the two calls it was.
 */
static bool is_clone_known(void)
{
	uint32_t seen;

	/*
	 * A thread of the C library would have passed a hook, so the threads found here were made
	 * by clone(2).
	 */
	if (sp_exporter_family_is_forked() ||
	    (atomic_load_explicit(&sp_trial_seen, memory_order_relaxed) == 0 && has_threads()))
		(void)sp_trial_saw(SP_TRIAL_CLONE);
	seen = atomic_load_explicit(&sp_trial_seen, memory_order_relaxed);
	atomic_store_explicit(&sp_raw_clone_by_3, seen == SP_TRIAL_THREAD && is_clone3_known(),
			      memory_order_relaxed);
	return seen != 0 || sp_config_says(SP_VAR_SECCOMP, "trust");
}

enum sp_trial sp_trial_run(void)
{
	const uint64_t all = ~BIT(SIGSYS);
	uint64_t before;
	int status;

	if (!may_have_filter())
		return SP_TRIAL_PASSED;
	if (!is_clone_known()) {
		atomic_store_explicit(&look_again, sp_monotonic_coarse_ns() + LOOK_AGAIN_NS,
				      memory_order_relaxed);
		return SP_TRIAL_UNKNOWN;
	}
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before,
			      sizeof(all));
	status = try_all();
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
		return SP_TRIAL_PASSED;
	sp_config_parse_log_level();
	if (atomic_load_explicit(&trial.made, memory_order_relaxed) >= CALLS_OF_A_MESSAGE)
		sp_log(SP_LOG_WARN, "a seccomp filter would kill the program for a system call of "
				    "the profiler: not profiling this process");
	return SP_TRIAL_FAILED;
}

bool sp_trial_is_waited_for(void)
{
	return atomic_load_explicit(&look_again, memory_order_relaxed) != 0;
}

bool sp_trial_is_unknown(void)
{
	return sp_trial_is_waited_for() &&
	       atomic_load_explicit(&sp_trial_seen, memory_order_relaxed) == 0;
}

bool sp_trial_is_put_off(void)
{
	return sp_trial_is_unknown() &&
	       sp_monotonic_coarse_ns() < atomic_load_explicit(&look_again, memory_order_relaxed);
}

void sp_trial_log_unknown(void)
{
	/* A child of vfork shares the memory of its parent, which will log it. */
	if (sp_exporter_family_is_forked())
		return;
	sp_config_parse_log_level();
	sp_log(SP_LOG_WARN,
	       "this process was not profiled: it is below a seccomp filter and made no "
	       "thread or fork that would show whether the filter kills for that; if it "
	       "does not, set SPANPROF_SECCOMP=trust");
}
