/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by which the host becomes somebody else: users, groups and capabilities, or another
 * namespace. With a second thread some of them fail, and one ends the program: glibc (2.36,
 * nptl/nptl_setxid.c) repeats a change of users on every thread and aborts if one thread is refused
 * what another one was granted, as after PR_SET_KEEPCAPS on the calling thread alone. So our thread
 * is away meanwhile, and comes back as what the caller has become. APP context.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "preload/life.h"
#include "preload/resolve.h"
#include "sampler/compiler.h"

/* linux/nsfs.h and linux/sched.h, of which headers may be older. */
#define NAMESPACE_TYPE _IO(0xb7, 0x3)
#define NEW_TIME 0x00000080

/* No header of the C library declares it. */
int capset(cap_user_header_t header, cap_user_data_t data);

/* After a move into another pid namespace a process can create no more threads, only children. */
static _Atomic pid_t parted;

static bool has_parted(void)
{
	pid_t pid = atomic_load_explicit(&parted, memory_order_relaxed);

	return pid != 0 && pid == getpid();
}

static bool step_aside(void)
{
	return sp_life_step_aside(has_parted());
}

static int no_call(void)
{
	errno = ENOSYS;
	return -1;
}

// clang-format off
#define SP_ALONE(sym, parameters, arguments) \
	SP_EXPORT int sym parameters \
	{ \
		__typeof__(&(sym)) next = SP_NEXT(sym); \
		bool aside = step_aside(); \
		int rc = next != NULL ? next arguments : no_call(); \
\
		if (aside) \
			sp_life_step_back(has_parted()); \
		return rc; \
	}
// clang-format on

SP_ALONE(setuid, (uid_t uid), (uid))
SP_ALONE(setgid, (gid_t gid), (gid))
SP_ALONE(seteuid, (uid_t uid), (uid))
SP_ALONE(setegid, (gid_t gid), (gid))
SP_ALONE(setreuid, (uid_t real, uid_t effective), (real, effective))
SP_ALONE(setregid, (gid_t real, gid_t effective), (real, effective))
SP_ALONE(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
SP_ALONE(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
SP_ALONE(setgroups, (size_t n, const gid_t *groups), (n, groups))
/* The C library's own call of setgroups() in it passes by no symbol. */
SP_ALONE(initgroups, (const char *user, gid_t group), (user, group))
/* One thread's, so without this ours would keep what the host gives up. */
SP_ALONE(capset, (cap_user_header_t header, cap_user_data_t data), (header, data))

/*
 * Some namespaces take processes of one thread only; another mount namespace is better entered
 * together, or our thread would stay in the old one. For the rest it does not matter where ours is.
 */
static bool aside_for(unsigned kinds, unsigned alone)
{
	bool for_good = (kinds & CLONE_NEWPID) != 0 || has_parted();

	if ((kinds & alone) != 0)
		return sp_life_step_aside(for_good);
	if ((kinds & (CLONE_NEWNS | CLONE_FS)) != 0 && !for_good)
		return sp_life_step_aside(false);
	return false;
}

static void moved(unsigned kinds, int rc)
{
	if (rc == 0 && (kinds & CLONE_NEWPID) != 0 && sp_life_wanted())
		atomic_store_explicit(&parted, getpid(), memory_order_relaxed);
}

SP_EXPORT int unshare(int flags)
{
	__typeof__(&unshare) next = SP_NEXT(unshare);
	unsigned kinds = (unsigned)flags;
	bool aside = aside_for(kinds,
			       CLONE_NEWUSER | NEW_TIME | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM);
	int rc = next != NULL ? next(flags) : no_call();

	moved(kinds, rc);
	if (aside)
		sp_life_step_back(has_parted());
	return rc;
}

/* The caller may leave it to the descriptor to say what kind of namespace it is. */
static unsigned kinds_of(int fd, int type)
{
	int saved = errno;
	int kind = type;

	if (type == 0 && sp_life_active())
		kind = ioctl(fd, NAMESPACE_TYPE);
	errno = saved;
	return kind > 0 ? (unsigned)kind : 0;
}

SP_EXPORT int setns(int fd, int type)
{
	__typeof__(&setns) next = SP_NEXT(setns);
	unsigned kinds = kinds_of(fd, type);
	bool aside = aside_for(kinds, CLONE_NEWUSER | NEW_TIME | CLONE_NEWNS);
	int rc = next != NULL ? next(fd, type) : no_call();

	moved(kinds, rc);
	if (aside)
		sp_life_step_back(has_parted());
	return rc;
}
