/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a packed profile field by field, without parsing it into messages. The bytes may be
 * anything; every result lies within them.
 */
#ifndef SP_PPROF_WIRE_H
#define SP_PPROF_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* What a field contains: a message, or a number with a meaning. */
enum sp_wire_role {
	SP_WIRE_AS_IS,
	SP_WIRE_PROFILE,
	SP_WIRE_VALUE_TYPE,
	SP_WIRE_SAMPLE,
	SP_WIRE_LABEL,
	SP_WIRE_MAPPING,
	SP_WIRE_LOCATION,
	SP_WIRE_LINE,
	SP_WIRE_FUNCTION,
	SP_WIRE_MESSAGES, /* those above are messages */
	SP_WIRE_TEXT,     /* an entry of the string table */
	SP_WIRE_STRING_INDEX,
	SP_WIRE_LOCATION_ID,
	SP_WIRE_MAPPING_ID,
	SP_WIRE_FUNCTION_ID,
	SP_WIRE_ROLES
};

struct sp_wire_reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

struct sp_wire_field {
	const uint8_t *begin;  /* the tag */
	const uint8_t *behind; /* the tag: a length, or the content */
	enum sp_wire_role role;
	uint32_t number;
	bool bytes;                    /* behind a length */
	struct sp_wire_reader content; /* the bytes, or the number */
};

/* A number, and 0 with r->bad when there is none. */
uint64_t sp_wire_varint(struct sp_wire_reader *r);

/* The next field of a message. False at the end, and if it is invalid (then r->bad). */
bool sp_wire_next(struct sp_wire_reader *r, enum sp_wire_role message, struct sp_wire_field *f);

#endif
