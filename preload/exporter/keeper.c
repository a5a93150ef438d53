/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper process (keeper.h), from its clone to its end. It runs beside the host's threads in
 * their memory, so it uses raw system calls, no libc, and only the variables on its own stack.
 */
#include "preload/exporter/keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "preload/exporter/raw_clone.h"
#include "sampler/base/arch_sig.h"

/* Sent to the keeper when the thread that made it ends. It is blocked, and only waited for. */
#define PARENT_ENDED SIGHUP
#define BIT(signo) (UINT64_C(1) << ((signo)-1))

/* Kept by the host, because the keeper touches only its own stack. */
static struct {
	long host; /* the process that made it; a forked child is another one */
	long pid;
	char *memory; /* its stack */
} keeper;

bool sp_keeper_is_needed(void)
{
	int subreaper = 0;

	(void)sp_raw_prctl(PR_GET_CHILD_SUBREAPER, (long)&subreaper);
	return subreaper != 0 || sp_arch_syscall(SYS_getpid, 0, 0, 0, 0) == 1;
}

SP_RAW static void wait_for_an_end(long exporter, long host)
{
	const uint64_t signals = BIT(SIGCHLD) | BIT(PARENT_ENDED);
	/*
	 * The time limit is for a host that has changed its user: the kernel may not send
	 * PARENT_ENDED then.
	 */
	const struct timespec second = {.tv_sec = 1};
	long rc;

	for (;;) {
		rc = sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0);
		if (rc != 0 && rc != -EINTR)
			return;
		/* The end of a single thread of the host sends PARENT_ENDED, too. */
		if (sp_arch_syscall(SYS_getppid, 0, 0, 0, 0) != host)
			return;
		(void)sp_arch_syscall(SYS_rt_sigtimedwait, (long)&signals, 0, (long)&second,
				      sizeof(signals));
	}
}

/* In the keeper. */
SP_RAW static void keep(void *arg)
{
	struct sp_exporter_birth *birth = arg;
	const unsigned long plain[4] = {0}; /* SIG_DFL: SIG_IGN would make the kernel reap */
	const char name[16] = "spanprof-keeper";
	const uint64_t all = ~UINT64_C(0);
	int rc;

	/* SIGSYS too, which is unblocked in the host's thread: its handler is the host's. */
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)plain, 0, sizeof(uint64_t));
	(void)sp_raw_prctl(PR_SET_PDEATHSIG, PARENT_ENDED);
	(void)sp_raw_prctl(PR_SET_NAME, (long)name);
	/* Signals to the host's process group or from its terminal are not meant for the keeper. */
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	rc = sp_exporter_bear(birth);
	/* After the program was executed, because its path may be relative. */
	(void)sp_arch_syscall(SYS_chdir, (long)"/", 0, 0, 0);
	/*
	 * They are copies of the host's descriptors. As long as one of them is open, a pipe never
	 * ends.
	 */
	sp_child_close_from(0);
	atomic_store_explicit(&birth->result, rc, memory_order_relaxed);
	/* Release: pairs with the acquire in sp_keeper_start(). */
	atomic_store_explicit(&birth->done, 1, memory_order_release);
	(void)sp_arch_syscall(SYS_futex, (long)&birth->done, FUTEX_WAKE_PRIVATE, 1, 0);
	if (rc == 0)
		wait_for_an_end(birth->exporter, birth->host);
	sp_child_exit(0);
}

SP_RAW static void say_shared(void *arg)
{
	struct sp_exporter_birth *birth = arg;

	atomic_store_explicit(&birth->shared, 1, memory_order_relaxed);
	sp_child_exit(0);
}

/*
 * Emulators turn every clone that is not a thread into a fork, or end the program when a clone
 * shares memory and runs beside its parent. So a harmless clone is tried first.
 */
static int try_sharing(struct sp_exporter_birth *birth)
{
	long child;
	long rc;

	atomic_store_explicit(&birth->shared, 0, memory_order_relaxed);
	child = sp_raw_clone(SP_CHILD_SHARING, birth->parent_stack, say_shared, birth);
	if (child < 0)
		return child == -EINVAL ? -EOPNOTSUPP : (int)child;
	do
		rc = sp_arch_syscall(SYS_wait4, child, 0, (long)__WALL, 0);
	while (rc == -EINTR);
	return atomic_load_explicit(&birth->shared, memory_order_relaxed) != 0 ? 0 : -EOPNOTSUPP;
}

/* Waits until the keeper has started the exporter. If the keeper is killed, the wait ends. */
static bool wait_for_result(long child, struct sp_exporter_birth *birth)
{
	const struct timespec look = {.tv_nsec = 100000000};

	for (;;) {
		/* Acquire: pairs with the release in keep(). */
		if (atomic_load_explicit(&birth->done, memory_order_acquire) != 0)
			return true;
		(void)sp_arch_syscall(SYS_futex, (long)&birth->done, FUTEX_WAIT_PRIVATE, 0,
				      (long)&look);
		if (sp_arch_syscall(SYS_wait4, child, 0, (long)(WNOHANG | __WCLONE), 0) != 0)
			return atomic_load_explicit(&birth->done, memory_order_acquire) != 0;
	}
}

int sp_keeper_start(struct sp_exporter_birth *birth)
{
	long child = 0;
	int rc = try_sharing(birth);

	if (rc == 0) {
		child = sp_raw_clone(CLONE_VM | CLONE_UNTRACED, birth->parent_stack, keep, birth);
		rc = child < 0 ? (int)child : 0;
	}
	if (rc != 0) {
		atomic_store_explicit(&birth->done, 1, memory_order_relaxed);
		return rc;
	}
	if (!wait_for_result(child, birth))
		return -ECHILD;
	rc = atomic_load_explicit(&birth->result, memory_order_relaxed);
	if (rc != 0) {
		(void)sp_arch_syscall(SYS_wait4, child, 0, (long)__WCLONE, 0);
		return rc;
	}
	keeper.host = birth->host;
	keeper.pid = child;
	keeper.memory = birth->memory;
	return 0;
}

bool sp_keeper_reap(void)
{
	if (keeper.pid == 0 || keeper.host != sp_arch_syscall(SYS_getpid, 0, 0, 0, 0))
		return true;
	/* If the host has reaped it with __WALL, it is no longer a child. */
	if (sp_arch_syscall(SYS_wait4, keeper.pid, 0, (long)(WNOHANG | __WCLONE), 0) == 0)
		return false;
	keeper.pid = 0;
	(void)sp_arch_syscall(SYS_munmap, (long)keeper.memory, (long)SP_BIRTH_BYTES, 0, 0);
	return true;
}
