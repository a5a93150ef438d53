/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a server that failed is asked again: it waits longer with each failure, with full jitter, but no longer
 * than the caller can, and as long as the server wishes.
 */
#ifndef SP_BACKOFF_H
#define SP_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at first: nothing has failed. */
struct sp_backoff {
	uint64_t until_ns; /* nothing is begun before */
	uint32_t failures; /* since the last success */
	uint64_t era;      /* how many failures there were; requests of one are side by side */
};

/* There is an answer, or none will come, to a request that was begun in that era. */
void sp_backoff_note(struct sp_backoff *b, uint64_t era, bool good);

/*
 * Waits, at most most_ms, or as long as the server has asked for (retry_after_s); random: any number,
 * uniformly.
 */
void sp_backoff_wait(struct sp_backoff *b, uint32_t retry_after_s, uint64_t most_ms,
		     uint64_t now_ns, uint64_t random);

/* Whether a request may be begun. */
bool sp_backoff_over(const struct sp_backoff *b, uint64_t now_ns);

#endif
