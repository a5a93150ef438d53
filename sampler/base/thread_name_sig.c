/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel for the calling thread's name, for each sample anew. A name can be set in many
 * ways (prctl, a file in /proc, another thread), and a copy of ours would miss some of them. Runs
 * in the sampling signal handler, and at a thread's end.
 */
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sampler/base/seccomp.h"
#include "sampler/base/thread_name.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES])
{
	/* The result if a seccomp filter refuses the call. */
	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)sp_syscall(SYS_prctl, (long)PR_GET_NAME, name);
}
