/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper process (keeper.h), from its clone to its end. It runs beside the host's threads in
 * their memory, so it uses raw system calls, no libc, and only the variables on its own stack, the
 * words of struct keeper that are meant for it, and the region.
 */
#include "preload/exporter/keeper.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "preload/exporter/raw_clone.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/monotonic.h"

/* Sent to the keeper when the thread that made it ends. It is blocked, and only waited for. */
#define PARENT_ENDED SIGHUP
/* From the host: look at the words. Blocked, too. */
#define LOOK SIGUSR1
#define BIT(signo) (UINT64_C(1) << ((signo)-1))

static struct keeper {
	long host; /* the process that made it; a forked child is another one */
	long pid;
	char *memory; /* its stack */
	const struct sp_region *region;
	_Atomic uint32_t is_over; /* written by the keeper: it is about to end. A futex */
	_Atomic uint32_t kills;   /* written by the host: the exporter has had its time */
} keeper;

SP_RAW static void wake(_Atomic uint32_t *word)
{
	(void)sp_arch_syscall(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0);
}

/* Until the exporter has ended and is reaped, or the host has ended: then false. */
SP_RAW static bool wait_for_an_end(long exporter, long host)
{
	const uint64_t signals = BIT(SIGCHLD) | BIT(PARENT_ENDED) | BIT(LOOK);
	/*
	 * The time limit is for a host that has changed its user: the kernel may not send
	 * PARENT_ENDED then, and the host not LOOK.
	 */
	const struct timespec second = {.tv_sec = 1};
	const unsigned long plain[4] = {0};
	long rc;

	for (;;) {
		rc = sp_arch_syscall(SYS_wait4, exporter, 0, (long)(WNOHANG | __WALL), 0);
		if (rc != 0 && rc != -EINTR)
			return true;
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
		(void)sp_arch_syscall(SYS_rt_sigtimedwait, (long)&signals, 0, (long)&second,
				      sizeof(signals));
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
	struct sp_exporter_birth *birth = arg;
	struct sp_region *region = birth->start.region;
	/*
	 * The kernel reaps, and sends the signal even so. If the keeper did, the exporter's CPU time
	 * would be the keeper's and then, when that is reaped, the host's (RUSAGE_CHILDREN).
	 */
	const unsigned long discard[4] = {0, SA_NOCLDWAIT};
	const char name[16] = "spanprof-keeper";
	const uint64_t all = ~UINT64_C(0);
	int rc;

	/* SIGSYS too, which is unblocked in the host's thread: its handler is the host's. */
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof(all));
	(void)sp_arch_syscall(SYS_rt_sigaction, SIGCHLD, (long)discard, 0, sizeof(uint64_t));
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
	if (rc != 0) {
		/* Before the state: whoever sees that sees why. */
		atomic_store_explicit(&region->exporter_error, -rc, memory_order_relaxed);
		tell(region, SP_EXPORTER_NONE, SP_EXPORTER_FAILED);
	} else if (wait_for_an_end(birth->exporter, birth->host)) {
		tell(region, SP_EXPORTER_WORKING, SP_EXPORTER_GONE);
	}
	atomic_store_explicit(&keeper.is_over, 1, memory_order_release);
	wake(&keeper.is_over);
	sp_child_exit(0);
}

int sp_keeper_start(struct sp_exporter_birth *birth)
{
	long child;

	atomic_store_explicit(&keeper.is_over, 0, memory_order_relaxed);
	atomic_store_explicit(&keeper.kills, 0, memory_order_relaxed);
	keeper.region = birth->start.region;
	child = sp_raw_clone(CLONE_VM | CLONE_UNTRACED, birth->parent_stack, keep, birth);
	if (child < 0)
		return (int)child;
	keeper.host = birth->host;
	keeper.pid = child;
	keeper.memory = birth->memory;
	return 0;
}

static bool is_of_this_process(void)
{
	return keeper.host == sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);
}

bool sp_keeper_made(const struct sp_region *region)
{
	return keeper.region == region && is_of_this_process();
}

bool sp_keeper_is_there(void)
{
	return keeper.pid != 0 && is_of_this_process();
}

bool sp_keeper_reap(void)
{
	if (!sp_keeper_is_there())
		return true;
	/* If the host has reaped it with __WALL, it is no longer a child. */
	if (sp_arch_syscall(SYS_wait4, keeper.pid, 0, (long)(WNOHANG | __WCLONE), 0) == 0)
		return false;
	keeper.pid = 0;
	(void)sp_arch_syscall(SYS_munmap, (long)keeper.memory, (long)SP_BIRTH_BYTES, 0, 0);
	return true;
}

void sp_keeper_wait(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / SP_NS_PER_S),
				    .tv_nsec = (long)(ns % SP_NS_PER_S)};

	/* When the word is set the process has some system calls left. */
	if (atomic_load_explicit(&keeper.is_over, memory_order_acquire) != 0)
		(void)sp_arch_syscall(SYS_sched_yield, 0, 0, 0, 0);
	else
		(void)sp_arch_syscall(SYS_futex, (long)&keeper.is_over, FUTEX_WAIT, 0, (long)&ts);
}

void sp_keeper_kill(void)
{
	atomic_store_explicit(&keeper.kills, 1, memory_order_relaxed);
	if (sp_keeper_is_there())
		(void)sp_arch_syscall(SYS_kill, keeper.pid, LOOK, 0, 0);
}
