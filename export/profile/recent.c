/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last intervals of a process (recent.h). Context: the exporter. */
#include "export/profile/recent.h"

#include <string.h>

static uint32_t times_of(const struct sp_interval *i)
{
	const struct sp_stack_time *time;

	return sp_stack_map_times(i->map[SP_MAP_SAMPLES], &time) +
	       sp_stack_map_times(i->map[SP_MAP_WAITS], &time);
}

void sp_recent_lose(struct sp_recent *r, const struct sp_interval *interval)
{
	uint64_t end = interval->begun_ns + (uint64_t)interval->duration_ns;

	if (end > r->lost_ns)
		r->lost_ns = end;
}

static void release_oldest(struct sp_recent *r)
{
	sp_recent_lose(r, r->interval[0]);
	sp_interval_free(r->interval[0]);
	r->n--;
	memmove(r->interval, r->interval + 1, r->n * sizeof(struct sp_interval *));
}

bool sp_recent_put(struct sp_recent *r, struct sp_interval *interval)
{
	size_t bytes = 0;

	if (times_of(interval) == 0)
		return false;
	if (r->n == SP_RECENT_MAX)
		release_oldest(r);
	for (unsigned i = 0; i < r->n; i++)
		bytes += sp_interval_seal(r->interval[i]);
	while (r->n != 0 && bytes > SP_RECENT_BYTES) {
		bytes -= sp_interval_seal(r->interval[0]);
		release_oldest(r);
	}
	r->interval[r->n++] = interval;
	return true;
}

void sp_recent_fini(struct sp_recent *r)
{
	while (r->n != 0)
		release_oldest(r);
}
