/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a server that failed gets the next request. The wait grows with each failure and is random
 * within its bound (full jitter). The bound is at most what the caller allows, but the wait is at
 * least as long as the server demands.
 */
#ifndef SP_BACKOFF_H
#define SP_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at first: nothing has failed. */
struct sp_backoff {
	uint64_t until_ns; /* no request is begun before */
	uint32_t failures; /* since the last success */
	/* number of failures so far; requests that were begun in the same era ran side by side */
	uint64_t era;
};

/*
 * A request that was begun in that era has ended, with success or not. If several requests fail
 * that were begun side by side, they count as one failure.
 */
void sp_backoff_count(struct sp_backoff *b, uint64_t era, bool good);

/*
 * Sets the time of the next request. The wait is random between 0 and a bound, so that clients do
 * not come back together. The bound doubles with each failure, up to most_ms. The wait is never
 * shorter than retry_after_s, which the server demanded. random: any number, uniformly distributed.
 * The bound belongs to the server, not to a profile: when the oldest profile has left the queue,
 * the next one is not sent any sooner.
 */
void sp_backoff_wait(struct sp_backoff *b, uint32_t retry_after_s, uint64_t most_ms,
		     uint64_t now_ns, uint64_t random);

/* Whether a request may be begun. */
bool sp_backoff_over(const struct sp_backoff *b, uint64_t now_ns);

#endif
