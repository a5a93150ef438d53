/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of starting the exporter. Between the first clone and the end of that child the
 * calling thread only waits, so the memory that the new processes read does not change.
 */
#include "preload/exporter/exporter_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/exporter/exporter_child.h"
#include "preload/exporter/keeper.h"
#include "preload/exporter/raw_clone.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/fmt.h"
#include "sampler/base/try_lock.h"

#define BIT(signo) (UINT64_C(1) << ((signo)-1))
/* Room for a name such as "pid:[4026531836]". */
#define NAMESPACE_NAME_MAX 64

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

/* The first child, if no keeper is needed: it makes the exporter's process and ends. */
SP_RAW static void bear_and_end(void *arg)
{
	struct sp_exporter_birth *birth = arg;
	int rc = sp_exporter_bear(birth);

	if (rc != 0)
		atomic_store_explicit(&birth->start.region->exporter_error, -rc,
				      memory_order_relaxed);
	atomic_store_explicit(&birth->result, rc, memory_order_relaxed);
	atomic_store_explicit(&birth->done, 1, memory_order_relaxed);
	sp_child_exit(0);
}

/* Makes the first child and waits for its end. 0 or a negative errno. */
static int start_orphan(struct sp_exporter_birth *birth, long *child)
{
	int status = 0;
	long rc;

	*child = sp_raw_clone(birth->flags, birth->parent_stack, bear_and_end, birth);
	if (*child < 0)
		return (int)*child;
	do
		rc = sp_arch_syscall(SYS_wait4, *child, (long)&status, (long)__WALL, 0);
	while (rc == -EINTR);
	if (atomic_load_explicit(&birth->done, memory_order_relaxed) != 0)
		return atomic_load_explicit(&birth->result, memory_order_relaxed);
	if (rc == *child && !WIFEXITED(status) && !sp_arch_on_valgrind())
		return -ECHILD; /* killed: whether it has made its child is unknown */
	/*
	 * Its memory was not shared. Not decided by its exit status, because under valgrind it ends
	 * by a signal.
	 */
	atomic_store_explicit(&birth->done, rc == *child, memory_order_relaxed);
	return -atomic_load_explicit(&birth->start.region->exporter_error, memory_order_relaxed);
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
 * The start where no child can share our memory: qemu-user refuses a clone with another exit signal
 * than SIGCHLD, and so does a kernel after the host has unshared its time namespace.
 */
static int start_forked(struct sp_exporter_birth *birth)
{
	uint64_t pending = 0;
	long child;
	int rc;

	birth->flags = SIGCHLD;
	birth->parent_stack = NULL;
	birth->child_stack = NULL;
	(void)sp_arch_syscall(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0);
	rc = start_orphan(birth, &child);
	if (child > 0 && (pending & BIT(SIGCHLD)) == 0)
		take_back_sigchld(child);
	return rc;
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
	long child = 0;
	bool kept = sp_keeper_is_needed();
	int rc;

	if (birth == NULL)
		return -ENOMEM;
	(void)sp_arch_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before,
			      sizeof(all));
	if (kept)
		rc = sp_keeper_start(birth);
	else
		rc = start_orphan(birth, &child);
	if (!kept && child == -EINVAL)
		rc = start_forked(birth);
	/*
	 * A process whose parent was killed may still be on its stack. The memory is left alone
	 * then.
	 */
	if (child < 0 ||
	    (atomic_load_explicit(&birth->done, memory_order_relaxed) != 0 && !(kept && rc == 0)))
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
 * Whether the process is dead and waits for a parent that may never reap it. Only a process with
 * memory has an "exe". With hidepid, /proc hides the whole folder of an exporter that has changed
 * its user, so the missing file alone means a zombie.
 */
static bool is_zombie(long pid)
{
	char path[32];
	char byte;
	struct stat unused;

	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/%ld", pid);
	if (sp_arch_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&unused, 0) != 0)
		return false;
	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
	return sp_arch_syscall(SYS_readlinkat, AT_FDCWD, (long)path, (long)&byte, 1) == -ENOENT &&
	       sp_arch_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)&byte, 1) >
		       0;
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
	long pid = atomic_load_explicit(&region->exporter_pid, memory_order_relaxed);
	long rc;

	/* A start does the same first, so nothing is lost if one is under way. */
	(void)sp_exporter_process_may_start();
	if (pid <= 0)
		return false;
	rc = sp_arch_syscall(SYS_kill, pid, 0, 0, 0);
	return rc == -EPERM || (rc == 0 && !is_zombie(pid));
}
