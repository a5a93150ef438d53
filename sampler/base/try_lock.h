/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held for a few stores only. The host may call us from a signal handler that has
 * interrupted the holder, and the holder then cannot go on until the handler returns. So an attempt
 * is bounded, and whoever does not get the lock does without. It is never held while the dynamic
 * loader is called, because the loader may be waiting for a thread that is in one of our hooks.
 *
 * A holder may never come back: its thread is cancelled asynchronously, or a handler of the host that
 * has interrupted it leaves by longjmp(). So the lock says which thread took it, and in which frame
 * of its stack. Whoever finds it taken by a thread that is gone, or by its own thread in a frame that
 * has been left since, takes it over. Another thread that has left its frame is not noticed as long
 * as it lives; it takes the lock over itself at its next attempt. Before sampling was set up, and in a
 * child of vfork, which does not see the threads of its parent, nothing is taken over. What the lock protects may be half
 * done then: whoever takes it starts from the beginning.
 *
 * A child that is forked while another thread holds the lock has no such thread, and nobody would
 * ever give it back. So the lock says in which process it was taken, and counts as free in any
 * other. Only forks that our fork handler sees are noticed: those by the C library once a span was
 * recorded. A child of an earlier fork, or by a raw clone, that was forked at such a moment does
 * without what the lock protects. APP context.
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
	_Atomic uint64_t
		holder; /* one more than the forks that led to its process << 32 | thread id */
	_Atomic uintptr_t frame; /* of the holder; 0 = not yet known */
};

/* One attempt; here is a frame of the caller that lasts at least as long as it holds the lock. */
static inline bool sp_try_lock_in(struct sp_try_lock *lock, uintptr_t here)
{
	uint64_t process = atomic_load_explicit(&sp_process_forks, memory_order_relaxed) + 1;
	uint64_t own = process << 32 | sp_process_own_tid();
	uint64_t was = atomic_load_explicit(&lock->holder, memory_order_relaxed);

	if (was >> 32 == process) {
		uintptr_t frame = atomic_load_explicit(&lock->frame, memory_order_relaxed);

		if (!sp_process_has_left((uint32_t)was, was == own, frame, here))
			return false;
		/* A handler may interrupt us before our frame is known. */
		atomic_store_explicit(&lock->frame, 0, memory_order_relaxed);
	}
	if (!atomic_compare_exchange_strong_explicit(&lock->holder, &was, own, memory_order_acquire,
						     memory_order_relaxed))
		return false;
	atomic_store_explicit(&lock->frame, here, memory_order_relaxed);
	return true;
}

static inline __attribute__((always_inline)) bool sp_try_lock_once(struct sp_try_lock *lock)
{
	return sp_try_lock_in(lock, (uintptr_t)__builtin_frame_address(0));
}

static inline __attribute__((always_inline)) bool sp_try_lock(struct sp_try_lock *lock)
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
	atomic_store_explicit(&lock->frame, 0, memory_order_relaxed);
	atomic_store_explicit(&lock->holder, 0, memory_order_release);
}

#endif
