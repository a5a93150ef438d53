/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU clocks, asked of the kernel itself: another preloaded object may stand in front of
 * clock_gettime(3), as libfaketime does, and move some of these clocks and not others. APP,
 * async-signal-safe, errno preserved.
 */
#ifndef SP_CPU_CLOCK_H
#define SP_CPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Nanoseconds. False, with *ns unchanged, if the thread does not exist any more or a filter forbids
 * the call.
 */
bool sp_cpu_clock_ns(clockid_t clock, uint64_t *ns);

#endif
