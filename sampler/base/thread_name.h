/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's name of a thread (comm), as it is at the moment of asking: what prctl(PR_SET_NAME),
 * pthread_setname_np() and exec set, and a new thread inherits. 15 bytes of anything but NUL.
 */
#ifndef SP_THREAD_NAME_H
#define SP_THREAD_NAME_H

#include <stdint.h>

#include "sampler/base/compiler.h"

/* linux/sched.h: TASK_COMM_LEN, the NUL included. */
#define SP_THREAD_NAME_BYTES 16U

/*
 * The calling thread's, padded with NUL; all NUL if the kernel does not tell. One system call, no
 * file. Any context.
 */
SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES]);

#endif
