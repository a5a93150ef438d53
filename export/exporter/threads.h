/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the host as /proc shows them against those that its side knows: whether its next hook is to
 * look for new ones, or to give timers to some that have none.
 */
#ifndef SP_THREADS_H
#define SP_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"
#include "sampler/thread_name.h"

struct sp_threads {
	uint32_t seen;    /* at the last look */
	uint32_t looks;   /* since the last advice */
	uint32_t pause;   /* looks to let pass, as advice did not help */
	uint32_t advised; /* armed ones when it was last given */
};

struct sp_threads_known {
	uint32_t known; /* by the host's side */
	uint32_t armed;
	uint32_t signal_number;
};

/* Looks now. True if the host should scan. */
bool sp_threads_look(struct sp_threads *t, const struct sp_host *h,
		     const struct sp_threads_known *k);

/*
 * Whether that thread can be sent the signal now: does not block it, and does not wait in a call that has
 * replaced its mask, as far as the kernel shows that.
 */
bool sp_threads_take(const struct sp_host *h, uint32_t tid, uint32_t signal_number);

/*
 * A number that is a larger one when the host's first thread has come under one more seccomp filter, or
 * strict mode; 0 where that cannot be read. The count of filters is told by Linux 5.10 and later.
 */
uint64_t sp_threads_filters(const struct sp_host *h);

/* The kernel's name of that thread, padded with NUL; all NUL if it is gone. */
void sp_threads_name(const struct sp_host *h, uint32_t tid, char name[SP_THREAD_NAME_BYTES]);

#endif
