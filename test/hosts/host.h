/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that several host programs use: burning a known amount of CPU time, and failing with a message. Host
 * programs stand for any program, so this file knows nothing of the profiler.
 */
#ifndef TEST_HOSTS_HOST_H
#define TEST_HOSTS_HOST_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOST_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,        \
				strerror(errno));                                                  \
			exit(99);                                                                  \
		}                                                                                  \
	} while (0)

static inline int64_t host_clock_ns(clockid_t clock)
{
	struct timespec ts = {0, 0};

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int64_t host_cpu_ns(void)
{
	return host_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline int64_t host_wall_ms(void)
{
	return host_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/*
 * Whether the thread's CPU clock is before end_ns; *look_ns is 0 at first, and then belongs to this function. Reading
 * the CPU clock lets the scheduler end a time slice that is used up. So a thread that reads the clock all the time is
 * preempted between two ticks of a busy machine. The ticks, at which CPU timers expire, then come while other threads
 * run. Therefore the clock is read again only when enough time has passed for the end to be possible.
 */
static inline int host_is_before(int64_t end_ns, int64_t *look_ns)
{
	int64_t now_ns = host_clock_ns(CLOCK_MONOTONIC);
	int64_t left_ns;

	if (now_ns < *look_ns)
		return 1;
	left_ns = end_ns - host_cpu_ns();
	*look_ns = now_ns + left_ns;
	return left_ns > 0;
}

/* Uses that much CPU time of the calling thread, however busy the machine is. */
__attribute__((noinline, unused)) static void host_burn_ms(int ms)
{
	int64_t end_ns = host_cpu_ns() + (int64_t)ms * 1000000;
	int64_t look_ns = 0;
	volatile unsigned sum = 0;

	while (host_is_before(end_ns, &look_ns))
		for (unsigned i = 0; i < 20000; i++)
			sum += i;
	(void)sum;
}

/* Waits in small steps for at most ms milliseconds: returns 1 as soon as *flag is not 0. */
__attribute__((unused)) static int host_wait_for(const volatile int *flag, int ms)
{
	int64_t end = host_wall_ms() + ms;
	struct timespec step = {0, 1000000};

	while (*flag == 0 && host_wall_ms() < end)
		nanosleep(&step, NULL);
	return *flag != 0;
}

/* Waits until the file exists. */
__attribute__((unused)) static void host_wait_for_file(const char *path)
{
	int64_t end = host_wall_ms() + 30000;
	struct timespec step = {0, 1000000};

	while (access(path, F_OK) != 0) {
		HOST_CHECK(host_wall_ms() < end);
		nanosleep(&step, NULL);
	}
}

#endif
