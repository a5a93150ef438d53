/* SPDX-License-Identifier: Apache-2.0 */
/* W3C Trace Context: the traceparent header. Any context; pure. */
#ifndef SP_TRACEPARENT_H
#define SP_TRACEPARENT_H

#include <stdbool.h>
#include <stdint.h>

struct sp_traceparent {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	bool sampled;
};

/*
 * Reads "00-<32 hex>-<16 hex>-<2 hex>" at the start of text (more may follow). False when it is
 * malformed or an id is all zero.
 */
bool sp_traceparent_parse(const char *text, struct sp_traceparent *out);

#endif
