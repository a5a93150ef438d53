/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLOCK_MONOTONIC for the signal handler. A library may replace clock_gettime(3) by a function that
 * takes a lock. The function in the vDSO, the kernel's own code in each process, takes none. If it
 * cannot read the machine's clock source, it makes a system call, which a seccomp filter may
 * refuse; after the program has installed a filter no sample is taken. Context: SIG, APP.
 */
#ifndef SP_VDSO_CLOCK_SIG_H
#define SP_VDSO_CLOCK_SIG_H

#include <stdint.h>
#include <time.h>

#include "sampler/base/compiler.h"

typedef int sp_vdso_clock_fn(clockid_t clock, struct timespec *ts);

/* The name of the function in the vDSO. */
#if defined(__x86_64__)
#define SP_VDSO_CLOCK_NAME "__vdso_clock_gettime"
#else
#define SP_VDSO_CLOCK_NAME "__kernel_clock_gettime"
#endif

/*
 * The vDSO's function, set before the first timer starts; NULL = it is not known, so no clock is
 * read.
 */
extern sp_vdso_clock_fn *sp_vdso_clock;

/* CLOCK_MONOTONIC in nanoseconds; 0 = the clock cannot be read. */
SP_SIGSAFE uint64_t sp_vdso_clock_ns(void);

#endif
