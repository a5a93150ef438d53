/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manual labels on the calling thread's span stack: a profile id and a name that the program
 * chooses. The innermost one labels the samples; each is a root of its own and no span's parent.
 * APP context, inside the reentrancy guard.
 *
 * Their frames differ from those of SDKs by their token, which is made of the nesting depth: a pop
 * ends the frame of its own push or none, whatever happened in between.
 */
#ifndef SP_MANUAL_LABEL_H
#define SP_MANUAL_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/open_spans/span_stack.h"

/* Half a stack: labels that are never popped leave the other half to spans. */
#define SP_MANUAL_LABEL_DEPTH_MAX (SP_SPAN_DEPTH_MAX / 2)

/* Above every address and every count that an SDK could use as a token, below the reserved one. */
#define SP_MANUAL_LABEL_TOKEN (UINT64_MAX - SP_SPAN_DEPTH_MAX)
_Static_assert(SP_MANUAL_LABEL_TOKEN >= SP_SPAN_NO_SCOPE, "no scope of an SDK");

static inline bool sp_manual_label_is(uint64_t token)
{
	return token > SP_MANUAL_LABEL_TOKEN &&
	       token <= SP_MANUAL_LABEL_TOKEN + SP_MANUAL_LABEL_DEPTH_MAX;
}

/*
 * Enters a level, without a label. To be called for every push, whether its label is shown or not.
 */
void sp_manual_label_enter(void);

/* Shows a label on the level just entered. 0, -ENOSPC (counted). */
int sp_manual_label_show(uint64_t id, uint32_t name_id);

/* Leaves the level, and its label if it has one. False at the outermost: nothing to leave. */
bool sp_manual_label_leave(void);

/* The id of the innermost live span beneath the manual labels; 0 if there is none. */
uint64_t sp_manual_label_enclosing(const struct sp_span_stack *s);

#endif
