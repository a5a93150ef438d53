/* SPDX-License-Identifier: Apache-2.0 */
/* What files in /proc say of a process (proc(5)). */
#ifndef SP_PROC_STATUS_H
#define SP_PROC_STATUS_H

#include <stddef.h>
#include <stdint.h>

/* Enough for a line of numbers. */
#define SP_PROC_STATUS_LINE 64U

/*
 * APP. Copies the line that begins so, a newline and a name ("\nSigQ:"), as far as it has room; it ends
 * before its own newline. 1, 0 if there is no such line, or -1 if the file cannot be read. Raw system
 * calls alone, those by which a loader reads a library; errno is not preserved.
 */
int sp_proc_status(const char *path, const char *start, char line[SP_PROC_STATUS_LINE]);

/*
 * Any context. The state of a process, and its start in ticks since boot, from the text of its stat
 * file: together with its number the start names a process for good. 0 = unknown, and the state is
 * '?' if it cannot be read either.
 */
uint64_t sp_proc_stat_start(const char *text, char *state);

#endif
