/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU clocks that the test sets: one for the process, one for each other thread, one for the calling thread. Only one
 * file of a program may include it.
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

/* Replaces the function that asks the kernel. */
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
