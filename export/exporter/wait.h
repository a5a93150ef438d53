/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host asks for: flushes, and its end; and what is looked after meanwhile.
 */
#ifndef SP_WAIT_H
#define SP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"
#include "export/exporter/threads.h"
#include "export/exporter/view.h"
#include "export/exporter/watch.h"
#include "sampler/config/config.h"

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
	struct sp_threads threads;
	uint64_t filters;    /* over the host at first: sp_threads_filters() */
	uint64_t news_ns;    /* of the last sp_waiter_news() */
	uint64_t look_ns;    /* when the host is looked at next */
	uint64_t idle_ns;    /* the same for one in which nothing moves */
	uint64_t image_ns;   /* when its memory map is */
	uint64_t rights_ns;  /* when its rights were compared with ours */
	uint64_t leaving_ns; /* since when it wants to be another program; 0 = it does not */
	uint64_t end_ns;     /* of the flush in progress; 0 = there is none */
	uint32_t answer;     /* what flush_done will be then */
	bool has_moved;      /* set by whoever found something in its rings */
	bool is_still;       /* nothing has moved since its memory map was read */
	bool is_told_of_end; /* somebody waits for the pidfd, and sets has_died; else it is polled */
	bool has_died;
	bool gone;   /* the host is dead, or another program, or barred */
	bool barred; /* we have rights that it has given up: nothing of it may be opened */
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
