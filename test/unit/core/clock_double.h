/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU clocks that go as the test says: one for the process, one for each other thread, one for the
 * calling thread. To be included by one file of a program.
 */
#ifndef SP_TEST_CLOCK_DOUBLE_H
#define SP_TEST_CLOCK_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "sampler/base/cpu_clock.h"

static uint64_t thread_ns;
static uint64_t process_ns;
static uint64_t own_ns;
static bool thread_gone;

/* Instead of the kernel's. */
bool sp_cpu_clock_ns(clockid_t clock, uint64_t *ns)
{
	if (clock < 0 && thread_gone)
		return false;
	if (clock == CLOCK_PROCESS_CPUTIME_ID)
		*ns = process_ns;
	else
		*ns = clock == CLOCK_THREAD_CPUTIME_ID ? own_ns : thread_ns;
	return true;
}

#endif
