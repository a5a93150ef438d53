/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a span that lead to its profile, the same for every SDK. APP context. */
#ifndef SP_SPAN_ATTR_H
#define SP_SPAN_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "sampler/open_spans/span_table.h"

/*
 * Which spans the configuration gives attributes or other work at their end (sp_span_report_end()).
 */
enum sp_span_attr_when {
	SP_SPAN_ATTR_UNTRIED, /* initial value of a caller's copy */
	SP_SPAN_ATTR_NONE,
	SP_SPAN_ATTR_NOTED, /* spans that are marked in the span table (span_table.h) */
	SP_SPAN_ATTR_EACH,
};
enum sp_span_attr_when sp_span_attr_when(void);

/* The attributes that a span gets; 0 = none. */
enum sp_span_attr {
	SP_SPAN_ATTR_LINK = 1 << 0,  /* pyroscope.profile.id and the configured URLs */
	SP_SPAN_ATTR_TIMES = 1 << 1, /* the configured times (span_times.h) */
};

/*
 * The attributes (enum sp_span_attr) of a span. The caller has closed the span (sp_span_close()),
 * because a sample that came after this call would belong to a span without a link. A span that is
 * too short for a sample still gets its times.
 */
unsigned sp_span_attr_wanted(const struct sp_span_record *r);

/* For sp_span_attr_key(): the bit of that key, or 0. */
uint8_t sp_span_attr_find_key(const char *key, size_t len);

#define SP_SPAN_ATTR_LONGEST "spanprof.context_switches.involuntary"

/*
 * Whether the key may be one of our attributes. Programs set attributes all the time and hardly
 * ever one of ours; the length rules out most keys.
 */
static inline bool sp_span_attr_like_ours(const char *key, size_t len)
{
	return len >= sizeof("pyroscope.profile.id") - 1 &&
	       len <= sizeof(SP_SPAN_ATTR_LONGEST) - 1 &&
	       (memcmp(key, "pyroscop", 8) == 0 || memcmp(key, "spanprof", 8) == 0);
}

/* For sp_span_keys_add(): the bit of one of our attributes, or 0. */
static inline uint8_t sp_span_attr_key(const char *key, size_t len)
{
	return sp_span_attr_like_ours(key, len) ? sp_span_attr_find_key(key, len) : 0;
}

/*
 * The functions of an SDK that set an attribute; key and value are NUL-terminated and live only
 * during the call.
 */
struct sp_span_attr_set {
	void (*string)(void *span, const char *key, const char *value);
	void (*integer)(void *span, const char *key, int64_t value);
};

/*
 * Calls set once for each attribute that this span gets: pyroscope.profile.id and the configured
 * URLs, if samples can carry the id of the span; the configured times (span_times.h), if the span
 * is a local root; and no attribute that the program has set itself. With
 * SPANPROF_ATTRIBUTES=with-samples only a span with a sample under its id, of CPU time or of an
 * allocation, gets a link to its profile. A sample that another thread takes at this moment comes
 * too late, and so does a sample in a child that outlives the span. To be called before the real
 * end, and between sp_span_close() and sp_span_table_release().
 */
void sp_span_attr_apply(const struct sp_span_record *r, const struct sp_span_attr_set *set,
			void *span);

/* The same, with the result of a call of sp_span_attr_wanted() just before. */
void sp_span_attr_give(const struct sp_span_record *r, unsigned wanted,
		       const struct sp_span_attr_set *set, void *span);

#endif
