/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads protobuf's wire format. The double has its own reader, so that a mistake in the project's
 * encoder cannot be hidden by the same mistake here.
 */
#ifndef PD_WIRE_H
#define PD_WIRE_H

#include "test/pyroscope/base.h"

enum pd_wire_type {
	PD_WIRE_VARINT = 0,
	PD_WIRE_FIXED64 = 1,
	PD_WIRE_BYTES = 2,
	PD_WIRE_FIXED32 = 5
};

struct pd_field {
	uint32_t number;
	enum pd_wire_type type;
	uint64_t value;        /* value of a number */
	struct pd_bytes bytes; /* content of PD_WIRE_BYTES */
};

/*
 * Reads a field. 1, and *in is advanced; 0 at the end; -EBADMSG. Groups are refused, because no
 * message here has any.
 */
int pd_wire_next(struct pd_bytes *in, struct pd_field *f);

/* How often the field occurs, or -EBADMSG when the message is broken. */
int64_t pd_wire_count(struct pd_bytes in, uint32_t number);

/* Reads all values of a repeated number, packed or not. 0 or -EBADMSG. */
int pd_wire_numbers(struct pd_arena *a, struct pd_bytes in, uint32_t number, uint64_t **out,
		    size_t *count);

/*
 * Reads a message whose fields 1 .. max are single numbers into values[1 .. max]; the last one
 * wins. Fields in skip (bit n = field n) are left alone. 0 or -EBADMSG.
 */
int pd_wire_message(struct pd_bytes in, uint64_t *values, uint32_t max, uint64_t skip);

#endif
