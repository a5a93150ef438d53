/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the process that the sampler was set up in, and counts forks. Contexts: any; set in APP and INIT. */
#include "sampler/base/process.h"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

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
