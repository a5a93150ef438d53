/* SPDX-License-Identifier: Apache-2.0 */
/* Walking /proc/self/task. BG context. */
#ifndef SP_TASKS_H
#define SP_TASKS_H

#include <stdint.h>

/*
 * Enrols every thread of the process except `self`, frees blocks of threads that are gone. Opens
 * and closes one directory descriptor; without /proc it does nothing. Returns the number of other
 * threads that can still run host code, or -1 when it cannot tell.
 */
int sp_tasks_scan(uint32_t self);

#endif
