/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU timers of threads, by raw system calls: the C library's wrappers do not portably take a
 * thread's CPU clock or SIGEV_THREAD_ID, and they moved to another library in glibc 2.34.
 */
#ifndef SP_THREAD_TIMER_H
#define SP_THREAD_TIMER_H

#include <stdbool.h>
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

/*
 * How many timers we may have. Each timer holds one entry of RLIMIT_SIGPENDING as long as it
 * exists. All processes of the user share these entries, and sigqueue(3) and timer_create(2) of the
 * host fail when none is left. So we take no more than half of them. APP.
 */

/*
 * The limit by the text of /proc/PID/status, for a process that has `ours` timers of ours. False if
 * the text does not tell.
 */
bool sp_timer_limit_of(const char *status, uint32_t ours, uint64_t *timers);

/*
 * Asks the kernel and sets the limit that thread.h obeys. Without /proc the limit stays as it was.
 */
void sp_timer_limit_look(void);

#endif
