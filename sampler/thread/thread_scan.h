/* SPDX-License-Identifier: Apache-2.0 */
/* Walking /proc/self/task. APP context, one thread at a time. */
#ifndef SP_THREAD_SCAN_H
#define SP_THREAD_SCAN_H

#include <stdbool.h>

/* As many threads without a timer a call looks at, some 0.3 ms. */
#define SP_THREAD_SCAN_MAX 64U

/*
 * Enrols other threads of the process, from where the last call ended, and frees blocks of threads that
 * are gone when it has come to the end. False if there are more: then the next call goes on. Opens and
 * closes one directory descriptor; without /proc it does nothing.
 */
bool sp_thread_scan(void);

#endif
