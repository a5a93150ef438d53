/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the wire format of Protocol Buffers, with a table of the meaning of each field of each
 * message. Context: the exporter.
 */
#include "export/profile/pprof_wire.h"

#define WIRE_VARINT 0U
#define WIRE_64 1U
#define WIRE_BYTES 2U
#define WIRE_32 5U
#define FIELDS 16U

/* Fields of profile.proto. Others contain nothing that could change. */
static const uint8_t roles[SP_WIRE_MESSAGES][FIELDS] = {
	[SP_WIRE_PROFILE] = {[1] = SP_WIRE_VALUE_TYPE,
			     [2] = SP_WIRE_SAMPLE,
			     [3] = SP_WIRE_MAPPING,
			     [4] = SP_WIRE_LOCATION,
			     [5] = SP_WIRE_FUNCTION,
			     [6] = SP_WIRE_TEXT,
			     [7] = SP_WIRE_STRING_INDEX,
			     [8] = SP_WIRE_STRING_INDEX,
			     [11] = SP_WIRE_VALUE_TYPE,
			     [13] = SP_WIRE_STRING_INDEX,
			     [14] = SP_WIRE_STRING_INDEX},
	[SP_WIRE_VALUE_TYPE] = {[1] = SP_WIRE_STRING_INDEX, [2] = SP_WIRE_STRING_INDEX},
	[SP_WIRE_SAMPLE] = {[1] = SP_WIRE_LOCATION_ID, [3] = SP_WIRE_LABEL},
	[SP_WIRE_LABEL] = {[1] = SP_WIRE_STRING_INDEX,
			   [2] = SP_WIRE_STRING_INDEX,
			   [4] = SP_WIRE_STRING_INDEX},
	[SP_WIRE_MAPPING] =
		{[1] = SP_WIRE_MAPPING_ID, [5] = SP_WIRE_STRING_INDEX, [6] = SP_WIRE_STRING_INDEX},
	[SP_WIRE_LOCATION] =
		{[1] = SP_WIRE_LOCATION_ID, [2] = SP_WIRE_MAPPING_ID, [4] = SP_WIRE_LINE},
	[SP_WIRE_LINE] = {[1] = SP_WIRE_FUNCTION_ID},
	[SP_WIRE_FUNCTION] = {[1] = SP_WIRE_FUNCTION_ID,
			      [2] = SP_WIRE_STRING_INDEX,
			      [3] = SP_WIRE_STRING_INDEX,
			      [4] = SP_WIRE_STRING_INDEX},
};

uint64_t sp_wire_varint(struct sp_wire_reader *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		v |= (uint64_t)(byte & 127) << shift;
		if ((byte & 128) == 0)
			return v;
	}
	r->bad = true;
	return 0;
}

static void skip(struct sp_wire_reader *r, uint64_t n)
{
	r->bad = r->bad || n > (uint64_t)(r->end - r->at);
	r->at += r->bad ? 0 : n;
}

bool sp_wire_next(struct sp_wire_reader *r, enum sp_wire_role message, struct sp_wire_field *f)
{
	uint64_t tag, len = 0;

	if (r->bad || r->at == r->end)
		return false;
	*f = (struct sp_wire_field){.begin = r->at};
	tag = sp_wire_varint(r);
	f->behind = r->at;
	f->number = tag >> 3 < FIELDS ? (uint32_t)(tag >> 3) : 0;
	f->role = (enum sp_wire_role)roles[message][f->number];
	f->bytes = (tag & 7) == WIRE_BYTES;
	if (f->bytes)
		len = sp_wire_varint(r);
	f->content.at = r->at;
	if ((tag & 7) == WIRE_VARINT)
		(void)sp_wire_varint(r);
	else if (f->bytes || (tag & 7) == WIRE_64 || (tag & 7) == WIRE_32)
		skip(r, f->bytes ? len : (tag & 7) == WIRE_64 ? 8 : 4);
	else
		r->bad = true;
	f->content.end = r->at;
	/* Only numbers with a meaning may be unpacked, and not in a fixed width. */
	if (f->role != SP_WIRE_AS_IS && !f->bytes &&
	    (f->role <= SP_WIRE_TEXT || (tag & 7) != WIRE_VARINT))
		r->bad = true;
	return !r->bad;
}
