/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the process that the sampler was set up in, and counts forks. Contexts: any; set in APP and INIT. */
#include "sampler/base/process.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"

_Atomic uint32_t sp_process_forks;
static pid_t owner; /* 0 = none yet */

void sp_process_set(void)
{
	owner = (pid_t)sp_syscall(SYS_getpid);
}

void sp_process_forked(void)
{
	atomic_fetch_add_explicit(&sp_process_forks, 1, memory_order_relaxed);
	sp_process_set();
}

bool sp_process_is_ours(void)
{
	long pid = sp_syscall(SYS_getpid);

	return pid > 0 && pid == owner;
}

uint32_t sp_process_own_tid(void)
{
	static SP_TLS uint32_t tid;
	static SP_TLS uint32_t forks;
	uint32_t now = atomic_load_explicit(&sp_process_forks, memory_order_relaxed) + 1;

	if (forks != now) {
		tid = (uint32_t)sp_syscall(SYS_gettid);
		forks = now;
	}
	return tid;
}

bool sp_process_has_left(uint32_t tid, bool is_own, uintptr_t frame, uintptr_t here)
{
	int saved = errno;
	stack_t stack;
	bool left;

	if (!sp_process_is_ours())
		return false;
	if (!is_own)
		left = sp_syscall(SYS_tgkill, sp_syscall(SYS_getpid), tid, 0) != 0 &&
		       errno == ESRCH;
	else
		/*
		 * The stack grows down, so a frame that is still there has the higher address, but
		 * on an alternate stack an interrupted frame may be anywhere.
		 */
		left = frame != 0 && here >= frame &&
		       sp_syscall(SYS_sigaltstack, NULL, &stack) == 0 &&
		       (stack.ss_flags & SS_ONSTACK) == 0;
	errno = saved;
	return left;
}
