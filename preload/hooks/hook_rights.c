/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls after which a process may be unable to start an exporter
 * (sp_lifecycle_before_confinement()):
 *
 * - chroot(): the exporter's program is not below the new root.
 * - setrlimit() and prlimit() of RLIMIT_NPROC: the user may not have another process, and the
 *   exporter is one.
 * - setuid(), setreuid() and setresuid() below such a limit: it does not bind root, but it binds
 *   the new user.
 *
 * The kernel decides whether the call succeeds. Each hook ends in a jump to the real function. APP
 * context; async-signal-safe.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/readable_sig.h"

/*
 * Nobody knows how many processes the user has before a fork fails. So a limit below this number
 * counts as nearly reached. Limits of distributions and service managers are in the thousands.
 */
#define PROCESSES_FEW 256U

static long no_call(void)
{
	errno = ENOSYS;
	return -1;
}

static const void *real(enum sp_next which)
{
	const void *next = sp_next(which);

	return next != NULL ? next : (const void *)no_call;
}

const void *sp_chroot_begin(void);
const void *sp_chroot_begin(void)
{
	sp_lifecycle_before_confinement();
	return real(SP_NEXT_chroot);
}

SP_TAIL_CALL("chroot", "sp_chroot_begin", "");

/* The soft limit comes first in both structures. The kernel has not checked the pointer yet. */
static void before_limit(int resource, const uint64_t *limit)
{
	if (resource == RLIMIT_NPROC && sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE &&
	    sp_readable((uintptr_t)limit) && *limit < PROCESSES_FEW)
		sp_lifecycle_before_confinement();
}

// clang-format off
#define SP_SETRLIMIT(sym) \
	const void *sp_##sym##_begin(int resource, const uint64_t *limit); \
	const void *sp_##sym##_begin(int resource, const uint64_t *limit) \
	{ \
		before_limit(resource, limit); \
		return real(SP_NEXT_##sym); \
	} \
	SP_TAIL_CALL(#sym, "sp_" #sym "_begin", "");

/* Limits of another process do not concern our exporter. */
#define SP_PRLIMIT(sym) \
	const void *sp_##sym##_begin(pid_t pid, int resource, const uint64_t *limit); \
	const void *sp_##sym##_begin(pid_t pid, int resource, const uint64_t *limit) \
	{ \
		if (pid == 0 || pid == sp_arch_syscall(SYS_getpid, 0, 0, 0, 0)) \
			before_limit(resource, limit); \
		return real(SP_NEXT_##sym); \
	} \
	SP_TAIL_CALL(#sym, "sp_" #sym "_begin", "");

SP_SETRLIMIT(setrlimit)
SP_SETRLIMIT(setrlimit64)
SP_PRLIMIT(prlimit)
SP_PRLIMIT(prlimit64)
// clang-format on

static void before_user(void)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	if (sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE &&
	    sp_arch_syscall(SYS_prlimit64, 0, RLIMIT_NPROC, 0, (long)&limit) == 0 &&
	    limit.rlim_cur < PROCESSES_FEW)
		sp_lifecycle_before_confinement();
}

// clang-format off
#define SP_SETUID(sym) \
	const void *sp_##sym##_begin(void); \
	const void *sp_##sym##_begin(void) \
	{ \
		before_user(); \
		return real(SP_NEXT_##sym); \
	} \
	SP_TAIL_CALL(#sym, "sp_" #sym "_begin", "");

SP_SETUID(setuid)
SP_SETUID(setreuid)
SP_SETUID(setresuid)
// clang-format on
