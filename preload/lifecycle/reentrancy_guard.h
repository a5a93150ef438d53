/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reentrancy guard of hooked calls, for each thread. A wrapper over another SDK calls that
 * SDK's hooked functions inside of its own hooked function, and one span would be recorded twice.
 * Only the outermost hook counts.
 *
 * A host may leave a hooked call by longjmp or an exception, without sp_reentrancy_guard_leave().
 * So the guard remembers its place on the stack, and an entry from an older frame knows that it is
 * stale.
 */
#ifndef SP_REENTRANCY_GUARD_H
#define SP_REENTRANCY_GUARD_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

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
