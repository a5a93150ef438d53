/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held for a few stores only. The host may call us from a signal handler that has
 * interrupted the holder, and the holder then cannot go on until the handler returns. So an attempt
 * is bounded, and whoever does not get the lock does without. It is never held while the dynamic
 * loader is called, because the loader may be waiting for a thread that is in one of our hooks.
 *
 * A child that is forked while another thread holds the lock has no such thread, and nobody would
 * ever give it back. So the lock says in which process it was taken, and counts as free in any
 * other. What it protects may be half done then: whoever takes it starts from the beginning. Only
 * forks that our fork handler sees are noticed: those by the C library once a span was recorded. A
 * child of an earlier fork, or by a raw clone, that was forked at such a moment does without what
 * the lock protects. APP context.
 */
#ifndef SP_TRY_LOCK_H
#define SP_TRY_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"

#define SP_TRY_LOCK_TRIES 1000U

/* Zeros are a lock that is free. */
struct sp_try_lock {
	_Atomic uint32_t process; /* of its holder: one more than the forks that led to it */
};

/* One attempt. */
static inline bool sp_try_lock_once(struct sp_try_lock *lock)
{
	uint32_t own = atomic_load_explicit(&sp_process_forks, memory_order_relaxed) + 1;
	uint32_t was = atomic_load_explicit(&lock->process, memory_order_relaxed);

	return was != own &&
	       atomic_compare_exchange_strong_explicit(&lock->process, &was, own,
						       memory_order_acquire, memory_order_relaxed);
}

static inline bool sp_try_lock(struct sp_try_lock *lock)
{
	for (unsigned n = 0; n < SP_TRY_LOCK_TRIES; n++) {
		if (sp_try_lock_once(lock))
			return true;
		(void)sp_syscall(SYS_sched_yield);
	}
	return false;
}

static inline void sp_unlock(struct sp_try_lock *lock)
{
	atomic_store_explicit(&lock->process, 0, memory_order_release);
}

#endif
