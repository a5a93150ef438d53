/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory can be read, without reading it. Context: SIG, APP. */
#ifndef SP_READABLE_SIG_H
#define SP_READABLE_SIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * True if the eight bytes at the address can be read now; another thread may unmap them at any
 * time. One system call, about 0.2 us. False below a seccomp filter of the program, where we make
 * no system call. errno preserved.
 */
SP_SIGSAFE bool sp_readable(uintptr_t address);

#endif
