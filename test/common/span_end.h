/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a span as an adapter reports it, for tests in which attributes do not matter. */
#ifndef TEST_COMMON_SPAN_END_H
#define TEST_COMMON_SPAN_END_H

#include "sampler/span/span.h"

/* False if that object has no open span. */
static inline bool span_ended(const void *handle)
{
	struct sp_span_record r;

	if (!sp_span_of(handle, &r) || !sp_span_close(&r))
		return false;
	(void)sp_slow_roots_end(r.ref);
	sp_span_report_end(&r);
	sp_span_table_release(&r);
	return true;
}

#endif
