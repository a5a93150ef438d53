/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes that lead from a span to its profile, the same for every SDK. APP context. */
#ifndef SP_SPAN_ATTR_H
#define SP_SPAN_ATTR_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/span_table.h"

/*
 * The span, which is about to be ended, gets any attribute at all. With
 * SPANPROF_ATTRIBUTES=with-samples the calling thread's samples do not show it from then on.
 */
bool sp_span_attr_wanted(const struct sp_span_record *r);

/* How an SDK sets one; key and string are NUL-terminated and live only during the call. */
struct sp_span_attr_set {
	void (*string)(void *span, const char *key, const char *value);
	void (*integer)(void *span, const char *key, int64_t value);
};

/*
 * Calls set once per attribute that this span gets: pyroscope.profile.id on every span whose id can
 * be a sample's label, pyroscope.profile.url and the others when URLs are configured,
 * spanprof.cpu_time_ns where it is asked for. With SPANPROF_ATTRIBUTES=with-samples only spans
 * with a sample under their id get any; a sample that another thread is just taking comes too late,
 * and so does one of a child that outlives its root. To be called before the real end, so that the
 * time range is the span's.
 */
void sp_span_attr_apply(const struct sp_span_record *r, const struct sp_span_attr_set *set,
			void *span);

#endif
