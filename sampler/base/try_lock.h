/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held for a few stores only. The host may call us from a signal handler that has
 * interrupted the holder, and the holder cannot go on until the handler returns. So a thread makes
 * one bounded attempt, and if it does not get the lock, it skips the work. No thread holds the lock
 * during a call of the dynamic loader, because the loader may be waiting for a thread that is in
 * one of our hooks.
 *
 * A holder may never release the lock: its thread is cancelled asynchronously, or a handler of the
 * host that interrupted it ends by longjmp(). So the lock says which thread holds it, and in which
 * frame of its stack. A thread takes the lock over if the holder is gone, or if the holder is the
 * thread itself and that frame has been unwound. An unwound frame of another living thread is not
 * noticed; that thread takes the lock over at its own next attempt. Before the sampler was set up,
 * and in a child of vfork(), which does not see its parent's threads, no lock is taken over. The
 * data that the lock protects may be half written when a thread takes it over, so the new holder
 * starts from the beginning.
 *
 * A child that is forked while another thread holds the lock does not have that thread, and nobody
 * would ever release the lock. So the lock says in which process it was taken, and counts as free
 * in any other process. Only forks after the first recorded span are noticed: a child of an earlier
 * fork at such a moment never gets the lock. APP context.
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

/* A lock of zeros is free. */
struct sp_try_lock {
	_Atomic uint64_t
		holder; /* (number of forks that led to its process + 1) << 32 | thread id */
	_Atomic uintptr_t frame; /* frame of the holder; 0 = not yet known */
};

/* One attempt. here: a frame of the caller that returns only after the lock is released. */
static inline bool sp_try_lock_in(struct sp_try_lock *lock, uintptr_t here)
{
	uint64_t process = atomic_load_explicit(&sp_process_forks, memory_order_relaxed) + 1;
	uint64_t own = process << 32 | sp_process_own_tid();
	uint64_t was = atomic_load_explicit(&lock->holder, memory_order_relaxed);

	if (was >> 32 == process) {
		uintptr_t frame = atomic_load_explicit(&lock->frame, memory_order_relaxed);

		if (!sp_process_has_left((uint32_t)was, was == own, frame, here))
			return false;
		/* A handler may interrupt us before our own frame is stored. */
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
