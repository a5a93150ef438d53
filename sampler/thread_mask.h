/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a thread blocks the sampling signal. APP. */
#ifndef SP_THREAD_MASK_H
#define SP_THREAD_MASK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Asks the kernel: for the calling thread by one system call, for another one through /proc.
 * There a thread that could run shows its mask, but not whether
 * it is still inside a wait that has replaced it: what another one seems not to block counts only
 * if it sleeps elsewhere, where blocked_before is true. True when it cannot tell: then the thread
 * is asked for again at the next scan. errno preserved.
 */
bool sp_thread_mask_blocks(uint32_t tid, bool blocked_before);

#endif
