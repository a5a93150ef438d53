/* SPDX-License-Identifier: Apache-2.0 */
/* The handler's walk, with all frames in one array. */
#ifndef TEST_WALK_H
#define TEST_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/unwind/unwind_sig.h"

static inline unsigned walk_stack(const void *ucontext, struct sp_stack_bounds *bounds,
				  uint64_t *pc, unsigned max, uint16_t *flags)
{
	const struct sp_unwind_room room[2] = {{pc, max}, {NULL, 0}};

	return sp_unwind_walk(ucontext, bounds, room, flags);
}

#endif
