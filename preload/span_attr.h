/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes that lead from a span to its profile, the same for every SDK. APP context. */
#ifndef SP_SPAN_ATTR_H
#define SP_SPAN_ATTR_H

#include <stdbool.h>

#include "sampler/span_table.h"

/*
 * The span, which is about to be ended, gets any attribute at all. With
 * SPANPROF_ATTRIBUTES=with-samples the calling thread's samples do not show it from then on.
 */
bool sp_span_attr_wanted(const struct sp_span_record *r);

/*
 * Calls set once per attribute that this span gets: pyroscope.profile.id on every span whose id can
 * be a sample's label, pyroscope.profile.url and the others when URLs are configured. Key and value are
 * NUL-terminated and live only during the call. With SPANPROF_ATTRIBUTES=with-samples only spans
 * with a sample under their id get any; a sample that another thread is just taking comes too late,
 * and so does one of a child that outlives its root. To be called before the real end, so that the
 * time range is the span's.
 */
void sp_span_attr_apply(const struct sp_span_record *r,
			void (*set)(void *span, const char *key, const char *value), void *span);

#endif
