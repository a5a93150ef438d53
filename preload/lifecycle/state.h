/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the profiler in a process: asleep until the first recorded span, then active until
 * exit; a forked child starts anew. lifecycle.h has the functions that change the state. Also the
 * reentrancy guard, which decides which one of nested hooked calls counts.
 */
#ifndef SP_STATE_H
#define SP_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/base/process.h"
#include "sampler/config/config.h"

enum sp_lifecycle_state {
	SP_LIFECYCLE_OFF,      /* kill switch, AT_SECURE, or before our constructor */
	SP_LIFECYCLE_ASLEEP,   /* waiting for the first recorded span */
	SP_LIFECYCLE_STARTING, /* one thread is setting up */
	SP_LIFECYCLE_ACTIVE,
	SP_LIFECYCLE_STOPPED, /* sampling has stopped; its samples are still to be sent */
	SP_LIFECYCLE_FAILED,
};
/* Only this folder writes it; every hooked call reads it. */
SP_HIDDEN _Atomic int sp_lifecycle_state;

/*
 * APP. Whether sampling is on, or starts at the next recorded span: neither switched off nor
 * failed.
 */
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
 * INIT, in a forked child, before any other function of ours; and APP, at the entry of a hook, in a
 * child of a fork without fork handlers (sp_process_is_new()). Once in a process. errno preserved.
 */
void sp_lifecycle_forked(void);

/*
 * APP, at the entry of a hook of the C library. The state of the calling process. OFF if the hook
 * must do nothing: in a child that shares our memory (vfork), which does not own our threads and
 * timers; and once the program has installed a seccomp filter, after which we make no system call.
 * errno preserved.
 */
enum sp_lifecycle_state sp_lifecycle_here(void);

/* The parsed configuration; valid once sp_lifecycle_start() returned true. */
extern struct sp_config sp_lifecycle_settings;

static inline const struct sp_config *sp_lifecycle_config(void)
{
	return &sp_lifecycle_settings;
}

/* APP. Turns sampling off for good. The samples are still sent, and the host runs on. */
void sp_lifecycle_stop(void);

/* APP. As sp_lifecycle_stop(), if no exporter is left to send the samples. */
void sp_lifecycle_fail(void);

/*
 * APP, and SIG at the first sample of a forked child; one thread at a time. A start has failed: of
 * sampling, of a forked child, or of an exporter. True if it will be tried again once
 * sp_lifecycle_is_put_off() is false, which the log says at the first failure. False for an errno
 * that does not pass, and after too many tries.
 */
bool sp_lifecycle_put_off(int err);

/* Any context. Whether a start has failed and none has succeeded since. */
bool sp_lifecycle_was_put_off(void);

/* APP. Whether it is too early to try again. Compares times, without a system call. */
bool sp_lifecycle_is_put_off(void);

/* APP. The exporter works: the next start that fails has all tries again. */
void sp_lifecycle_has_started(void);

/* Text for messages: why a start has failed with this negative errno. */
const char *sp_lifecycle_reason(int err);

/* The end of the process, with the last flush, has begun. Only this folder writes it. */
extern _Atomic bool sp_lifecycle_ended;

static inline bool sp_lifecycle_has_ended(void)
{
	return atomic_load_explicit(&sp_lifecycle_ended, memory_order_relaxed);
}

/*
 * The reentrancy guard of hooked calls, for each thread. A wrapper around another SDK calls that
 * SDK's hooked functions inside of its own hooked function, and one span would be recorded twice.
 * Only the outermost hook counts.
 *
 * A host may end a hooked call by longjmp or an exception, without sp_reentrancy_guard_exit(). So
 * the guard is the address of the stack frame that entered it. An entry from a frame that is not
 * below that address knows that the guard is stale.
 */

/* Frame address of the outermost entry; 0 = not inside. */
extern SP_TLS uintptr_t sp_reentrancy_guard_frame;

struct sp_reentrancy_guard {
	bool outermost;
};

/*
 * sp_lifecycle_forked() enters the guard, too, but then sp_process_is_new() is false, so the
 * recursion ends.
 */
/* NOLINTBEGIN(misc-no-recursion) */

/* The first check in each hook of an SDK. */
static inline __attribute__((always_inline)) bool sp_reentrancy_guard_inside(uintptr_t here)
{
	if (sp_process_is_new())
		sp_lifecycle_forked();
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

/* NOLINTEND(misc-no-recursion) */

static inline void sp_reentrancy_guard_exit(struct sp_reentrancy_guard g)
{
	if (g.outermost)
		sp_reentrancy_guard_frame = 0;
}

#endif
