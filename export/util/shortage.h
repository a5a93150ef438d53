/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that say nothing about the file or object that was to be opened, because the machine ran
 * short.
 */
#ifndef SP_SHORTAGE_H
#define SP_SHORTAGE_H

#include <errno.h>
#include <stdbool.h>

/*
 * True for a negative errno which means that we, or the machine, had run out of descriptors or memory. As a rule that
 * passes, so a later attempt may succeed.
 */
static inline bool sp_is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

#endif
