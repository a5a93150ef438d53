/* SPDX-License-Identifier: Apache-2.0 */
/* Says in words whether a program can be profiled. */
#ifndef SP_CHECK_H
#define SP_CHECK_H

#include <sys/types.h>

enum sp_check {
	SP_CHECK_HOOKED = 0,  /* an SDK will be hooked, or spans be read */
	SP_CHECK_NO_SDK = 1,  /* it can be loaded, but there is no SDK to hook */
	SP_CHECK_BLOCKED = 2, /* it cannot be loaded, or not work */
	SP_CHECK_FAILED = 125 /* nothing can be said, but why that is so */
};

/* path as sp_target_find() left it. Prints to stdout. */
enum sp_check sp_check_program(const char *path);

/* The same for a running process: what is really mapped. */
int sp_check_process(pid_t pid);

#endif
