/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans whose end never comes: the host forgot it, or ended it in a way that no hook sees. They must
 * not label a thread for ever, nor keep the table's places from others.
 */
#ifndef SP_SPAN_AGE_H
#define SP_SPAN_AGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/span_table.h"

/*
 * A full table gives up spans that are at least this old, by the wall clock. Many programs have
 * requests of seconds; few have thousands of requests at once that take minutes.
 */
#define SP_SPAN_AGE_CROWDED_NS (UINT64_C(60) * 1000000000)

/*
 * APP, every few seconds. Ages out each open span that was met by a call at least max_age_ns ago.
 * now_ns is of a clock that only goes forward; the wall clock would age everything in a leap.
 */
void sp_span_age_sweep(uint64_t now_ns, uint64_t max_age_ns);

/*
 * APP. The table has no place for that span: the oldest in its way goes if it is old enough. True
 * if one went.
 */
bool sp_span_age_make_room(const struct sp_span_record *r, bool by_handle);

/* Forked child, only thread. */
void sp_span_age_forked(void);

#endif
