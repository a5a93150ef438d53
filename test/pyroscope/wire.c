/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf wire format; see wire.h. */
#include "test/pyroscope/wire.h"

#include <errno.h>

static int read_varint(struct pd_bytes *in, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t c;

		if (in->len == 0)
			return -EBADMSG;
		c = in->at[0];
		in->at++;
		in->len--;
		/* The tenth byte may have only one bit of the 64. */
		if (shift == 63 && c > 1)
			return -EBADMSG;
		value |= (uint64_t)(c & 0x7f) << shift;
		if (c < 0x80) {
			*out = value;
			return 0;
		}
	}
	return -EBADMSG;
}

static int read_fixed(struct pd_bytes *in, size_t size, uint64_t *out)
{
	if (in->len < size)
		return -EBADMSG;
	*out = 0;
	for (size_t i = 0; i < size; i++)
		*out |= (uint64_t)in->at[i] << (8 * i);
	in->at += size;
	in->len -= size;
	return 0;
}

static int read_bytes(struct pd_bytes *in, struct pd_bytes *out)
{
	uint64_t len = 0;

	if (read_varint(in, &len) != 0 || len > in->len)
		return -EBADMSG;
	*out = (struct pd_bytes){in->at, (size_t)len};
	in->at += len;
	in->len -= (size_t)len;
	return 0;
}

int pd_wire_next(struct pd_bytes *in, struct pd_field *f)
{
	uint64_t tag = 0;
	int rc = -EBADMSG;

	if (in->len == 0)
		return 0;
	if (read_varint(in, &tag) != 0 || tag >> 3 == 0 || tag > UINT32_MAX)
		return -EBADMSG;
	*f = (struct pd_field){.number = (uint32_t)(tag >> 3)};
	switch (tag & 7) {
	case PD_WIRE_VARINT:
		f->type = PD_WIRE_VARINT;
		rc = read_varint(in, &f->value);
		break;
	case PD_WIRE_FIXED64:
		f->type = PD_WIRE_FIXED64;
		rc = read_fixed(in, 8, &f->value);
		break;
	case PD_WIRE_BYTES:
		f->type = PD_WIRE_BYTES;
		rc = read_bytes(in, &f->bytes);
		break;
	case PD_WIRE_FIXED32:
		f->type = PD_WIRE_FIXED32;
		rc = read_fixed(in, 4, &f->value);
		break;
	default:
		break;
	}
	return rc == 0 ? 1 : rc;
}

int64_t pd_wire_count(struct pd_bytes in, uint32_t number)
{
	struct pd_field f;
	int64_t n = 0;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0)
		n += f.number == number;
	return rc < 0 ? rc : n;
}

/* A packed field has as many numbers as bytes without the continuation bit. */
static int count_numbers(struct pd_bytes in, uint32_t number, size_t *count)
{
	struct pd_field f;
	int rc;

	*count = 0;
	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number != number)
			continue;
		if (f.type == PD_WIRE_VARINT)
			++*count;
		else if (f.type != PD_WIRE_BYTES)
			return -EBADMSG;
		else
			for (size_t i = 0; i < f.bytes.len; i++)
				*count += f.bytes.at[i] < 0x80;
	}
	return rc;
}

int pd_wire_numbers(struct pd_arena *a, struct pd_bytes in, uint32_t number, uint64_t **out,
		    size_t *count)
{
	struct pd_field f;
	size_t n = 0;

	if (count_numbers(in, number, count) != 0)
		return -EBADMSG;
	*out = pd_arena_calloc(a, *count, sizeof(**out));
	while (pd_wire_next(&in, &f) > 0) {
		if (f.number != number)
			continue;
		if (f.type == PD_WIRE_VARINT)
			(*out)[n++] = f.value;
		while (f.bytes.len > 0)
			if (read_varint(&f.bytes, &(*out)[n++]) != 0)
				return -EBADMSG;
	}
	return 0;
}

int pd_wire_message(struct pd_bytes in, uint64_t *values, uint32_t max, uint64_t skip)
{
	struct pd_field f;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number > max || (skip >> f.number & 1) != 0)
			continue;
		if (f.type != PD_WIRE_VARINT)
			return -EBADMSG;
		values[f.number] = f.value;
	}
	return rc;
}
