/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the threads of the host in /proc with those that its side knows, to decide whether its
 * next hook shall scan for new ones or for threads without a timer.
 */
#ifndef SP_THREADS_H
#define SP_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/exporter/host.h"
#include "sampler/region/record.h"

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

#endif
