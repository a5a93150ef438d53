/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a thread blocks the sampling signal. APP. */
#ifndef SP_THREAD_MASK_H
#define SP_THREAD_MASK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Asks the kernel: for the calling thread by one system call, for another one through /proc. There,
 * a runnable thread shows its mask, but not whether it is still inside a wait that has replaced the
 * mask. If blocked_before is true, another thread therefore counts as not blocking only if it
 * sleeps in a different call. True if it cannot be told; the next scan then asks again. errno
 * preserved.
 */
bool sp_thread_mask_blocks(uint32_t tid, bool blocked_before);

/* Whether that signal is pending for that thread alone. False if it cannot be told. errno preserved. */
bool sp_thread_mask_pending(uint32_t tid, int signo);

#endif
