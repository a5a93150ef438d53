/* SPDX-License-Identifier: Apache-2.0 */
/* One line of a status file in /proc (proc(5)), as of /proc/self/status. */
#ifndef SP_PROC_STATUS_H
#define SP_PROC_STATUS_H

#include <stddef.h>

/* Enough for a line of numbers. */
#define SP_PROC_STATUS_LINE 64U

/*
 * APP. Copies the line that begins so, a newline and a name ("\nSigQ:"), as far as it has room; it ends
 * before its own newline. 1, 0 if there is no such line, or -1 if the file cannot be read. Raw system
 * calls alone, those by which a loader reads a library; errno is not preserved.
 */
int sp_proc_status(const char *path, const char *start, char line[SP_PROC_STATUS_LINE]);

#endif
