/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU clocks, read from the kernel itself: another preloaded object, such as libfaketime, may
 * replace clock_gettime(3) and shift some of these clocks and not others. APP, async-signal-safe,
 * errno preserved.
 */
#ifndef SP_CPU_CLOCK_H
#define SP_CPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Reads a CPU clock, in nanoseconds. False, with *ns unchanged, if the thread has ended or a
 * seccomp filter forbids the call.
 */
bool sp_cpu_clock_ns(clockid_t clock, uint64_t *ns);

#endif
