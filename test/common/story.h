/* SPDX-License-Identifier: Apache-2.0 */
/* What the stories of SDKs do besides talking to their SDK. */
#ifndef TEST_COMMON_STORY_H
#define TEST_COMMON_STORY_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "test/hosts/host.h"

/* Milliseconds of each piece of work; set before a story begins. */
extern int tell_piece_ms;

/* A piece of work, while that span is active: prints the CPU time that it used. */
static inline void tell_burn(const char *name, const char *root)
{
	int64_t before = host_cpu_ns();

	host_burn_ms(tell_piece_ms);
	printf("cpu %s %s %lld\n", name, root, (long long)(host_cpu_ns() - before));
}

/* Runs it on another thread, to its end. */
static inline void tell_elsewhere(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, run, argument) == 0);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
}

#endif
