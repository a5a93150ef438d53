/* SPDX-License-Identifier: Apache-2.0 */
/* Our own system calls (syscall.h). Any context, so the rules of the signal handler apply. */
#include "sampler/base/syscall.h"

#include <stdatomic.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

_Atomic long sp_syscall_refused;

SP_SIGSAFE long sp_syscall_make(long number, const long a[6])
{
	long rc = sp_arch_syscall6(number, a);

	if (rc == -EPERM || rc == -ENOSYS)
		atomic_store_explicit(&sp_syscall_refused, number, memory_order_relaxed);
	return sp_syscall_result(rc);
}
