/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that the host of these tests (test/hosts/context.c) publishes about itself, which the reader (reader.c)
 * reads together with a thread's record.
 */
#ifndef TEST_CONTEXT_TRUTH_H
#define TEST_CONTEXT_TRUTH_H

#include <stdint.h>

#define TRUTH_THREADS 8

/* Open spans of the thread; this bit is set during a call into the SDK. */
#define TRUTH_CHANGING 0x80000000U

struct truth {
	_Atomic uint32_t tid; /* 0 = not started yet */
	_Atomic uint32_t open;
	_Atomic uint32_t changes; /* number of changes of this struct */
};

#endif
