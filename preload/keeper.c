/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper, from its birth to its end. It runs beside the host's threads in their memory: raw system
 * calls, no libc, no variables but those on its stack.
 */
#include "preload/keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "preload/raw_clone.h"
#include "sampler/arch_sig.h"

/* Sent to the keeper when the thread that made it ends. Any that the kernel does not act upon. */
#define PARENT_ENDED SIGHUP
#define BIT(signo) (UINT64_C(1) << ((signo)-1))

/* Here, as what the keeper touches of the host is its stack alone. */
static struct {
	long host; /* who made it: in a forked child this is another process */
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
	/* A host that has changed its user may not send PARENT_ENDED to us. */
	const struct timespec second = {.tv_sec = 1};
	long rc;

	for (;;) {
		rc = sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0);
		if (rc != 0 && rc != -EINTR)
			return;
		/* Also the end of a thread of the host sends PARENT_ENDED. */
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
	const unsigned long plain[4] = {
		0}; /* SIG_DFL; ignored, SIGCHLD would reap without telling */
	const char name[16] = "spanprof-keeper";
	const uint64_t all = ~UINT64_C(0);
	int rc;

	/* SIGSYS as well, which the host's thread has left: the handlers are the host's. */
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)plain, 0, sizeof(uint64_t));
	(void)sp_raw_prctl(PR_SET_PDEATHSIG, PARENT_ENDED);
	(void)sp_raw_prctl(PR_SET_NAME, (long)name);
	/* What is done to the host's process group or terminal is not meant for us. */
	(void)sp_arch_syscall(SYS_setsid, 0, 0, 0, 0);
	rc = sp_exporter_bear(birth);
	/* After the birth, as the path of the program may be relative. */
	(void)sp_arch_syscall(SYS_chdir, (long)"/", 0, 0, 0);
	/* Copies of the host's: with one of them open, a pipe never ends. */
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
 * Emulators make a fork of every clone that is not a thread, or end the program when they see one that
 * shares memory and goes on beside its parent. So a harmless kind is tried before.
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

/* Waits for the keeper's word. Whoever kills the keeper must not leave us waiting. */
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
	/* Where the host has reaped it with __WALL it is no child any more. */
	if (sp_arch_syscall(SYS_wait4, keeper.pid, 0, (long)(WNOHANG | __WCLONE), 0) == 0)
		return false;
	keeper.pid = 0;
	(void)sp_arch_syscall(SYS_munmap, (long)keeper.memory, (long)SP_BIRTH_BYTES, 0, 0);
	return true;
}
