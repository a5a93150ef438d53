/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/backoff.h"

#include "sampler/base/compiler.h"

#define BASE_MS UINT64_C(1000)
#define CAP_MS UINT64_C(30000)
#define RETRY_AFTER_MAX_MS UINT64_C(300000)

void sp_backoff_count(struct sp_backoff *b, uint64_t era, bool good)
{
	if (era != b->era)
		return;
	if (good) {
		b->failures = 0;
		return;
	}
	b->failures++;
	b->era++;
}

void sp_backoff_wait(struct sp_backoff *b, uint32_t retry_after_s, uint64_t most_ms,
		     uint64_t now_ns, uint64_t random)
{
	uint64_t bound_ms = BASE_MS << (b->failures < 6 ? b->failures : 6);
	uint64_t floor_ms = (uint64_t)retry_after_s * 1000;
	uint64_t wait_ms;
	uint64_t until_ns;

	if (bound_ms > CAP_MS)
		bound_ms = CAP_MS;
	if (bound_ms > most_ms)
		bound_ms = most_ms;
	if (floor_ms > RETRY_AFTER_MAX_MS)
		floor_ms = RETRY_AFTER_MAX_MS;
	wait_ms = random % (bound_ms + 1);
	if (wait_ms < floor_ms)
		wait_ms = floor_ms;
	until_ns = now_ns + wait_ms * SP_NS_PER_MS;
	/* If several requests failed side by side, the longest wait counts. */
	if (until_ns > b->until_ns)
		b->until_ns = until_ns;
}

bool sp_backoff_over(const struct sp_backoff *b, uint64_t now_ns)
{
	return now_ns >= b->until_ns;
}
