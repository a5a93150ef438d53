/* SPDX-License-Identifier: Apache-2.0 */
/* Both steps of ending a span in the table of open spans. */
#ifndef SP_TEST_SPAN_REMOVE_H
#define SP_TEST_SPAN_REMOVE_H

#include "sampler/open_spans/span_table.h"

static inline bool sp_test_span_remove(uint64_t span_id, struct sp_span_record *out)
{
	if (!sp_span_table_by_id(span_id, out) || !sp_span_table_close(out))
		return false;
	sp_span_table_release(out);
	return true;
}

#endif
