/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/exporter/watch.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "export/exporter/view.h"
#include "export/util/clock.h"

#define STACK_BYTES ((size_t)32 << 10)
/* Wakes that come so soon after the last one are not from a correct host. */
#define SOON_NS (20 * SP_NS_PER_MS)
#define PAUSE_MAX_NS (16 * SP_NS_PER_MS)

static void sleep_ns(uint64_t ns)
{
	const struct timespec ts = {.tv_nsec = (long)ns};

	(void)nanosleep(&ts, NULL);
}

/* If the counter of the eventfd is full, a wake is pending anyway. */
static void fire(struct sp_watch *w)
{
	const uint64_t one = 1;

	/* Pairs with the owner's exchange: what had changed before is seen after it. */
	atomic_store_explicit(&w->has_fired, true, memory_order_release);
	if (write(w->event, &one, sizeof(one)) < 0)
		sleep_ns(SP_NS_PER_MS);
}

/* How long to ignore wakes after one, so that nobody can keep us busy. */
static uint64_t pause_after(uint64_t pause_ns, uint64_t since_ns)
{
	if (since_ns > SOON_NS)
		return 0;
	return pause_ns < PAUSE_MAX_NS ? pause_ns * 2 + SP_NS_PER_MS / 4 : PAUSE_MAX_NS;
}

static void *watch(void *arg)
{
	struct sp_watch *w = arg;
	uint32_t seen = w->seen;
	uint64_t last = 0;
	uint64_t pause_ns = 0;

	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		uint32_t now;

		(void)syscall(SYS_futex, w->wake, FUTEX_WAIT, seen, NULL, NULL, 0);
		now = atomic_load_explicit(w->wake, memory_order_acquire);
		pause_ns = pause_after(pause_ns, sp_clock_mono_ns() - last);
		last = sp_clock_mono_ns();
		if (now != seen)
			fire(w);
		seen = now;
		if (pause_ns != 0)
			sleep_ns(pause_ns);
	}
	return NULL;
}

int sp_watch_start(struct sp_watch *w, _Atomic uint32_t *wake, int event)
{
	pthread_attr_t attr;
	int err;

	w->wake = wake;
	w->event = event;
	/*
	 * Changes from now on are noticed, even before the thread has begun. What was asked for
	 * before is not, so the first event says that all has to be looked at.
	 */
	w->seen = atomic_load_explicit(wake, memory_order_acquire);
	w->runs = false;
	atomic_store_explicit(&w->stop, false, memory_order_relaxed);
	err = pthread_attr_init(&attr);
	if (err == 0) {
		(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
		err = pthread_create(&w->thread, &attr, watch, w);
		(void)pthread_attr_destroy(&attr);
	}
	w->runs = err == 0;
	fire(w);
	return -err;
}

void sp_watch_stop(struct sp_watch *w)
{
	if (!w->runs)
		return;
	atomic_store_explicit(&w->stop, true, memory_order_release);
	/* Another process may undo our change of the word at any time, so it is repeated. */
	do {
		atomic_fetch_add_explicit(w->wake, 1, memory_order_release);
		sp_view_wake(w->wake);
		sleep_ns(SP_NS_PER_MS / 10);
	} while (pthread_tryjoin_np(w->thread, NULL) != 0);
	w->runs = false;
}
