/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the profiler in a process: asleep until the first recorded span, then active until exit; a
 * forked child starts anew. What leads from one state to the next is in lifecycle.h. And which of nested
 * hooked calls counts.
 */
#ifndef SP_STATE_H
#define SP_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/config/config.h"

enum sp_lifecycle_state {
	SP_LIFECYCLE_OFF,      /* kill switch, AT_SECURE, or before our constructor */
	SP_LIFECYCLE_ASLEEP,   /* waiting for the first recorded span */
	SP_LIFECYCLE_STARTING, /* one thread is setting up */
	SP_LIFECYCLE_ACTIVE,
	SP_LIFECYCLE_STOPPED, /* sampling has stopped; its samples are still to be sent */
	SP_LIFECYCLE_FAILED,
};
/* Written in this folder alone, read by every hooked call. */
SP_HIDDEN _Atomic int sp_lifecycle_state;

/* Neither switched off nor broken: a recorded span would find us active or start us. APP. */
static inline bool sp_lifecycle_wanted(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed);

	return now != SP_LIFECYCLE_OFF && now != SP_LIFECYCLE_STOPPED && now != SP_LIFECYCLE_FAILED;
}

/* Sampling is on. Any context. */
static inline bool sp_lifecycle_active(void)
{
	/* pairs with start_by_winner(): the tables before "active" */
	return atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire) ==
	       SP_LIFECYCLE_ACTIVE;
}

static inline bool sp_lifecycle_asleep(void)
{
	return atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed) ==
	       SP_LIFECYCLE_ASLEEP;
}

/*
 * APP, at the entry of a hook of the C library: the state, as far as it is the calling process's. OFF where
 * nothing may be done: in a child that only shares our memory (vfork, raw clone), to which none of our threads
 * and timers belong, and where a seccomp filter is in, below which no system call of ours is made. errno
 * preserved.
 */
enum sp_lifecycle_state sp_lifecycle_here(void);

/* The parsed configuration; valid once sp_lifecycle_start() returned true. */
extern struct sp_config sp_lifecycle_settings;

static inline const struct sp_config *sp_lifecycle_config(void)
{
	return &sp_lifecycle_settings;
}

/* APP. Turns sampling off for good. Its samples are still sent, and the host runs on. */
void sp_lifecycle_stop(void);

/* APP. The same where no exporter is left to send the samples. */
void sp_lifecycle_fail(void);

/* The end has begun: the last flush. Written in this folder alone. */
extern _Atomic bool sp_lifecycle_ended;

static inline bool sp_lifecycle_has_ended(void)
{
	return atomic_load_explicit(&sp_lifecycle_ended, memory_order_relaxed);
}

/*
 * The reentrancy guard of hooked calls, for each thread. A wrapper over another SDK calls that
 * SDK's hooked functions inside of its own hooked function, and one span would be recorded twice.
 * Only the outermost hook counts.
 *
 * A host may leave a hooked call by longjmp or an exception, without sp_reentrancy_guard_leave().
 * So the guard remembers its place on the stack, and an entry from an older frame knows that it is
 * stale.
 */

/* Frame address of the outermost entry; 0 = not inside. */
extern SP_TLS uintptr_t sp_reentrancy_guard_frame;

struct sp_reentrancy_guard {
	bool outermost;
};

static inline bool sp_reentrancy_guard_inside(uintptr_t here)
{
	/* the stack grows down: a live outer frame has the higher address */
	return sp_reentrancy_guard_frame != 0 && here < sp_reentrancy_guard_frame;
}

static inline __attribute__((always_inline)) struct sp_reentrancy_guard
sp_reentrancy_guard_enter(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	struct sp_reentrancy_guard g = {.outermost = !sp_reentrancy_guard_inside(here)};

	if (g.outermost)
		sp_reentrancy_guard_frame = here;
	return g;
}

static inline void sp_reentrancy_guard_leave(struct sp_reentrancy_guard g)
{
	if (g.outermost)
		sp_reentrancy_guard_frame = 0;
}

#endif
