/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host asks for: flushes, and its end; and what is looked after meanwhile.
 */
#ifndef SP_WAIT_H
#define SP_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"
#include "export/exporter/view.h"
#include "sampler/config/config.h"
#include "sampler/region/record.h"

/*
 * A thread that sleeps on a region's futex and reports each wake by an eventfd, because no system
 * call waits for a futex and for descriptors at once. It opens nothing, but keeps the rights that
 * we had when it began: it has to be restarted when they change.
 */
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
 * then the caller has to poll, and sp_waiter_news() tries it again.
 */
int sp_watch_start(struct sp_watch *w, _Atomic uint32_t *wake, int event);

/* No-op if it does not run. */
void sp_watch_stop(struct sp_watch *w);

/*
 * Compares the threads of the host in /proc with those that its side knows, to decide whether its
 * next hook shall scan for new ones or for threads without a timer.
 */
struct sp_threads {
	uint32_t seen;    /* at the last look */
	uint32_t looks;   /* since the last advice */
	uint32_t pause;   /* looks to skip, because a scan did not help */
	uint32_t advised; /* armed threads when a scan was last asked for */
};

struct sp_threads_known {
	uint32_t known; /* known to the host's side */
	uint32_t armed;
};

/* Compares now. True if the host should scan. */
bool sp_threads_look(struct sp_threads *t, const struct sp_host *h,
		     const struct sp_threads_known *k);

/*
 * A number that grows when the host's first thread gets one more seccomp filter, or strict mode; 0
 * if unknown. Linux shows the count of filters since 5.10.
 */
uint64_t sp_threads_filters(const struct sp_host *h);

/* The kernel's name of that thread, padded with NUL; all NUL if it is gone. */
void sp_threads_name(const struct sp_host *h, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

struct sp_waiter;

/* What concerns all processes. */
struct sp_family_hook {
	/*
	 * All that has our rights gives up as many as this process has given up. 0 or a negative
	 * errno: they stay as they are.
	 */
	int (*follow)(void *arg, const struct sp_waiter *process);
	/* The process that has started us ends: we have to, too. Nobody joins any more. */
	void (*end)(void *arg);
	void *arg;
	bool ends;
};

struct sp_waiter {
	struct sp_view *view;
	struct sp_host *host;
	const struct sp_config *config;
	const struct sp_family_hook *family;
	struct sp_watch watch; /* its owner starts and stops it */
	/* What is asked for while the host does nothing lies together, up to where its threads are. */
	uint64_t news_ns;    /* of the last sp_waiter_news() */
	uint64_t idle_ns;    /* when one is looked at next in which nothing moves, or that rests */
	uint64_t cpu_ns;     /* that it had used by news_ns; 0 = unknown */
	uint64_t leaving_ns; /* since when it wants to be another program; 0 = it does not */
	uint64_t end_ns;     /* of the flush in progress; 0 = there is none */
	uint32_t answer;     /* what flush_done will be then */
	bool is_asked_again; /* for a flush, while another one was in progress */
	bool has_moved;      /* set by whoever found something in its rings */
	bool is_still;       /* nothing has moved since its memory map was read */
	bool rests;          /* it had used none since the call before that */
	bool is_told_of_end; /* somebody waits for the pidfd, and sets has_died; else it is polled */
	bool has_died;
	bool gone;   /* the host is dead, or another program, or barred */
	bool barred; /* we have rights that it has given up: nothing of it may be opened */
	struct sp_threads threads;
	uint64_t filters; /* over the host at first: sp_threads_filters() */
	uint64_t
		watch_ns; /* when the thread that watches is tried again, if it could not be made */
	uint64_t look_ns; /* when the host is looked at next, if something moves in it */
	uint64_t image_ns;  /* when its memory map is */
	uint64_t stack_ns;  /* when the beginning of its stack is */
	uint64_t stack;     /* that was there */
	uint64_t rights_ns; /* when its rights were compared with ours */
	uint64_t
		short_ns; /* since when that has failed for want of memory or descriptors; 0 = it has not */
};

void sp_waiter_init(struct sp_waiter *w, struct sp_view *v, struct sp_host *h,
		    const struct sp_config *config, const struct sp_family_hook *family);

/* As struct sp_core_ops has them. */
uint64_t sp_waiter_due_ns(const struct sp_waiter *w);
bool sp_waiter_may_open(struct sp_waiter *w);

/* The same before something is taken from its rings: as it was a tenth of a second ago. */
bool sp_waiter_may_take(struct sp_waiter *w);
unsigned sp_waiter_news(struct sp_waiter *w);
uint32_t sp_waiter_left_ms(const struct sp_waiter *w);
bool sp_waiter_pending(const struct sp_waiter *w);
void sp_waiter_flushed(struct sp_waiter *w);

#endif
