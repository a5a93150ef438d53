/* SPDX-License-Identifier: Apache-2.0 */
/* Walking /proc/self/task. APP context. */
#ifndef SP_THREAD_SCAN_H
#define SP_THREAD_SCAN_H

/*
 * Enrols every other thread of the process and frees blocks of threads that are gone. Opens and closes
 * one directory descriptor; without /proc it does nothing.
 */
void sp_thread_scan(void);

#endif
