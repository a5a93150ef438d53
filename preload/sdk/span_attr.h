/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes that lead from a span to its profile, the same for every SDK. APP context. */
#ifndef SP_SPAN_ATTR_H
#define SP_SPAN_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "sampler/open_spans/span_table.h"

/* Which spans may get an attribute, or have something to be told (sp_span_tell_end()), as it is configured. */
enum sp_span_attr_when {
	SP_SPAN_ATTR_UNTRIED, /* for whoever keeps the answer */
	SP_SPAN_ATTR_NONE,
	SP_SPAN_ATTR_NOTED, /* those of which a note was made (span_table.h) */
	SP_SPAN_ATTR_EACH,
};
enum sp_span_attr_when sp_span_attr_when(void);

/* Which attributes a span gets; 0 = none. */
enum sp_span_attr {
	SP_SPAN_ATTR_LINK = 1 << 0,  /* pyroscope.profile.id and the URLs that are configured */
	SP_SPAN_ATTR_TIMES = 1 << 1, /* those of span_times.h that are configured */
};

/*
 * Which attributes (enum sp_span_attr) the span gets, which is closed (sp_span_close()): a sample that
 * came after this question would belong to a span without a link to it. A span that is too short for a
 * sample has its times all the same.
 */
unsigned sp_span_attr_wanted(const struct sp_span_record *r);

/* For sp_span_attr_key(): the bit of that key, or 0. */
uint8_t sp_span_attr_find_key(const char *key, size_t len);

#define SP_SPAN_ATTR_LONGEST "spanprof.context_switches.involuntary"

/*
 * Whether the key may be that of an attribute that we set. Programs set attributes all the time,
 * and hardly ever one of these: the length rules out most keys.
 */
static inline bool sp_span_attr_like_ours(const char *key, size_t len)
{
	return len >= sizeof("pyroscope.profile.id") - 1 &&
	       len <= sizeof(SP_SPAN_ATTR_LONGEST) - 1 &&
	       (memcmp(key, "pyroscop", 8) == 0 || memcmp(key, "spanprof", 8) == 0);
}

/* For sp_span_keys_add(): the bit of an attribute that we set, or 0. */
static inline uint8_t sp_span_attr_key(const char *key, size_t len)
{
	return sp_span_attr_like_ours(key, len) ? sp_span_attr_find_key(key, len) : 0;
}

/* How an SDK sets one; key and string are NUL-terminated and live only during the call. */
struct sp_span_attr_set {
	void (*string)(void *span, const char *key, const char *value);
	void (*integer)(void *span, const char *key, int64_t value);
};

/*
 * Calls set once for each attribute that this span gets: pyroscope.profile.id, and the URLs if they
 * are configured, on spans whose id can be a sample's label; on local roots those of span_times.h that
 * are configured; none that the program has set itself. With SPANPROF_ATTRIBUTES=with-samples only
 * spans with a sample under their id get a link to it; a sample that another thread is just taking
 * comes too late, and so does one of a child that outlives its root. To be called before the real end
 * and between sp_span_close() and sp_span_table_release().
 */
void sp_span_attr_apply(const struct sp_span_record *r, const struct sp_span_attr_set *set,
			void *span);

/* The same with the answer of sp_span_attr_wanted(), just asked. */
void sp_span_attr_give(const struct sp_span_record *r, unsigned wanted,
		       const struct sp_span_attr_set *set, void *span);

#endif
