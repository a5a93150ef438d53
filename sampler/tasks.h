/* SPDX-License-Identifier: Apache-2.0 */
/* Walking /proc/self/task. APP context. */
#ifndef SP_TASKS_H
#define SP_TASKS_H

/*
 * Enrols every other thread of the process and frees blocks of threads that are gone. Opens and closes
 * one directory descriptor; without /proc it does nothing.
 */
void sp_tasks_scan(void);

#endif
