/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU timers of threads, by raw system calls: the C library's wrappers do not portably take a
 * thread's CPU clock or SIGEV_THREAD_ID, and they moved to another library in glibc 2.34.
 */
#ifndef SP_THREAD_TIMER_H
#define SP_THREAD_TIMER_H

#include <stdint.h>

/* linux/posix-timers_types.h: CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK in the low bits. */
#define SP_THREAD_CPU_CLOCK(tid) ((clockid_t)((~(uint32_t)(tid) << 3) | 6U))

/*
 * APP, at activation. The sampling period, the signal and the cookie of all timers that are armed
 * from now on.
 */
void sp_thread_timer_set(int signo, uint64_t period_ns, uint32_t cookie);
uint64_t sp_thread_timer_period_ns(void);
/*
 * APP. Arms a timer on the CPU clock of thread tid. It sends the thread our signal once per period
 * of CPU time; the first expiry is uniform in (0, period]. si_value carries cookie << 32 | index.
 * Returns the kernel's timer id or a negative errno. errno preserved.
 */
int sp_thread_timer_arm(uint32_t tid, uint32_t index);

/* Deletes it. errno preserved. */
void sp_thread_timer_delete(int id);

#endif
