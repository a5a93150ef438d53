/* SPDX-License-Identifier: Apache-2.0 */
/* Another thread of the host, which says who it is in idle_tid, and ends when it is told to stop. */
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

/* Returns once it runs. */
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
