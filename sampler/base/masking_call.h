/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that replace the caller's signal mask while they wait, like ppoll(). Meanwhile /proc
 * shows the mask of the call and not the thread's own. Any context, host or exporter; no state.
 */
#ifndef SP_MASKING_CALL_H
#define SP_MASKING_CALL_H

#include <stdbool.h>

/*
 * True if the line of /proc/PID/task/TID/syscall ("number 0xarg 0xarg ...", fs/proc/base.c) names
 * such a call that was given a mask. False for "running" and for any other text.
 */
bool sp_masking_call(const char *line);

#endif
