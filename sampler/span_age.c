/* SPDX-License-Identifier: Apache-2.0 */
/* Aging out. Context: APP; bounded, lock-free. */
#include "sampler/span_age.h"

#include <stddef.h>

#include "sampler/arena.h"
#include "sampler/span.h"
#include "sampler/span_table_sig.h"

/* When a sweep first met the span of an entry. Apart from the table: APP writes nothing for it. */
struct met {
	uint32_t ref;
	uint32_t ms; /* wraps after 49 days, and the longest age is shorter */
};
static struct met *met;

#define MET_BYTES (SP_SPANS_MAX * sizeof(struct met))
#define NS_PER_MS UINT64_C(1000000)

void sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns)
{
	uint32_t now = (uint32_t)(now_ns / NS_PER_MS);
	uint32_t max_age = (uint32_t)(max_age_ns / NS_PER_MS);
	struct sp_span_record r;
	uint32_t at = 0;

	if (sp_span_table_count() == 0)
		return;
	if (met == NULL)
		met = sp_arena_map(MET_BYTES);
	while (met != NULL && sp_span_table_next(&at, &r)) {
		struct met *m = &met[(r.ref & SP_SPAN_NUMBER_MASK) - 1];

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

void sp_span_age_forked(void)
{
	if (met != NULL)
		sp_arena_wipe(met, MET_BYTES);
}
