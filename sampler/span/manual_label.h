/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manual labels on the calling thread's span stack: a profile id and a name that the program
 * chooses. The innermost one labels the samples; each is a root of its own and no span's parent.
 * APP context, inside the reentrancy guard.
 *
 * Their frames differ from those of SDKs by their token, which is made of the nesting depth and the
 * name: a pop ends the frame of its own push or none, whatever happened in between.
 */
#ifndef SP_MANUAL_LABEL_H
#define SP_MANUAL_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/open_spans/span_stack.h"

/* Labels that are never popped leave most of the stack to spans. */
#define SP_MANUAL_LABEL_DEPTH_MAX 32U

/*
 * Enters a level, without a label. To be called for every push, whether its label is shown or not.
 */
void sp_manual_label_enter(void);

/* Shows a label on the level just entered. 0, -ENOSPC (counted). */
int sp_manual_label_show(uint64_t id, uint32_t name_id);

/* Leaves the level, and its label if it has one. False at the outermost: nothing to leave. */
bool sp_manual_label_leave(void);

#endif
