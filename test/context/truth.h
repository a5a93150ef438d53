/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host of these tests (test/hosts/context.c) says of itself, and the reader (reader.c)
 * reads together with a thread's record.
 */
#ifndef TEST_CONTEXT_TRUTH_H
#define TEST_CONTEXT_TRUTH_H

#include <stdint.h>

#define TRUTH_THREADS 8

/* Open spans of the thread; while a call into the SDK is under way, with this bit. */
#define TRUTH_CHANGING 0x80000000U

struct truth {
	_Atomic uint32_t tid; /* 0 = not yet there */
	_Atomic uint32_t open;
	_Atomic uint32_t changes; /* of what is said */
};

#endif
