/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that waits for the end of the host. */
#define _GNU_SOURCE
#include "export/exporter/watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 100 /* where there is no pidfd */
#define STACK_BYTES ((size_t)64 << 10)

/* The kernel had no memory for poll(): whoever gave up here would outlive the host for ever. */
static bool stops_after_pause(const struct sp_watch *w)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
	uint64_t written;

	(void)nanosleep(&pause, NULL);
	return read(w->stop, &written, sizeof(written)) > 0;
}

static void *watch(void *arg)
{
	struct sp_watch *w = arg;
	struct pollfd p[2] = {{.fd = w->stop, .events = POLLIN},
			      {.fd = w->host->pidfd, .events = POLLIN}};

	for (;;) {
		int n = poll(p, 2, w->host->pidfd >= 0 ? -1 : LOOK_MS);

		if (n < 0 && errno != EINTR && stops_after_pause(w))
			return NULL;
		if (n > 0 && p[0].revents != 0)
			return NULL;
		if (sp_host_lives(w->host))
			continue;
		atomic_store_explicit(&w->ended, true, memory_order_release);
		atomic_fetch_add_explicit(w->wake, 1, memory_order_release);
		sp_view_wake(w->wake);
		return NULL;
	}
}

int sp_watch_start(struct sp_watch *w, const struct sp_host *h, _Atomic uint32_t *wake)
{
	pthread_attr_t attr;
	int err;

	w->host = h;
	w->wake = wake;
	w->runs = false;
	w->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->stop < 0)
		return -errno;
	err = pthread_attr_init(&attr);
	if (err == 0) {
		(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
		err = pthread_create(&w->thread, &attr, watch, w);
		(void)pthread_attr_destroy(&attr);
	}
	w->runs = err == 0;
	if (err != 0)
		(void)close(w->stop);
	return -err;
}

void sp_watch_stop(struct sp_watch *w)
{
	const uint64_t one = 1;

	if (!w->runs)
		return;
	/* Room for more is always there: it is written once. */
	if (write(w->stop, &one, sizeof(one)) == (ssize_t)sizeof(one))
		(void)pthread_join(w->thread, NULL);
	(void)close(w->stop);
	w->runs = false;
}
