/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers the process that the sampler was set up in. Contexts: any; set in APP (activation) and
 * INIT.
 */
#include "sampler/base/process.h"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"

static pid_t owner; /* 0 = none yet */

void sp_process_set(void)
{
	owner = (pid_t)sp_syscall(SYS_getpid);
}

bool sp_process_is_ours(void)
{
	long pid = sp_syscall(SYS_getpid);

	return pid > 0 && pid == owner;
}
