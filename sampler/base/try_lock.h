/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held for a few stores only. The host may call us from a signal handler that has
 * interrupted the holder, and the holder then cannot go on until the handler returns. So an attempt
 * is bounded, and whoever does not get the lock does without. It is never held while the dynamic
 * loader is called, because the loader may be waiting for a thread that is in one of our hooks. APP
 * context.
 */
#ifndef SP_TRY_LOCK_H
#define SP_TRY_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"

#define SP_TRY_LOCK_TRIES 1000U

static inline bool sp_try_lock(atomic_flag *lock)
{
	for (unsigned n = 0; n < SP_TRY_LOCK_TRIES; n++) {
		if (!atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
			return true;
		(void)sp_syscall(SYS_sched_yield);
	}
	return false;
}

static inline void sp_unlock(atomic_flag *lock)
{
	atomic_flag_clear_explicit(lock, memory_order_release);
}

#endif
