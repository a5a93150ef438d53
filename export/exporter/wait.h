/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping until there is something to do, and what there is: flushes that the host asks for, its end,
 * and what is looked after meanwhile. One per process.
 */
#ifndef SP_WAIT_H
#define SP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"
#include "export/exporter/messages.h"
#include "export/exporter/threads.h"
#include "export/exporter/view.h"
#include "export/exporter/watch.h"
#include "sampler/config.h"

struct sp_waiter {
	struct sp_view *view;
	struct sp_host *host;
	const struct sp_config *config;
	const struct sp_messages *messages;
	struct sp_watch watch;
	struct sp_threads threads;
	uint64_t look_ns;    /* when the host is looked at next */
	uint64_t rights_ns;  /* when its rights are */
	uint64_t image_ns;   /* when its memory map is */
	uint64_t leaving_ns; /* since when it wants to be another program; 0 = it does not */
	uint64_t end_ns;     /* of the flush in progress; 0 = there is none */
	uint32_t answer;     /* what flush_done will be then */
	bool gone;           /* the host is dead, or another program */
};

void sp_waiter_init(struct sp_waiter *w, struct sp_view *v, struct sp_host *h,
		    const struct sp_config *config, const struct sp_messages *messages);
void sp_waiter_fini(struct sp_waiter *w);

/* As struct sp_core_ops has them. */
unsigned sp_waiter_wait(struct sp_waiter *w, uint32_t timeout_ms);
uint32_t sp_waiter_left_ms(const struct sp_waiter *w);
bool sp_waiter_pending(const struct sp_waiter *w);
void sp_waiter_flushed(struct sp_waiter *w);

#endif
