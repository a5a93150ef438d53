/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of ours in the host, by the processor's instruction. We never call syscall(), mmap() or getpid(): a
 * library that is preloaded before us may define these functions. Its function would count, log or refuse our system
 * calls. If it takes a lock, our signal handler could wait for ever. Any context.
 */
#ifndef SP_SYSCALL_H
#define SP_SYSCALL_H

#include <errno.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"

static inline SP_SIGSAFE long sp_syscall_result(long rc)
{
	const long errno_max = 4095;

	if (rc >= 0 || rc < -errno_max)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* As syscall(3), by the instruction. A separate function, so that tests can replace it. */
SP_SIGSAFE long sp_syscall_make(long number, const long a[6]);

/*
 * The number of the last call that failed with EPERM or ENOSYS, as calls fail below a seccomp
 * filter. A message about such an error names this call. 0 = none.
 */
extern _Atomic long sp_syscall_refused;

/*
 * Number and up to six arguments, each an integer or a pointer. Result and errno are those of
 * syscall(3). The call is made even below a seccomp filter of the program: sp_syscall() in
 * seccomp.h says when that is allowed.
 */
#ifndef __clang_analyzer__
#define sp_syscall_always(...) SP_SYSCALL_OF(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define SP_SYSCALL_OF(number, a, b, c, d, e, f, ...)                                               \
	sp_syscall_make((long)(number), (const long[]){(long)(a), (long)(b), (long)(c), (long)(d), \
						       (long)(e), (long)(f)})
#else
/* The analyzer assumes that nothing is written through a pointer that was converted to a number. */
#include <unistd.h>
#define sp_syscall_always(...) syscall(__VA_ARGS__)
#endif

#endif
