/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps on a region's futex, because no system call waits for a futex and for anything
 * else, and tells of each wake by an eventfd. It opens nothing, but has the rights that we had when it
 * began: it is to be started anew when they change.
 */
#ifndef SP_WATCH_H
#define SP_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sp_watch {
	_Atomic uint32_t *wake;
	int event; /* an eventfd */
	uint32_t seen;
	pthread_t thread;
	bool runs;
	_Atomic bool stop;
};

/* 0 or a negative errno; then whoever waits has to look for himself now and then. */
int sp_watch_start(struct sp_watch *w, _Atomic uint32_t *wake, int event);

/* No-op if it does not run. */
void sp_watch_stop(struct sp_watch *w);

#endif
