/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up spans that are too old (span_age.h). Context: APP; bounded, lock-free. */
#include "sampler/span/span_age.h"

#include <stddef.h>
#include <time.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table_sig.h"
#include "sampler/span/span.h"

/*
 * When a sweep first saw the span of a table entry. Kept apart from the table, so that starts of
 * spans need not write it.
 */
struct first_seen {
	uint32_t ref;
	uint32_t ms; /* wraps after 49 days, and the longest age is shorter */
};
static struct first_seen *first_seen;

#define FIRST_SEEN_BYTES (SP_SPANS_MAX * sizeof(struct first_seen))
#define NS_PER_MS UINT64_C(1000000)

void sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns)
{
	uint32_t now = (uint32_t)(now_ns / NS_PER_MS);
	uint32_t max_age = (uint32_t)(max_age_ns / NS_PER_MS);
	struct sp_span_record r;
	uint32_t at = 0;

	if (sp_span_table_count() == 0)
		return;
	if (first_seen == NULL)
		first_seen = sp_arena_map(FIRST_SEEN_BYTES);
	while (first_seen != NULL && sp_span_table_next(&at, &r)) {
		struct first_seen *m = &first_seen[(r.ref & SP_SPAN_NUMBER_MASK) - 1];

		if (m->ref != r.ref) {
			m->ref = r.ref;
			m->ms = now;
		} else if (now - m->ms >= max_age) {
			(void)sp_span_aged(&r);
		}
	}
}

bool sp_span_age_make_room(const struct sp_span_record *r, bool by_handle)
{
	struct sp_span_record oldest;

	return sp_span_table_oldest(r, by_handle, &oldest) && oldest.start_ns <= r->start_ns &&
	       r->start_ns - oldest.start_ns >= SP_SPAN_AGE_CROWDED_NS && sp_span_aged(&oldest);
}

_Atomic uint64_t sp_span_age_now_ns;

uint64_t sp_span_age_clock_ns(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return (uint64_t)ts.tv_sec * SP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void sp_span_age_tick(bool exact)
{
	atomic_store_explicit(&sp_span_age_now_ns, exact ? 0 : sp_span_age_clock_ns(),
			      memory_order_relaxed);
}

void sp_span_age_forked(void)
{
	atomic_store_explicit(&sp_span_age_now_ns, 0, memory_order_relaxed);
	if (first_seen != NULL)
		sp_arena_wipe(first_seen, FIRST_SEEN_BYTES);
}
