/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the clock in the signal handler (vdso_clock_sig.h). Contexts: SIG, APP. */
#include "sampler/base/vdso_clock_sig.h"

#include <stddef.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

sp_vdso_clock_fn *sp_vdso_clock;

/* Not inlined, so that the gate for calls through pointers can name it. */
__attribute__((noinline)) uint64_t sp_vdso_clock_ns(void)
{
	struct timespec ts = {0, 0};

	if (sp_vdso_clock == NULL || sp_vdso_clock(CLOCK_MONOTONIC, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}
