/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process this is: whether the sampler was set up in it, and how many forks led to it. A child
 * of vfork runs in our memory, but has none of our timers and threads: what it does must not be
 * taken for something that the process does.
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Since we were loaded; a process and those that it was forked from all have another number. */
extern _Atomic uint32_t sp_process_forks;

/* APP, when the sampler is set up. */
void sp_process_set(void);

/* INIT, in a forked child, before anything else of us: it is a process of its own. */
void sp_process_forked(void);

/* Any context. True in the process that was set up, or forked off and set up again. */
bool sp_process_is_ours(void);

/* APP. The calling thread's id; asked of the kernel once. In a child of vfork it is the parent's. */
uint32_t sp_process_own_tid(void);

/*
 * APP. Whether a function of ours in that frame of thread tid, which did not return, will never go on:
 * the thread is gone, or it is the calling one (is_own) and its stack has been unwound to `here` since.
 * False where that cannot be told. errno preserved.
 */
bool sp_process_has_left(uint32_t tid, bool is_own, uintptr_t frame, uintptr_t here);

#endif
