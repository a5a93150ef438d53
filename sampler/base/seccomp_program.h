/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a seccomp filter lets signal handlers return, found out before it is installed. */
#ifndef SP_SECCOMP_PROGRAM_H
#define SP_SECCOMP_PROGRAM_H

#include <stdbool.h>

/*
 * APP, async-signal-safe. True if the program, a struct sock_fprog, lets a signal handler return,
 * or cannot be read, in which case the kernel will refuse it. Makes a few system calls
 * (readable_sig.h), which is safe before the process has any filter. errno preserved.
 */
bool sp_seccomp_lets_return(const void *program);

#endif
