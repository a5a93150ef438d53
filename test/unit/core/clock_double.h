/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU clocks that go as the test says: one for the process, one for each other thread, one for the
 * calling thread. To be included by one file of a program.
 */
#ifndef SP_TEST_CLOCK_DOUBLE_H
#define SP_TEST_CLOCK_DOUBLE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/compiler.h"

static uint64_t thread_ns;
static uint64_t process_ns;
static uint64_t background_ns;
static bool thread_gone;

/* Stands before the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns;

	if (clock == CLOCK_PROCESS_CPUTIME_ID) {
		ns = process_ns;
	} else if (clock == CLOCK_THREAD_CPUTIME_ID) {
		ns = background_ns;
	} else if (clock < 0) {
		if (thread_gone) {
			errno = EINVAL;
			return -1;
		}
		ns = thread_ns;
	} else {
		return (int)syscall(SYS_clock_gettime, clock, ts);
	}
	ts->tv_sec = (time_t)(ns / SP_NS_PER_S);
	ts->tv_nsec = (long)(ns % SP_NS_PER_S);
	return 0;
}

#endif
