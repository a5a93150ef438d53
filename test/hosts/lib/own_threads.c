/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes threads and waits for them. If it is opened with RTLD_DEEPBIND, it finds the C library before any preloaded
 * object, so none of its calls reaches a hook.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "test/hosts/host.h"

__attribute__((visibility("default"))) int own_threads_run(int threads, int ms, int *interrupted);

static int most_ms;
static volatile int is_over;
static int interruptions;

static void *work(void *arg)
{
	host_burn_ms(most_ms);
	return arg;
}

/* The kernel does not restart a poll(): it reports each signal that comes meanwhile. */
static void *sleep_on(void *arg)
{
	while (!is_over)
		interruptions += poll(NULL, 0, 50) < 0 && errno == EINTR;
	return arg;
}

/* 0, or an errno. Meanwhile one more thread sleeps, and so does the calling one. */
int own_threads_run(int threads, int ms, int *interrupted)
{
	pthread_t thread[64];
	pthread_t sleeper;
	int err = threads > 64 ? EINVAL : pthread_create(&sleeper, NULL, sleep_on, NULL);

	most_ms = ms;
	for (int i = 0; err == 0 && i < threads; i++)
		err = pthread_create(&thread[i], NULL, work, NULL);
	for (int i = 0; err == 0 && i < threads; i++)
		err = pthread_join(thread[i], NULL);
	is_over = 1;
	if (err == 0)
		err = pthread_join(sleeper, NULL);
	*interrupted = interruptions;
	return err;
}
