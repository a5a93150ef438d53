/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that replace the caller's signal mask while they wait: what the kernel then shows as the
 * thread's mask is the call's. Any context, host or exporter; no state.
 */
#ifndef SP_MASKING_CALL_H
#define SP_MASKING_CALL_H

#include <stdbool.h>

/*
 * A line of /proc/PID/task/TID/syscall ("number 0xarg 0xarg ...", fs/proc/base.c) tells of such a call
 * that was given a mask. False for "running" and for what is no such line.
 */
bool sp_masking_call(const char *line);

#endif
