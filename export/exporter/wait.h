/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a host, for flushes and for the end of the exporter, and its state between
 * requests.
 */
#ifndef SP_WAIT_H
#define SP_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/confinement.h"
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
	_Atomic bool has_fired; /* a wake has come since the owner cleared this */
	_Atomic bool stop;
};

/*
 * Reports once at the beginning, because the region may have changed before. 0 or a negative errno;
 * then the caller has to poll, and sp_waiter_changes() tries to start it again.
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
	uint32_t running; /* a thread that ran; 0 = none seen */
	uint64_t ran;     /* its CPU time then, in ticks */
};

struct sp_threads_known {
	uint32_t known; /* known to the host's side */
	uint32_t armed;
	uint32_t refused; /* without a timer, and a scan would not change that */
};

/* Looks and compares. True if the host should scan. */
bool sp_threads_compare(struct sp_threads *t, const struct sp_host *h,
			const struct sp_threads_known *k);

/*
 * Sends the signal with that value to a thread of the host that ran at this call and at the one
 * before, and has used CPU time in between. False if there is none, or the signal cannot be sent.
 */
bool sp_threads_rouse(struct sp_threads *t, const struct sp_host *h, int signo, uint64_t value);

/* The kernel's name of that thread, padded with NUL; all NUL if it is gone. */
void sp_threads_name(const struct sp_host *h, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

struct sp_waiter;
struct sp_member;

/* Functions for what concerns all processes of the exporter. */
struct sp_family_hook {
	/*
	 * Makes the exporter give up the rights that this process has given up. 0 or a negative
	 * errno: nothing has changed.
	 */
	int (*follow)(void *arg, const struct sp_waiter *process);
	/* The process that started us ends, so we have to end, too. Nobody joins any more. */
	void (*end)(void *arg);
	/* The process with that number, if this exporter serves it. */
	struct sp_member *(*find)(void *arg, uint32_t pid);
	void *arg;
	bool ends;
};

struct sp_waiter {
	struct sp_view *view;
	struct sp_host *host;
	const struct sp_config *config;
	const struct sp_family_hook *family;
	struct sp_watch watch; /* its owner starts and stops it */
	/* The fields that are read while the host is idle are together, up to `threads`. */
	uint64_t news_ns;    /* of the last sp_waiter_changes() */
	uint64_t idle_ns;    /* the time of the next look at a host that is idle */
	uint64_t cpu_ns;     /* the host's CPU time at news_ns; 0 = unknown */
	uint64_t leaving_ns; /* since when it has announced an exec; 0 = it has not */
	uint64_t end_ns;     /* end of the flush in progress; 0 = none */
	uint32_t answer;     /* the value of flush_done after it */
	bool is_asked_again; /* another flush was asked for during the last one */
	bool has_moved;      /* set by the caller that found records in its rings */
	bool is_still;       /* no sign of activity since its memory map was read */
	bool rests;          /* it had used no CPU time at the last call */
	bool is_told_of_end; /* a pidfd tells its end, and sets has_died; otherwise we poll */
	bool has_died;
	bool gone;   /* the host is dead, or another program, or barred, or has confined itself */
	bool barred; /* we have rights that it has given up: nothing of it may be opened */
	struct sp_threads threads;
	/* the host's CPU time when threads came last, or when its side knew all threads */
	uint64_t unseen_cpu_ns;
	uint32_t unanswered;       /* looks since a scan was asked for that nobody has done */
	uint64_t often_ns;         /* until when we look more often */
	enum sp_confined confined; /* since it came; then nothing of it is read any more */
	int64_t free_ns; /* just before the last look that found it not confined; CLOCK_REALTIME */
	uint64_t watch_ns;  /* when we try again to start the watching thread */
	uint64_t look_ns;   /* the next look, if it is active */
	uint64_t image_ns;  /* the next read of its memory map */
	uint64_t stack_ns;  /* the next read of its stack's address */
	uint64_t stack;     /* the stack's address at the last read */
	uint64_t rights_ns; /* when its rights were compared last */
	/* since when the comparison fails for want of memory or descriptors; 0 = it does not */
	uint64_t short_ns;
};

void sp_waiter_init(struct sp_waiter *w, struct sp_view *v, struct sp_host *h,
		    const struct sp_config *config, const struct sp_family_hook *family);

/* As struct sp_core_ops has them. */
uint64_t sp_waiter_due_ns(const struct sp_waiter *w);
bool sp_waiter_may_open(struct sp_waiter *w);

/*
 * As sp_waiter_may_open(), before records are taken from its rings; the answer may be a tenth of a
 * second old.
 */
bool sp_waiter_may_take(struct sp_waiter *w);
unsigned sp_waiter_changes(struct sp_waiter *w);
uint32_t sp_waiter_left_ms(const struct sp_waiter *w);
bool sp_waiter_pending(const struct sp_waiter *w);

/*
 * The number of threads that the host's side does not know, although the host has used CPU time,
 * during which it should have found them.
 */
uint32_t sp_waiter_unseen(const struct sp_waiter *w);

void sp_waiter_flushed(struct sp_waiter *w);

#endif
