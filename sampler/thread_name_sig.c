/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the kernel for the calling thread's name. Runs in the sampling signal handler, and at a
 * thread's end. Asked at each sample, so that no name that a thread ever had is missed or comes late,
 * whoever set it and by whatever way: there is nothing to keep up to date.
 */
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sampler/seccomp.h"
#include "sampler/thread_name.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES])
{
	/* what stays if a seccomp filter refuses */
	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)sp_syscall(SYS_prctl, (long)PR_GET_NAME, name);
}
