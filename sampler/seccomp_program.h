/* SPDX-License-Identifier: Apache-2.0 */
/* What a seccomp filter will say to the end of a signal handler, found out before it goes in. */
#ifndef SP_SECCOMP_PROGRAM_H
#define SP_SECCOMP_PROGRAM_H

#include <stdbool.h>

/*
 * APP, async-signal-safe. The program, a struct sock_fprog, would let a signal handler return. True also
 * for one that cannot be read, which the kernel will refuse. A few system calls (readable_sig.h): before
 * the process has any filter. errno preserved.
 */
bool sp_seccomp_lets_return(const void *program);

#endif
