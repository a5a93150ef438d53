/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps on a region's futex and reports each wake by an eventfd, because no system
 * call waits for a futex and for descriptors at once. It opens nothing, but keeps the rights that
 * we had when it began: it has to be restarted when they change.
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
	_Atomic bool has_fired; /* since its owner has set this back */
	_Atomic bool stop;
};

/*
 * Reports once at the beginning, because the region may have changed before. 0 or a negative errno;
 * then the caller has to poll.
 */
int sp_watch_start(struct sp_watch *w, _Atomic uint32_t *wake, int event);

/* No-op if it does not run. */
void sp_watch_stop(struct sp_watch *w);

#endif
