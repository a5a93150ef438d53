/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the host that stores its id in idle_tid and ends when the test tells it to. */
#ifndef SP_TEST_BUSY_THREAD_H
#define SP_TEST_BUSY_THREAD_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic bool stop;
static _Atomic uint32_t idle_tid;

static inline void *work(void *arg)
{
	(void)arg;
	atomic_store(&idle_tid, (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&stop))
		continue;
	return NULL;
}

/* Returns once the thread runs. */
static inline pthread_t start_thread(void *(*routine)(void *), void *arg)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, routine, arg), 0);
	while (atomic_load(&idle_tid) == 0)
		continue;
	return thread;
}

static inline void stop_thread(pthread_t thread)
{
	atomic_store(&stop, true);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

#endif
