/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose process this is. A child of vfork runs in our memory, with timers, signal handlers and threads
 * of its own, which are none: what it does must not be taken for what the process does that was set up.
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <stdbool.h>

/* APP, when the sampler is set up; INIT, in a forked child. */
void sp_process_set(void);

/* Any context. True in the process that was set up, or forked off and set up again. */
bool sp_process_is_ours(void);

#endif
