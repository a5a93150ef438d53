/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this is the process that the sampler was set up in. A child of vfork runs in our memory,
 * but has none of our timers and threads: what it does must not be taken for something that the
 * process does.
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <stdbool.h>

/* APP, when the sampler is set up; INIT, in a forked child. */
void sp_process_set(void);

/* Any context. True in the process that was set up, or forked off and set up again. */
bool sp_process_is_ours(void);

#endif
