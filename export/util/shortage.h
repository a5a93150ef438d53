/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that say nothing of the thing that was asked for. */
#ifndef SP_SHORTAGE_H
#define SP_SHORTAGE_H

#include <errno.h>
#include <stdbool.h>

/*
 * True for a negative errno that says that we, or the machine, had run out of descriptors or memory. As
 * a rule that passes, so the same question may have another answer later.
 */
static inline bool sp_is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

#endif
