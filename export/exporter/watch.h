/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that waits for the end of the host and then wakes the one that sleeps on the region's futex,
 * as no system call waits for both. It opens nothing, but has the rights that we had when it began: it is
 * to be started anew when they change.
 */
#ifndef SP_WATCH_H
#define SP_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "export/exporter/host.h"

struct sp_watch {
	const struct sp_host *host;
	_Atomic uint32_t *wake;
	pthread_t thread;
	int stop; /* an eventfd */
	bool runs;
	_Atomic bool ended; /* the host has */
};

/* 0 or a negative errno; then whoever waits has to look for himself, with sp_host_lives(). */
int sp_watch_start(struct sp_watch *w, const struct sp_host *h, _Atomic uint32_t *wake);
void sp_watch_stop(struct sp_watch *w);

#endif
