/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CPU clocks by a system call. The vDSO would only make the same call. Context: APP. */
#include "sampler/base/cpu_clock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"

bool sp_cpu_clock_ns(clockid_t clock, uint64_t *ns)
{
	struct timespec ts = {0, 0};
	int saved = errno;
	bool ok = sp_syscall(SYS_clock_gettime, clock, &ts) == 0;

	errno = saved;
	if (ok)
		*ns = (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
	return ok;
}
