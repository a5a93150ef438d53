/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of starting the exporter and of its end. The host's thread makes the keeper and
 * goes on; what the keeper reads lies in memory that does not change until the keeper has ended. Where no
 * child can share the host's memory (valgrind, qemu-user), there is no keeper, and the exporter is an orphan.
 */
#include "preload/exporter/exporter_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/exporter/exporter_child.h"
#include "preload/exporter/keeper.h"
#include "preload/exporter/raw_clone.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/fmt.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/proc_status.h"
#include "sampler/base/try_lock.h"

#define BIT(signo) (UINT64_C(1) << ((signo)-1))
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
static struct sp_exporter_birth *new_birth(const struct sp_exporter_start *start)
{
	char *memory = (char *)syscall(SYS_mmap, NULL, SP_BIRTH_BYTES, PROT_NONE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, (off_t)0);
	struct sp_exporter_birth *birth;
	char *stack;

	if (memory == MAP_FAILED)
		return NULL;
	stack = memory + SP_BIRTH_STACK;
	if (syscall(SYS_mprotect, stack, SP_BIRTH_STACK, PROT_READ | PROT_WRITE) != 0 ||
	    syscall(SYS_mprotect, stack + 2 * SP_BIRTH_STACK, SP_BIRTH_STACK,
		    PROT_READ | PROT_WRITE) != 0) {
		(void)syscall(SYS_munmap, memory, SP_BIRTH_BYTES);
		return NULL;
	}
	/* A multiple of 64, so the stack below stays aligned to 16. */
	birth = (void *)(stack + SP_BIRTH_STACK - (sizeof(*birth) + 63) / 64 * 64);
	birth->start = *start;
	birth->memory = memory;
	birth->parent_stack = birth;
	birth->child_stack = memory + SP_BIRTH_BYTES;
	birth->flags = SP_CHILD_SHARING;
	birth->host = sp_arch_syscall(SYS_getpid, 0, 0, 0, 0);
	return birth;
}

/* The first child where no memory can be shared: it makes the exporter's process and ends. */
SP_RAW static void bear_and_end(void *arg)
{
	(void)sp_exporter_bear(arg);
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

/* Whether orphans below the host become children of the host. */
static bool would_inherit(void)
{
	int subreaper = 0;

	(void)sp_raw_prctl(PR_GET_CHILD_SUBREAPER, (long)&subreaper);
	return subreaper != 0 || sp_arch_syscall(SYS_getpid, 0, 0, 0, 0) == 1;
}

/*
 * The start where no child can share our memory, and so none can be a keeper: valgrind makes a fork
 * of each clone that is not a thread, and qemu-user refuses one with another exit signal than
 * SIGCHLD. There the first of two forked children ends at once, and the exporter is an orphan.
 */
static int start_forked(struct sp_exporter_birth *birth)
{
	uint64_t pending = 0;
	long child;
	long rc;

	if (would_inherit())
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

static int start_at_all(const struct sp_exporter_start *start)
{
	struct sp_exporter_birth *birth = new_birth(start);
	/*
	 * All but SIGSYS: if a seccomp filter of the host answers with SIGSYS while that is
	 * blocked, the kernel kills the process.
	 */
	const uint64_t all = ~BIT(SIGSYS);
	uint64_t before;
	bool kept = false;
	int rc;

	if (birth == NULL)
		return -ENOMEM;
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before,
			      sizeof(all));
	rc = sp_arch_on_valgrind() ? -EINVAL : sp_keeper_start(birth);
	kept = rc == 0;
	if (rc == -EINVAL)
		rc = start_forked(birth);
	if (!kept)
		(void)syscall(SYS_munmap, birth->memory, SP_BIRTH_BYTES);
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	return rc;
}

int sp_exporter_process_start(const struct sp_exporter_start *start)
{
	int saved = errno;
	int rc = -EBUSY;

	if (!sp_try_lock_once(&under_way))
		return rc;
	if (sp_keeper_reap()) {
		atomic_store_explicit(&start->region->exporter_pid, 0, memory_order_relaxed);
		atomic_store_explicit(&start->region->exporter_error, 0, memory_order_relaxed);
		rc = children_live_elsewhere() ? -EXDEV : start_at_all(start);
	}
	sp_unlock(&under_way);
	errno = saved;
	return rc;
}

/*
 * When a process began, in ticks since boot. 0 = unknown: there is no such process, or /proc does not
 * show it (hidepid).
 */
static uint64_t began(long pid, char *state)
{
	char text[512];
	long fd;
	long got;

	(void)sp_fmt_snprintf(text, sizeof(text), "/proc/%ld/stat", pid);
	*state = '?';
	fd = sp_arch_syscall(SYS_openat, AT_FDCWD, (long)text, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	got = sp_arch_syscall(SYS_read, fd, (long)text, sizeof(text) - 1, 0);
	(void)sp_arch_syscall(SYS_close, fd, 0, 0, 0);
	text[got > 0 ? got : 0] = '\0';
	return sp_proc_stat_start(text, state);
}

/*
 * A joined exporter, which another process has started, or that of an emulator. Its number may be
 * that of another process by now, which began at another moment.
 */
static bool other_exporter_lives(const struct sp_region *region)
{
	long pid = atomic_load_explicit(&region->exporter_pid, memory_order_relaxed);
	uint64_t own = atomic_load_explicit(&region->exporter_began, memory_order_relaxed);
	uint64_t now;
	char state;
	long rc;

	if (pid <= 0)
		return false;
	rc = sp_arch_syscall(SYS_kill, pid, 0, 0, 0);
	if (rc != 0 && rc != -EPERM)
		return false;
	now = began(pid, &state);
	return state != 'Z' && state != 'X' && (own == 0 || now == 0 || own == now);
}

bool sp_exporter_process_may_start(void)
{
	bool is_free = false;

	if (sp_try_lock_once(&under_way)) {
		is_free = sp_keeper_reap();
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
			sp_keeper_kill();
			killed_ns = now;
		}
		if (killed_ns != 0 && now - killed_ns > KILL_NS)
			return false;
		sp_keeper_wait(now < end_ns && end_ns - now < LOOK_NS ? end_ns - now : LOOK_NS);
	}
	return true;
}
