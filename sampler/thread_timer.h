/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-thread CPU timers by raw system calls: the C library's wrappers neither take a thread's CPU
 * clock nor SIGEV_THREAD_ID portably, and moved between libraries in glibc 2.34.
 */
#ifndef SP_THREAD_TIMER_H
#define SP_THREAD_TIMER_H

#include <stdint.h>

/* linux/posix-timers_types.h: CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK in the low bits. */
#define SP_THREAD_CPU_CLOCK(tid) ((clockid_t)((~(uint32_t)(tid) << 3) | 6U))

/* Sampling period and signal of all timers armed from now on. APP, at activation. */
void sp_thread_timer_set(int signo, uint64_t period_ns, uint32_t cookie);
uint64_t sp_thread_timer_period_ns(void);
/* APP, after a fallback: the signal of all timers armed from now on. Any context: which that is. */
void sp_thread_timer_use(int signo);
int sp_thread_timer_signal(void);

/*
 * APP. Arms a timer on thread tid's CPU clock that sends it our signal each period of CPU
 * time, first expiry uniform in (0, period]. si_value carries cookie << 32 | index. Returns the
 * kernel's timer id or a negative errno. errno preserved.
 */
int sp_thread_timer_arm(uint32_t tid, uint32_t index);

/* Deletes it. errno preserved. */
void sp_thread_timer_delete(int id);

#endif
